"""Select from very many key rows: seconds, peak memory, and whether the rows are the right ones.

    python benchmarks/selection.py                  # 10 million rows, checked against an oracle
    python benchmarks/selection.py --rows 100000000 # the target: under 2 minutes and 6 GB

Builds a Lance table of keys in Zipf domains (about 25 bytes a row on disk), selects with DOSS in a
process of its own, and removes the table. Up to 10 million rows the selection is compared with a
plain sort of everything.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import curation
from datalake import tables

CHUNK_ROWS = 1_000_000
ORACLE_ROWS = 10_000_000
NUM_SOURCES = 100
SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("generator", pa.string()),
        pa.field("label", pa.string()),
        pa.field("duration_s", pa.float64()),
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ORACLE_ROWS)
    parser.add_argument("--domains", type=int, default=5_000)
    parser.add_argument("--cap", type=int, default=500)
    parser.add_argument("--dir", type=Path, help="where the table is built for a while")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.cap)
        return
    with tempfile.TemporaryDirectory(prefix="bench-select-", dir=options.dir) as folder:
        uri = f"{folder}/keys.lance"
        started = time.perf_counter()
        table = build(uri, options.rows, options.domains)
        print(f"built      {options.rows:,} rows, {table.num_bytes() / 1e9:.2f} GB, "
              f"{time.perf_counter() - started:.1f} s", flush=True)  # fmt: skip
        child = [sys.executable, __file__, "--measure", uri, "--cap", str(options.cap)]
        found = json.loads(subprocess.run(child, check=True, stdout=subprocess.PIPE).stdout)
        print(f"selected   {found['num_rows']:,} rows of {found['num_domains']:,} domains")
        print(f"seconds    {found['seconds']:.1f} (of a processor: {found['processor_s']:.1f})")
        print(f"peak       {found['peak_bytes'] / 1e9:.2f} GB resident")
        if options.rows <= ORACLE_ROWS:
            same = oracle_digest(table, found["kept"]) == found["digest"]
            print(f"oracle     {'the same rows' if same else 'OTHER ROWS'}")
            sys.exit(not same)


def build(uri: str, num_rows: int, num_domains: int) -> tables.Table:
    """A table of keys whose domains have sizes in proportion to 1, 1/2, 1/3, …"""
    rng = np.random.default_rng(0)
    share = 1 / np.arange(1, num_domains + 1)
    bounds = np.cumsum(rng.permutation(share / share.sum()))
    source = np.arange(num_domains) % NUM_SOURCES
    is_real = np.arange(num_domains) < NUM_SOURCES
    sources = pa.array([f"corpus{number:03d}" for number in source])
    generators = pa.array(
        [None if real else f"tts{number:04d}" for number, real in enumerate(is_real)], pa.string()
    )
    labels = pa.array(["bonafide" if real else "spoof" for real in is_real])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, num_rows, CHUNK_ROWS):
            size = min(CHUNK_ROWS, num_rows - start)
            domain = pa.array(np.searchsorted(bounds, rng.random(size)).clip(0, num_domains - 1))
            numbers = pc.cast(pa.array(np.arange(start, start + size)), pa.string())
            of_row = sources.take(domain)
            yield pa.record_batch(
                [
                    pc.binary_join_element_wise(of_row, numbers, "/"),
                    of_row,
                    generators.take(domain),
                    labels.take(domain),
                    pa.array(rng.gamma(4.0, 1.2, size)),
                ],
                schema=SCHEMA,
            )

    return tables.create_table(uri, SCHEMA, format="lance").append(batches())


def measure(uri: str, cap: int) -> None:
    """Select, and print what it took: run in a process of its own, so that the peak is its own."""
    table = tables.open_table(uri)
    started = time.perf_counter()
    selection = curation.select(table, table_name="keys", cap=cap)
    seconds = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_SELF)
    rows = selection.rows
    manifest = selection.manifest
    print(
        json.dumps(
            {
                "seconds": seconds,
                "processor_s": usage.ru_utime + usage.ru_stime,
                "peak_bytes": usage.ru_maxrss * 1024,
                "num_rows": rows.num_rows,
                "num_domains": manifest.num_rows,
                "kept": {row["domain"]: row["num_kept"] for row in manifest.to_pylist()},
                "digest": digest(rows["row_index"].to_numpy()),
            }
        )
    )


def oracle_digest(table: tables.Table, kept: dict[str, int]) -> str:
    """The same selection by sorting all rows by (domain, hash)."""
    names: dict[str, int] = {name: number for number, name in enumerate(kept)}
    domains, places = [], []
    for batch in table.scan(["utt_id", "source", "generator"]):
        pairs = zip(batch["source"].to_pylist(), batch["generator"].to_pylist(), strict=True)
        domains += [names[f"{source}/{made}" if made else source] for source, made in pairs]
        places += [
            int.from_bytes(hashlib.md5(f"0/{utt_id}".encode()).digest()[:8], "big")
            for utt_id in batch["utt_id"].to_pylist()
        ]
    domain, place = np.array(domains), np.array(places, np.uint64)
    order = np.lexsort((place, domain))
    rank = np.arange(order.size) - np.searchsorted(domain[order], domain[order])
    return digest(np.sort(order[rank < np.array(list(kept.values()))[domain[order]]]))


def digest(indices: np.ndarray) -> str:
    return hashlib.sha256(indices.astype("<u8").tobytes()).hexdigest()


if __name__ == "__main__":
    main()
