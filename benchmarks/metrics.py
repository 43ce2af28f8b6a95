"""EER and minDCF of a large test with bootstrap intervals: the official package against ours.

    python benchmarks/metrics.py --official PATH/evaluation-package

PATH is a checkout of the ASVspoof 5 repository. As many trials as its evaluation set has. Values of
the test and of one resample are compared first. The official code is timed on a few resamples and
ours on all; both are given as a second a resample.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from curation import metrics
from curation.metrics.measures import replicates
from curation.metrics.trials import Trials

NUM_BONAFIDE, NUM_SPOOF = 138_688, 542_086


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--official", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--official-resamples", type=int, default=5)
    options = parser.parse_args()
    sys.path.insert(0, str(options.official))
    official: Any = importlib.import_module("calculate_modules")

    rng = np.random.default_rng(0)
    bonafide = rng.normal(1.2, 1, NUM_BONAFIDE)
    spoof = rng.normal(-1.2, 1, NUM_SPOOF)

    def theirs(bonafide: Any, spoof: Any) -> tuple[float, float]:
        rate, miss, false_alarm, thresholds, _ = official.compute_eer(bonafide, spoof)
        cost, _ = official.compute_mindcf(miss, false_alarm, thresholds, 0.05, 1, 10)
        return rate, cost

    def resampled() -> tuple[Any, Any]:
        return tuple(each[rng.integers(0, each.size, each.size)] for each in (bonafide, spoof))

    for pair in ((bonafide, spoof), resampled()):
        if theirs(*pair) != (metrics.eer(*pair), metrics.min_dcf(*pair)):
            sys.exit("The values differ")
    print(f"{NUM_BONAFIDE + NUM_SPOOF:,} trials: values equal to the bit", flush=True)
    trials = Trials.of(bonafide, spoof)
    ratios = []
    for number in range(options.rounds):
        start = time.perf_counter()
        for _ in range(options.official_resamples):
            theirs(*resampled())
        official_s = (time.perf_counter() - start) / options.official_resamples
        start = time.perf_counter()
        replicates(trials, ("eer", "min_dcf"), options.resamples, seed=number)
        ours_s = (time.perf_counter() - start) / options.resamples
        ratios.append(official_s / ours_s)
        print(
            f"round {number + 1}: official {official_s * 1e3:.0f} ms a resample, ours "
            f"{ours_s * 1e3:.2f} ms: {ratios[-1]:.0f} times as fast",
            flush=True,
        )
    print(
        f"{options.resamples:,} resamples: {statistics.median(ratios):.0f} times as fast "
        f"({min(ratios):.0f} to {max(ratios):.0f} in {options.rounds} rounds)"
    )


if __name__ == "__main__":
    main()
