"""What a study's results say: the mean EER of each method at each budget, with intervals.

It is a function of the long table (`curation.study.results`), and the same for any
order of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from curation.study.arms import Arm, Measure, read_arms
from curation.study.intervals import NUM_RESAMPLES, bca_interval, check_level, t_interval
from curation.study.results import Protocol

__all__ = ["MEANS", "Findings", "gaps", "mean_eers"]

MEANS: Final = pa.schema(
    [
        # What to call it: `arm_names`.
        pa.field("arm", pa.string(), nullable=False),
        pa.field("method", pa.string(), nullable=False),
        pa.field("parameters", pa.string(), nullable=False),
        pa.field("budget_rows", pa.int64()),
        pa.field("num_folds", pa.int64(), nullable=False),
        # The fewest of any fold.
        pa.field("num_seeds", pa.int64(), nullable=False),
        # Mean over folds of the means over seeds.
        pa.field("eer", pa.float64(), nullable=False),
        # The t interval over folds, cut to 0 to 1; null for one fold.
        pa.field("eer_low", pa.float64()),
        pa.field("eer_high", pa.float64()),
        # The BCa bootstrap interval that draws whole folds.
        pa.field("bootstrap_low", pa.float64()),
        pa.field("bootstrap_high", pa.float64()),
        # Standard deviation over seeds of the mean over folds: the noise of training.
        pa.field("seed_sd", pa.float64()),
        # Standard deviation over folds of the mean over seeds: how unlike the folds are.
        pa.field("fold_sd", pa.float64()),
        # The worst fold and its mean over seeds.
        pa.field("worst_fold", pa.string(), nullable=False),
        pa.field("worst_eer", pa.float64(), nullable=False),
        # Means over cells.
        pa.field("num_rows_used", pa.float64(), nullable=False),
        pa.field("num_sources", pa.float64(), nullable=False),
        pa.field("num_generators", pa.float64(), nullable=False),
        pa.field("hours", pa.float64()),
        pa.field("n_eff", pa.float64(), nullable=False),
    ]
)
"""The columns of `mean_eers`, one row an arm."""


@dataclass(frozen=True)
class Findings:
    """A table, and what its reader should know before believing it."""

    table: pa.Table
    remarks: tuple[str, ...]


def mean_eers(
    results: pa.Table,
    protocol: Protocol,
    *,
    measure: Measure = "pooled",
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Findings:
    """The mean EER of each method at each budget, with intervals over folds.

    Each fold counts the same, whatever its number of trials and seeds.

    Args:
        results: the long table (`RESULTS`).
        protocol: which of its rows.
        measure: what a cell's EER is: `pooled` or `macro`.
        level: of the intervals.
        num_resamples: of the bootstrap.
        seed: of the bootstrap.

    Returns:
        A table `MEANS`, by arm and budget.

    Raises:
        SchemaError, InputError: the results or an option cannot be used.
        NotFoundError: no row of that protocol.
    """
    check_level(level)
    arms = read_arms(results, protocol, measure)
    rows = []
    for arm in arms:
        by_fold, by_seed = arm.fold_means, arm.seed_means
        values = list(by_fold.values())
        worst = max(by_fold, key=lambda fold: by_fold[fold])
        low, high = t_interval(values, level=level) or (None, None)
        drawn = bca_interval(values, level=level, num_resamples=num_resamples, seed=seed)
        rows.append(
            {
                "arm": arm.name,
                "method": arm.method,
                "parameters": arm.parameters,
                "budget_rows": arm.budget_rows,
                "num_folds": len(by_fold),
                "num_seeds": min(len(seeds) for seeds in arm.eers.values()),
                "eer": arm.mean,
                "eer_low": None if low is None else max(low, 0.0),
                "eer_high": None if high is None else min(high, 1.0),
                "bootstrap_low": drawn and drawn[0],
                "bootstrap_high": drawn and drawn[1],
                "seed_sd": _sd(list(by_seed.values())),
                "fold_sd": _sd(values),
                "worst_fold": worst,
                "worst_eer": by_fold[worst],
                **{
                    name: arm.mean_of(name)
                    for name in ("num_rows_used", "num_sources", "num_generators", "hours", "n_eff")
                },
            }
        )
    return Findings(pa.Table.from_pylist(rows, schema=MEANS), tuple(gaps(arms)))


def gaps(arms: Sequence[Arm]) -> list[str]:
    """Remarks on cells that the study lacks: their arm's mean is over other folds than the rest."""
    folds = {fold for arm in arms for fold in arm.eers}
    num_seeds = max(len(by_seed) for arm in arms for by_seed in arm.eers.values())
    remarks = []
    for arm in arms:
        budget = "" if arm.budget_rows is None else f" at {arm.budget_rows:,} rows"
        missing = sorted(folds - set(arm.eers))
        if missing:
            remarks.append(
                f"{arm.name}{budget} lacks {len(missing)} of {len(folds)} folds "
                f"({', '.join(missing[:3])}{', …' if len(missing) > 3 else ''}): its mean is not "
                "comparable with the others'; paired comparisons are, over what both have."
            )
        fewest = min(len(by_seed) for by_seed in arm.eers.values())
        if fewest < num_seeds:
            remarks.append(f"{arm.name}{budget} has {fewest} of {num_seeds} seeds in some fold.")
    return remarks


def _sd(values: Sequence[float]) -> float | None:
    return float(np.std(np.sort(values), ddof=1)) if len(values) > 1 else None
