"""k-means beside faiss: seconds, processor seconds and the objective, on the same vectors.

    python benchmarks/kmeans.py [--faiss-python PYTHON] [--rows 500000] [--rounds 3] [--json FILE]

Vectors are 256 numbers around 2,000 centres, of length 1. Both sides fit 1,000 centroids by 10
iterations of Lloyd's over all of them, beginning with rows of the set, in a process of their own
and by turns; the time is that of the fit alone. faiss, in an environment of its own that has
`faiss-cpu`, gets `OPENBLAS_CORETYPE=SkylakeX` where the processor has AVX-512: the OpenBLAS in its
wheel takes newer processors for very old ones. Objectives are compared first.
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

DIMS = 256
CENTRES = 2_000
CLUSTERS = 1_000
ITERATIONS = 10

SIDE = """
import json, sys, time
import numpy as np
vectors = np.load(sys.argv[2])
if sys.argv[1] == "faiss":
    import faiss
    # All rows, and none left out as a sample.
    fit = faiss.Kmeans({dims}, {clusters}, niter={iterations}, seed=1,
                       max_points_per_centroid=1 << 30)
    run = lambda: fit.train(vectors)
else:
    from curation.neighbors import fit_kmeans
    run = lambda: fit_kmeans(vectors, {clusters}, num_iterations={iterations}, metric="l2")
began, cpu = time.perf_counter(), time.process_time()
found = run()
seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
objective = fit.obj[-1] if sys.argv[1] == "faiss" else found.objectives[-1]
print(json.dumps(dict(seconds=seconds, cpu_s=cpu, objective=float(objective))))
"""


def write_vectors(path: Path, num_rows: int) -> None:
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((CENTRES, DIMS), np.float32)
    out = np.lib.format.open_memmap(path, "w+", np.float32, (num_rows, DIMS))
    for start in range(0, num_rows, 50_000):
        rows = out[start : start + 50_000]
        rows[:] = centres[rng.integers(0, CENTRES, len(rows))]
        rows += rng.standard_normal(rows.shape, np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    out.flush()


def run(side: str, python: str, vectors: Path) -> dict[str, float]:
    script = SIDE.format(dims=DIMS, clusters=CLUSTERS, iterations=ITERATIONS)
    env = dict(os.environ)
    if side == "faiss" and "avx512f" in Path("/proc/cpuinfo").read_text():
        env["OPENBLAS_CORETYPE"] = "SkylakeX"
    done = subprocess.run(
        [python, "-c", script, side, str(vectors)],
        env=env, check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faiss-python", help="of an environment with faiss-cpu")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    sides = {"ours": sys.executable}
    if options.faiss_python:
        sides["faiss"] = options.faiss_python
    results: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as name:
        vectors = Path(name) / "vectors.npy"
        write_vectors(vectors, options.rows)
        for _ in range(options.rounds):
            for side, python in sides.items():
                results[side].append(run(side, python, vectors))
    for side, runs in results.items():
        seconds = [each["seconds"] for each in runs]
        print(
            f"{side:6} {min(seconds):6.2f} to {max(seconds):.2f} s, median "
            f"{np.median(seconds):.2f}; CPU {np.median([each['cpu_s'] for each in runs]):.2f} s; "
            f"objective {runs[0]['objective']:.1f}"
        )
    if options.faiss_python:
        ours, theirs = results["ours"], results["faiss"]
        apart = ours[0]["objective"] / theirs[0]["objective"] - 1
        if apart > 0.01:
            raise SystemExit(f"Our objective is {apart:.1%} above faiss's: no comparison.")
        ratio = np.median([each["seconds"] for each in ours]) / np.median(
            [each["seconds"] for each in theirs]
        )
        print(f"ours takes {ratio:.2f} of faiss's time; objective {apart:+.2%}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
