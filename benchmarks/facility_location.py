"""Facility location beside apricot: seconds, memory and the value reached, on the same vectors.

    python benchmarks/facility_location.py [--apricot-python PYTHON] [--rows 20000] [--keep 1000]
                                           [--rounds 3] [--json FILE]

Vectors are 256 numbers around 2,000 centres, of length 1; 1,000 of them are chosen. Each side runs
in a process of its own and by turns; the time is that of choosing alone, the memory what the
process grew by since its imports, vectors included. The value is the mean, over all rows, of the
cosine to the nearest chosen row, 0 if negative; the same code judges all sides.

`exact` is lazy greedy over all pairs in plain numpy: what greedy reaches. apricot, in an
environment of its own that has `apricot-select` and `scikit-learn`, chooses by lazy greedy too,
with cosines that it shifts to be positive. It gets `OPENBLAS_CORETYPE=Haswell`: with other kernels
numpy's float64 products of this size have crashed. Beyond 40,000 rows both need more memory than
most machines have, and we run alone, beside a random choice.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from kmeans import write_vectors

from curation.selection.orders import facility_value

MOST_ROWS_OF_PAIRS = 40_000

SIDE = """
import heapq, json, resource, sys, time
import numpy as np
side, path, keep, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

def exact(rows):
    cosines = np.maximum(rows @ rows.T, 0)
    best = np.zeros(len(rows), np.float32)
    heap = [(-gain, row) for row, gain in enumerate(cosines.sum(1, dtype=np.float64))]
    heapq.heapify(heap)
    picks = []
    while len(picks) < keep:
        _, row = heapq.heappop(heap)
        gain = float(np.maximum(cosines[row] - best, 0).sum(dtype=np.float64))
        if not heap or gain >= -heap[0][0]:
            picks.append(row)
            np.maximum(best, cosines[row], out=best)
        else:
            heapq.heappush(heap, (-gain, row))
    return picks

if side == "apricot":
    from apricot import FacilityLocationSelection
    few = np.random.default_rng(0).random((50, 4))
    FacilityLocationSelection(2, metric="cosine", optimizer="lazy").fit(few)  # compiles
    choose = lambda rows: FacilityLocationSelection(
        keep, metric="cosine", optimizer="lazy").fit(rows).ranking
elif side == "exact":
    choose = exact
else:
    from curation.selection.orders import facility_location
    choose = lambda rows: facility_location(rows, keep)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = np.load(path)
began, cpu = time.perf_counter(), time.process_time()
picks = choose(rows)
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
np.save(out, np.asarray(picks, np.int64))
print(json.dumps(dict(seconds=seconds, cpu_s=cpu, memory_bytes=grown * 1024)))
"""


def run(side: str, python: str, vectors: Path, keep: int) -> dict[str, float]:
    env = dict(os.environ)
    if side == "apricot":
        env["OPENBLAS_CORETYPE"] = "Haswell"
    picks = vectors.with_name(f"{side}.npy")
    done = subprocess.run(
        [python, "-W", "ignore", "-c", SIDE, side, str(vectors), str(keep), str(picks)],
        env=env, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    chosen = np.load(picks)
    if len(set(chosen.tolist())) != keep:
        raise SystemExit(f"{side} did not choose {keep} rows: no comparison.")
    found["value"] = facility_value(np.load(vectors), chosen)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--apricot-python", help="of an environment with apricot-select")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keep", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sides = {"ours": sys.executable}
    if options.rows <= MOST_ROWS_OF_PAIRS:
        sides["exact"] = sys.executable
        if options.apricot_python:
            sides["apricot"] = options.apricot_python
    results: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as name:
        vectors = Path(name) / "vectors.npy"
        write_vectors(vectors, options.rows)
        for _ in range(options.rounds):
            for side, python in sides.items():
                results[side].append(run(side, python, vectors, options.keep))
        at_random = facility_value(np.load(vectors), np.arange(options.keep))
    print(f"{options.keep:,} of {options.rows:,} rows; at random they reach {at_random:.5f}")
    middle = {
        side: {key: float(np.median([each[key] for each in runs])) for key in runs[0]}
        for side, runs in results.items()
    }
    for side, runs in results.items():
        seconds = [each["seconds"] for each in runs]
        print(
            f"{side:8} {min(seconds):7.2f} to {max(seconds):.2f} s, median "
            f"{middle[side]['seconds']:.2f}; CPU {middle[side]['cpu_s']:.2f} s; "
            f"memory {middle[side]['memory_bytes'] / 1e6:,.0f} MB; "
            f"value {middle[side]['value']:.5f}"
        )
    if "exact" in sides:
        share = middle["ours"]["value"] / middle["exact"]["value"]
        print(f"ours reaches {share:.2%} of exact greedy's value")
        if share < 0.99:
            raise SystemExit("That is less than 99 %.")
    if "apricot" in sides:
        ours, theirs = middle["ours"], middle["apricot"]
        print(
            f"ours reaches {ours['value'] / theirs['value']:.2%} of apricot's value, takes "
            f"{ours['seconds'] / theirs['seconds']:.3f} of its time and "
            f"{ours['memory_bytes'] / theirs['memory_bytes']:.3f} of its memory"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
