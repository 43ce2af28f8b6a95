"""Each method against the baselines, paired by fold and seed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import pyarrow as pa

from curation.study.arms import Arm, Measure, find_arm, read_arms, seed_means
from curation.study.intervals import NUM_RESAMPLES, bca_interval, check_level, t_interval
from curation.study.results import Protocol
from curation.study.sign_flips import holm, sign_flip_test, smallest_p_value
from curation.study.statistics import Findings, gaps
from datalake.errors import InputError, NotFoundError, nearest

__all__ = ["COMPARISONS", "Unit", "compare"]

Unit = Literal["fold", "seed"]
"""What a test and its interval speak of.

`fold`: other held-out generators or sources than these (seeds averaged first). `seed`: these folds
and no others, trained again (folds averaged first).
"""

COMPARISONS: Final = pa.schema(
    [
        pa.field("arm", pa.string(), nullable=False),
        pa.field("baseline", pa.string(), nullable=False),
        pa.field("budget_rows", pa.int64()),
        pa.field("num_folds", pa.int64(), nullable=False),
        # Seeds that both were run with, the fewest of any fold.
        pa.field("num_seeds", pa.int64(), nullable=False),
        # Folds or seeds: what the test flips and the intervals draw.
        pa.field("num_units", pa.int64(), nullable=False),
        # Of the arm and of the baseline, over what both have.
        pa.field("eer", pa.float64(), nullable=False),
        pa.field("baseline_eer", pa.float64(), nullable=False),
        # eer - baseline_eer: below 0 the arm is better.
        pa.field("difference", pa.float64(), nullable=False),
        # Its t interval and its BCa bootstrap interval over the units; null for one unit.
        pa.field("difference_low", pa.float64()),
        pa.field("difference_high", pa.float64()),
        pa.field("bootstrap_low", pa.float64()),
        pa.field("bootstrap_high", pa.float64()),
        # difference / baseline_eer; null if that is 0.
        pa.field("relative", pa.float64()),
        # Units in which the arm has the lower EER.
        pa.field("num_better", pa.int64(), nullable=False),
        # By sign flips, two-sided; then corrected for all rows of the table.
        pa.field("p_value", pa.float64(), nullable=False),
        pa.field("p_holm", pa.float64(), nullable=False),
        # What p_value would be if all units agreed.
        pa.field("smallest_p", pa.float64(), nullable=False),
        # Whether all sign patterns were looked at.
        pa.field("exact", pa.bool_(), nullable=False),
    ]
)
"""The columns of `compare`, one row a pair."""


def compare(
    results: pa.Table,
    protocol: Protocol,
    baselines: Sequence[str],
    *,
    methods: Sequence[str] | None = None,
    measure: Measure = "pooled",
    over: Unit = "fold",
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Findings:
    """Each method against each baseline at the same budget, paired by fold and seed.

    A baseline without a budget, as `naive`, is compared at every budget. Only folds and seeds that
    both sides have count, and baselines are not compared with each other. The test is
    `sign_flip_test`; all comparisons of the table are one family for Holm's correction, so ask for
    those that you will report and for no others.

    Args:
        results: the long table (`RESULTS`).
        protocol: which of its rows.
        baselines: names of arms, or of methods that have one arm.
        methods: names of arms or methods to compare with them; None for all. A question asked of
            two methods needs far fewer folds than one asked of ten.
        measure: what a cell's EER is: `pooled` or `macro`.
        over: the unit of test and intervals.
        level: of the intervals; 1 - level is what p-values are held against in the remarks.
        num_resamples: of the bootstrap.
        seed: of the bootstrap, and of sign patterns where they are drawn.

    Returns:
        A table `COMPARISONS`, by baseline, budget and arm; and remarks: what could not be
        compared, and where no result could have been significant.

    Raises:
        SchemaError, InputError: the results or an option cannot be used.
        NotFoundError: no row of that protocol, or no arm or method of a name.
    """
    check_level(level)
    if over not in get_args(Unit):
        raise InputError("No such unit", expected=" or ".join(get_args(Unit)), found=str(over))
    arms = read_arms(results, protocol, measure)
    # Named first, so that a name that is none fails whatever there is to compare.
    named = {name: _arm_names_of(arms, name) for name in baselines}
    if methods is not None:
        _check_known(arms, methods)
    candidates = sorted(
        (
            arm
            for arm in arms
            if arm.name not in set().union(*named.values())
            and (methods is None or {arm.name, arm.method} & set(methods))
        ),
        key=lambda arm: (arm.budget_rows is None, arm.budget_rows or 0, arm.name),
    )
    rows, remarks = [], gaps(arms)
    for name in baselines:
        alone: dict[str, list[str]] = defaultdict(list)
        for arm in candidates:
            baseline = find_arm(arms, name, arm.budget_rows)
            pair = _paired(arm, baseline) if baseline else {}
            if baseline and pair:
                rows.append(_comparison(arm, baseline, pair, over, level, num_resamples, seed))
            elif baseline:
                remarks.append(
                    f"{arm.name} and {name} share no fold and seed at {_budget(arm)}: not compared."
                )
            else:
                alone[_budget(arm)].append(arm.name)
        remarks += [
            f"{name} was not run at {budget}: not compared with {', '.join(lonely)}."
            for budget, lonely in alone.items()
        ]
    for row, adjusted in zip(rows, holm([row["p_value"] for row in rows]), strict=True):
        row["p_holm"] = adjusted
    remarks += _power_remarks(rows, over, 1 - level)
    return Findings(pa.Table.from_pylist(rows, schema=COMPARISONS), tuple(dict.fromkeys(remarks)))


def _check_known(arms: list[Arm], methods: Sequence[str]) -> None:
    known = {name for arm in arms for name in (arm.name, arm.method)}
    for name in methods:
        if name not in known:
            raise NotFoundError(
                f"No method of the study is called {name!r}", fix=nearest(name, known)
            )


def _arm_names_of(arms: list[Arm], name: str) -> set[str]:
    """The name of the arm that a baseline's name means.

    Raises:
        NotFoundError, InputError: see `find_arm`.
    """
    find_arm(arms, name, None)
    exact = {arm.name for arm in arms if arm.name == name}
    return exact or {arm.name for arm in arms if arm.method == name}


def _budget(arm: Arm) -> str:
    return "all rows" if arm.budget_rows is None else f"{arm.budget_rows:,} rows"


_Pair = dict[str, dict[int, tuple[float, float]]]
"""By fold and seed: the arm's EER and the baseline's."""


def _paired(arm: Arm, baseline: Arm) -> _Pair:
    found: _Pair = {}
    for fold in sorted(set(arm.eers) & set(baseline.eers)):
        mine, other = arm.eers[fold], baseline.eers[fold]
        both = {seed: (mine[seed], other[seed]) for seed in sorted(set(mine) & set(other))}
        if both:
            found[fold] = both
    return found


def _comparison(
    arm: Arm,
    baseline: Arm,
    pair: _Pair,
    over: Unit,
    level: float,
    num_resamples: int,
    seed: int,
) -> dict[str, Any]:
    sides = [_units(pair, side, over) for side in (0, 1)]
    units = [mine - other for mine, other in zip(*sides, strict=True)]
    if not units:
        raise InputError(
            f"{arm.name} and {baseline.name} share no seed that every fold was run with",
            fix="Compare over folds",
        )
    eer, baseline_eer = (math.fsum(side) / len(side) for side in sides)
    difference = math.fsum(units) / len(units)
    test = sign_flip_test(units, seed=seed)
    by_t = t_interval(units, level=level)
    drawn = bca_interval(units, level=level, num_resamples=num_resamples, seed=seed)
    return {
        "arm": arm.name,
        "baseline": baseline.name,
        "budget_rows": arm.budget_rows,
        "num_folds": len(pair),
        "num_seeds": min(len(by_seed) for by_seed in pair.values()),
        "num_units": len(units),
        "eer": eer,
        "baseline_eer": baseline_eer,
        "difference": difference,
        "difference_low": by_t and by_t[0],
        "difference_high": by_t and by_t[1],
        "bootstrap_low": drawn and drawn[0],
        "bootstrap_high": drawn and drawn[1],
        "relative": difference / baseline_eer if baseline_eer else None,
        "num_better": sum(unit < 0 for unit in units),
        "p_value": test.p_value,
        "smallest_p": test.smallest,
        "exact": test.exact,
    }


def _units(pair: _Pair, side: int, over: Unit) -> list[float]:
    by_fold = {
        fold: {seed: both[side] for seed, both in by_seed.items()} for fold, by_seed in pair.items()
    }
    if over == "seed":
        return list(seed_means(by_fold).values())
    return [math.fsum(by_seed.values()) / len(by_seed) for by_seed in by_fold.values()]


def _power_remarks(rows: Sequence[Mapping[str, Any]], over: Unit, alpha: float) -> list[str]:
    """Where no data could have been significant."""
    remarks = []
    for count in sorted({row["num_units"] for row in rows}):
        units = f"{count} {over}{'s' if count != 1 else ''}"
        least = smallest_p_value(count)
        best_holm = min(least * len(rows), 1.0)
        if least > alpha:
            remarks.append(
                f"With {units} the smallest p that the test can give is {least:.4g}: no difference "
                f"can reach {alpha:.2g}, however clear. Read the intervals, or add {over}s: "
                f"{_units_for(alpha)} are the fewest that can."
            )
        elif best_holm > alpha:
            remarks.append(
                f"With {units} and {len(rows)} comparisons the smallest p after Holm's correction "
                f"is {best_holm:.4g}, above {alpha:.2g}: none of them can be significant. Ask for "
                f"fewer comparisons, or add {over}s: {_units_for(alpha / len(rows))} suffice."
            )
    return remarks


def _units_for(alpha: float) -> int:
    count = 1
    while smallest_p_value(count) > alpha:
        count += 1
    return count
