"""Near-duplicates among a million embeddings: seconds, memory, recall, and what was planted.

    python benchmarks/duplicates.py [--rows 1000000] [--dir DIR] [--json FILE]

Builds a Lance table of 256 numbers a row (1 GB at a million rows): rows around 5,000 centres, and
planted among them pairs, drift chains of six, dense groups of 2,000 and equal vectors. Searches it
in a process of its own with the defaults, threshold .97. Memory is sampled ten times a second: what
the process has allocated (anonymous), and all that is resident, pages of mapped files included,
which the system takes back when it needs them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from datalake import tables

DIMS = 256
CENTRES = 5_000
CHUNK = 20_000
THRESHOLD = 0.97
# Of each chunk; the rest of its rows have no duplicate.
PAIRS, CHAINS, CHAIN, GROUP, EQUAL = 800, 100, 6, 40, 200


def chunk(rng: np.random.Generator, centres: np.ndarray, group: np.ndarray, size: int) -> pa.Table:
    """Rows with a `kind`: `single`, `pair`, `chain`, `group` or `equal`, and `of`, which set."""
    scale = DIMS**-0.5

    def noise(count: int) -> np.ndarray:
        return rng.standard_normal((count, DIMS), np.float32) * scale

    def near(rows: np.ndarray, apart: np.ndarray) -> np.ndarray:
        return rows + apart[:, None] * np.linalg.norm(rows, axis=1)[:, None] * noise(len(rows))

    share = size / CHUNK
    pairs, chains, groups, equal = (int(n * share) for n in (PAIRS, CHAINS, GROUP, EQUAL))
    singles = size - pairs - chains * (CHAIN - 1) - groups - equal
    rows = centres[rng.integers(0, CENTRES, singles)] + noise(singles)
    copies = near(rows[:pairs], rng.uniform(0.02, 0.22, pairs).astype(np.float32))
    links = [rows[pairs : pairs + chains]]
    for _ in range(CHAIN - 1):
        links.append(near(links[-1], np.full(chains, 0.2, np.float32)))
    dense = near(np.repeat(group[None], groups, axis=0), np.full(groups, 0.1, np.float32))
    made = {
        "single": rows, "pair": copies, "chain": np.concatenate(links[1:]),
        "group": dense, "equal": rows[pairs + chains :][:equal],
    }  # fmt: skip
    of = np.concatenate(
        [
            np.arange(singles),
            np.arange(pairs),
            np.tile(np.arange(pairs, pairs + chains), CHAIN - 1),
            np.full(groups, -1),
            np.arange(pairs + chains, pairs + chains + equal),
        ]
    )
    order = rng.permutation(size)
    return pa.table(
        {
            "kind": np.repeat(list(made), [len(part) for part in made.values()])[order],
            "of": of[order],
            "embedding": pa.FixedSizeListArray.from_arrays(
                np.concatenate(list(made.values()))[order].ravel(), DIMS
            ),
        }
    )


def batches(num_rows: int) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CENTRES, DIMS), np.float32) * np.float32(DIMS**-0.5)
    group = centres[0]
    for start in range(0, num_rows, CHUNK):
        if start % (50 * CHUNK) == 0:  # so 50 chunks share a group of 2,000
            group = rng.standard_normal(DIMS).astype(np.float32)
        size = min(CHUNK, num_rows - start)
        part = chunk(rng, centres, group, size)
        ids = pa.array([f"s/{number:09d}" for number in range(start, start + size)])
        yield from part.add_column(0, "utt_id", ids).combine_chunks().to_batches()


class Memory(threading.Thread):
    """Watches what this process holds, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.anonymous = self.resident = 0
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.1):
            lines = Path("/proc/self/status").read_text().splitlines()
            facts = {line.split(":")[0]: line.split()[1] for line in lines if line.endswith("kB")}
            self.anonymous = max(self.anonymous, int(facts["RssAnon"]) * 1024)
            self.resident = max(self.resident, int(facts["VmRSS"]) * 1024)

    def stop(self) -> None:
        self._done.set()
        self.join()


def search(uri: str) -> None:
    """In a process of its own: search, and print what came of it as JSON."""
    from curation.duplicates import near_duplicates

    table = tables.open_table(uri)
    memory = Memory()
    memory.start()
    began, cpu = time.perf_counter(), time.process_time()
    found = near_duplicates(table, "embedding", THRESHOLD, scratch=Path(uri).parent)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    memory.stop()
    dropped = np.zeros(table.count_rows(), np.bool_)
    dropped[found.drops["row_index"].to_numpy().astype(np.int64)] = True
    keys = table.scan(["kind", "of"]).read_all()
    kind, of = keys["kind"].to_numpy(), keys["of"].to_numpy()
    chunks = np.arange(len(kind)) // CHUNK
    gone = {}
    for name in ("pair", "equal"):
        sets = chunks[kind == name] * CHUNK + of[kind == name]
        one_gone = np.zeros(len(kind), np.bool_)
        one_gone[chunks[dropped] * CHUNK + of[dropped]] = True
        gone[name] = float(one_gone[sets].mean())
    gone["group"] = float(dropped[kind == "group"].mean())
    gone["single"] = float(dropped[kind == "single"].mean())
    facts = {
        "rows": len(kind), "seconds": seconds, "cpu_s": cpu_s, "dropped": found.drops.num_rows,
        "anonymous_bytes": memory.anonymous, "resident_bytes": memory.resident,
        "planted": gone, **found.parameters,
    }  # fmt: skip
    print(json.dumps(facts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dir", type=Path, help="where the table is built for a while")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--search", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        search(options.search)
        return
    with tempfile.TemporaryDirectory(prefix="bench-duplicates-", dir=options.dir) as folder:
        uri = f"{folder}/vectors.lance"
        first = next(batches(CHUNK))
        table = tables.create_table(uri, first.schema, format="lance")
        table.append(pa.RecordBatchReader.from_batches(first.schema, batches(options.rows)))
        done = subprocess.run(
            [sys.executable, __file__, "--search", uri], check=True, capture_output=True, text=True
        )
    facts = json.loads(done.stdout)
    print(
        f"{facts['rows']:,} rows, threshold {THRESHOLD}: {facts['seconds']:.0f} s, CPU "
        f"{facts['cpu_s']:.0f} s; {facts['anonymous_bytes'] / 1e9:.2f} GB allocated, "
        f"{facts['resident_bytes'] / 1e9:.2f} GB with mapped files\n"
        f"dropped {facts['dropped']:,}, {facts['num_uncovered']} without a kept one; "
        f"{facts['num_cells']:,} cells, the largest of {facts['largest_cell']:,}\n"
        f"recall {facts['recall']:.4f} on {facts['num_pairs_sampled']:,} pairs of "
        f"{facts['num_sampled']:,} sampled rows; {facts['still_duplicates']:.2%} of kept ones "
        "still have a kept duplicate"
    )
    for kind, share in facts["planted"].items():
        print(f"planted {kind}: {share:.2%} gone")
    if options.json:
        options.json.write_text(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
