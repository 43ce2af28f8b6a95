"""Plans beside real runs: over a throttled S3 store, and from a local Delta table.

    python -m benchmarks.loader_plan [--rows 1200] [--latency-ms 20] [--mb-s 100]

Prints a line a case: predicted, measured, and measured over predicted.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from datalake.blocks.cache import BlockCache
from datalake.loader import Loader, Rows
from datalake.loader.planning import Setting, plan
from datalake.schema import media_field
from datalake.tables import create_table, open_table
from datalake.tables.protocol import Table
from datalake.uri import Location, StorageOptions
from tests.servers import s3_server
from tests.slow_store import SlowStore

SIZE: Final = 50_000
SCHEMA: Final = pa.schema([pa.field("n", pa.int64()), media_field("audio", "audio")])
CASES: Final[tuple[tuple[str, dict[str, Any], float], ...]] = (
    ("exact, all cached", {"order": "exact"}, 2.0),
    ("exact, half cached", {"order": "exact"}, 0.5),
    ("blocks of 8, half cached", {"order": "blocks", "working_set": 8}, 0.5),
    ("sequential, half cached", {"order": "sequential"}, 0.5),
)


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    parser.add_argument("--mb-s", type=float, default=100.0)
    given = parser.parse_args()
    print(f"{'':32}{'':>16}{'predicted':>12}{'measured':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        local = Location(f"{folder}/local.delta")
        filled(local, "delta", given.rows)
        compare("local delta", open_table(local, format="delta"), None, given)
        with server() as options:
            direct = Location("s3://lake/planned.lance", options)
            filled(direct, "lance", given.rows)
            rate = given.mb_s * 1e6
            with SlowStore(options, latency_s=given.latency_ms / 1e3, bytes_per_s=rate) as store:
                table = open_table(Location(direct.uri, store.options), format="lance")
                compare("s3 lance", table, store, given)


def filled(where: Location, table_format: str, count: int) -> None:
    """Write the rows."""
    rng = np.random.default_rng(0)
    audio = pa.array([rng.bytes(SIZE) for _ in range(count)], pa.large_binary())
    rows = pa.table({"n": range(count), "audio": audio}, schema=SCHEMA)
    create_table(where, SCHEMA, format=table_format).append(rows)


def compare(name: str, table: Table, store: SlowStore | None, given: argparse.Namespace) -> None:
    """Plan and run each case, two epochs."""
    for case, arguments, share in CASES:
        with tempfile.TemporaryDirectory() as folder:
            budget = int(table.num_bytes() * share)
            source = Rows(table, cache=BlockCache(Path(folder), budget_bytes=budget))
            loader = Loader(source, batch_size=64, tail="short", num_threads=2, **arguments)
            setting = Setting(
                batch_size=64,
                cache_bytes=budget,
                num_threads=2,
                bandwidth_mb_s=1000 if store is None else given.mb_s,
                latency_ms=0 if store is None else given.latency_ms,
            )
            # A cache of its own, so that the run begins cold.
            with tempfile.TemporaryDirectory() as other:
                twin = Rows(table, cache=BlockCache(Path(other), budget_bytes=budget))
                costs = plan(Loader(twin, num_threads=2), setting, calibrate_s=1.0).costs
            found = plan(loader, setting, costs=costs)
            for number, epoch in enumerate((found.first, found.later)):
                loader.reset_stats()
                if store is not None:
                    store.counts(reset=True)
                begin = time.perf_counter()
                for batch in loader:
                    del batch
                seconds = time.perf_counter() - begin
                stats = loader.stats()
                lines = {
                    "examples/s": (epoch.examples_per_s, stats.num_examples / seconds),
                    "MB of rows": (
                        epoch.num_bytes / 1e6,
                        stats.counts.get("origin_bytes", 0) / 1e6,
                    ),
                    "reads": (epoch.reads, stats.counts.get("origin_reads", 0)),
                    "mix": (found.quality["data"].mix, stats.quality["data"].mix),
                }
                if store is not None:
                    counts = store.counts()
                    lines["requests"] = (epoch.requests, counts["requests"])
                    lines["MB sent"] = (epoch.store_bytes / 1e6, counts["bytes"] / 1e6)
                for what, (planned, measured) in lines.items():
                    ratio = f"{measured / planned:8.2f}" if planned else "       -"
                    title = f"{name}, {case}, {number + 1}" if what == "examples/s" else ""
                    print(f"{title:40}{what:>12}{planned:12,.2f}{measured:12,.2f}{ratio}")


@contextmanager
def server() -> Iterator[StorageOptions]:
    """The tests' S3 server."""

    class Factory:
        def mktemp(self, name: str) -> Path:
            return Path(tempfile.mkdtemp(prefix=name))

    started: Any = getattr(s3_server, "__wrapped__", None) or s3_server._fixture_function
    running = started(Factory())
    try:
        yield next(running)
    finally:
        running.close()


if __name__ == "__main__":
    main()
