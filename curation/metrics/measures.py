"""The metrics of bona fide and spoof scores by name, of a test and of many resamples of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from curation.metrics.calibration import cllr_of, cllr_of_means, trial_costs
from curation.metrics.detection_cost import (
    BAYES_THRESHOLD,
    DEFAULT_COST,
    act_dcf_of,
    actual_cost,
    detection_costs,
    min_dcf_of,
)
from curation.metrics.equal_error_rate import eer_of
from curation.metrics.ladder import Counts, Ladder
from curation.metrics.replicates import CostAt, EqualErrorRate, LeastCost, Replicates
from curation.metrics.resampling import Speakers, draw_resamples
from curation.metrics.tandem_cost import ASVSPOOF5_ASV, AsvRates, TandemCost, TandemForm
from curation.metrics.trials import FloatArray, Trials
from datalake.errors import InputError, nearest

__all__ = ["Metric", "check_metrics", "replicates", "value_of"]

Metric = Literal["eer", "min_dcf", "act_dcf", "cllr", "min_t_dcf", "act_t_dcf"]


@dataclass(frozen=True)
class _Measure:
    """One metric: of a test, and of a block of resamples from their counts.

    `start` is also given the ladder and the edge below `cut`, the score that the metric decides at.
    """

    value: Callable[[Trials], float]
    start: Callable[[Counts, Ladder, int], Replicates]
    cut: float | None = None


def _normalised_cost(miss_rates: FloatArray, false_alarm_rates: FloatArray) -> FloatArray:
    return detection_costs(miss_rates, false_alarm_rates) / DEFAULT_COST


_OF_SCORES: Final[Mapping[str, _Measure]] = {
    "eer": _Measure(eer_of, lambda counts, _ladder, _edge: EqualErrorRate(counts)),
    "min_dcf": _Measure(
        min_dcf_of, lambda counts, _ladder, _edge: LeastCost(counts, _normalised_cost)
    ),
    "act_dcf": _Measure(
        act_dcf_of,
        lambda counts, ladder, edge: CostAt(counts, actual_cost, ladder, edge),
        BAYES_THRESHOLD,
    ),
}


def check_metrics(metrics: tuple[str, ...]) -> None:
    """Refuse names that are no metric, and none at all.

    Raises:
        InputError: one is not known, or there is none.
    """
    known = get_args(Metric)
    for metric in metrics:
        if metric not in known:
            raise InputError(
                f"The metric {metric} is not known",
                expected=" or ".join(known),
                fix=nearest(metric, known),
            )
    if not metrics:
        raise InputError("No metric was asked for", expected="at least one of " + ", ".join(known))


def value_of(
    trials: Trials, metric: Metric, asv: AsvRates = ASVSPOOF5_ASV, form: TandemForm = "2021"
) -> float:
    """A metric of trials that are checked and sorted."""
    if metric == "cllr":
        return cllr_of(trials)
    return _measure(metric, asv, form).value(trials)


def replicates(
    trials: Trials,
    metrics: tuple[Metric, ...],
    num_resamples: int,
    *,
    seed: int,
    speakers: Speakers | None = None,
    asv: AsvRates = ASVSPOOF5_ASV,
    form: TandemForm = "2021",
) -> dict[Metric, FloatArray]:
    """Metrics of bootstrap resamples, shape (num_resamples,) each; all of the same resamples.

    Each equals the metric of the scores that were drawn (`cllr` up to the order of its sum).
    """
    measures = {metric: _measure(metric, asv, form) for metric in metrics if metric != "cllr"}
    cuts = {metric: one.cut for metric, one in measures.items() if one.cut is not None}
    ladder = Ladder.of(trials, list(cuts.values()))
    edges = {metric: ladder.edge_below(trials, cut) for metric, cut in cuts.items()}
    costs = trial_costs(trials) if "cllr" in metrics else None
    parts: dict[Metric, list[FloatArray]] = {metric: [] for metric in metrics}
    for resamples in draw_resamples(ladder, num_resamples, seed=seed, speakers=speakers):
        if measures:
            at_buckets = resamples.at_buckets()
            block = {
                metric: one.start(at_buckets, ladder, edges.get(metric, 0))
                for metric, one in measures.items()
            }
            for bucket in range(ladder.num_buckets):
                looking = [one for one in block.values() if one.wants(bucket)]
                if looking:
                    counts = resamples.within(bucket)
                    for one in looking:
                        one.look(bucket, counts)
            for metric, one in block.items():
                parts[metric].append(one.values())
        if costs is not None:
            parts["cllr"].append(cllr_of_means(*resamples.means(*costs)))
    return {metric: np.concatenate(blocks) for metric, blocks in parts.items()}


def _measure(metric: Metric, asv: AsvRates, form: TandemForm) -> _Measure:
    if metric not in ("min_t_dcf", "act_t_dcf"):
        return _OF_SCORES[metric]
    cost = TandemCost.of(asv, form)
    if metric == "min_t_dcf":
        return _Measure(cost.least, lambda counts, _ladder, _edge: LeastCost(counts, cost.at))
    return _Measure(
        cost.actual,
        lambda counts, ladder, edge: CostAt(counts, cost.at, ladder, edge),
        cost.threshold,
    )
