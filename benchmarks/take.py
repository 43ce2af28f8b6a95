"""Random take of 64 rows from a Lance table of a million: ours against Lance's own `take`.

    python benchmarks/take.py [--rows 1000000] [--rounds 200] [--json FILE]

Both read the same table, the same rows, turn by turn, in one process; who goes first alternates.
The ratio of a round is Lance's time over ours: 1 means that our layer costs nothing.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from datalake.schema import media_field
from datalake.tables import create_table

TAKEN = 64
AUDIO_BYTES = 400
SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("duration_s", pa.float64()),
        media_field("audio", "audio"),
    ]
)


def batches(num_rows: int, rng: np.random.Generator) -> Iterator[pa.RecordBatch]:
    for start in range(0, num_rows, 10_000):
        n = min(10_000, num_rows - start)
        payload = rng.bytes(n * AUDIO_BYTES)
        offsets = np.arange(0, (n + 1) * AUDIO_BYTES, AUDIO_BYTES, dtype=np.int64)
        audio = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(payload)]
        )
        ids = [f"source/{start + i:08d}" for i in range(n)]
        labels = ["spoof" if i % 2 else "bonafide" for i in range(n)]
        yield pa.record_batch([ids, labels, rng.random(n), audio], schema=SCHEMA)


def measure(num_rows: int, rounds: int) -> dict[str, object]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "corpus.lance"
        table = create_table(place, SCHEMA).append(batches(num_rows, rng))
        import lance

        raw = lance.dataset(str(place))

        def ours(rows: list[int]) -> pa.Table:
            return table.take(rows)

        def lances(rows: list[int]) -> pa.Table:
            return raw.take(rows)

        times: dict[str, list[float]] = {"ours": [], "lance": []}
        for turn in range(rounds + 20):
            rows = rng.integers(0, num_rows, TAKEN).tolist()
            sides = [("ours", ours), ("lance", lances)]
            for name, side in sides if turn % 2 else reversed(sides):
                start = time.perf_counter()
                taken = side(rows)
                elapsed = time.perf_counter() - start
                if turn >= 20:  # Before that caches fill.
                    times[name].append(elapsed)
                assert taken.num_rows == TAKEN
    ratio = np.array(times["lance"]) / np.array(times["ours"])
    return {
        "rows": num_rows,
        "rounds": rounds,
        "median_ms": {name: round(float(np.median(t)) * 1e3, 3) for name, t in times.items()},
        "rows_per_s": {name: round(TAKEN / float(np.median(t))) for name, t in times.items()},
        "rate_ratio_median": round(float(np.median(times["lance"]) / np.median(times["ours"])), 3),
        "rate_ratio_quartiles": [round(float(q), 3) for q in np.quantile(ratio, [0.25, 0.5, 0.75])],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    result = measure(args.rows, args.rounds)
    print(json.dumps(result, indent=2))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
