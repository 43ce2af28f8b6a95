"""Bootstrap intervals over utterances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curation.metrics.measures import Metric, check_metrics, replicates, value_of
from curation.metrics.resampling import Speakers
from curation.metrics.tandem_cost import ASVSPOOF5_ASV, AsvRates, TandemForm
from curation.metrics.trials import Trials
from datalake.errors import InputError

__all__ = ["Interval", "bootstrap_interval", "check_bootstrap", "interval_of", "intervals_of"]


@dataclass(frozen=True)
class Interval:
    """A metric's value and the bounds between which its bootstrap replicates lie."""

    value: float
    low: float
    high: float
    level: float
    num_resamples: int


def bootstrap_interval(
    bonafide_scores: npt.ArrayLike,
    spoof_scores: npt.ArrayLike,
    metric: Metric = "eer",
    *,
    num_resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """The percentile bootstrap interval of a metric.

    Utterances are drawn with replacement within each class, so every replicate has as many bona
    fide and spoof trials as the test. Utterances of one speaker are taken as independent; for
    draws of speakers see `breakdown`.

    A replicate is the metric of the scores drawn, ties included; it is found from how often each
    score was drawn, so the scores are sorted once, whatever the number of resamples. The memory
    is that of a few resamples.

    Args:
        bonafide_scores: shape (num_bonafide,), higher for bona fide.
        spoof_scores: shape (num_spoof,).
        metric: `eer`, `min_dcf`, `act_dcf`, `cllr`, `min_t_dcf` or `act_t_dcf` (the last two with
            the ASVspoof 5 verifier and the form of 2021).
        num_resamples: replicates to draw.
        seed: the same seed gives the same interval, whatever the order of the scores.
        level: the share of replicates within the bounds.

    Raises:
        InputError: see `Trials.of`; or the metric, the number or the level cannot be used.
    """
    trials = Trials.of(bonafide_scores, spoof_scores)
    return interval_of(trials, metric, num_resamples=num_resamples, seed=seed, level=level)


def interval_of(
    trials: Trials, metric: Metric, *, num_resamples: int, seed: int, level: float
) -> Interval:
    """`bootstrap_interval` of trials that are checked and sorted."""
    intervals = intervals_of(trials, (metric,), num_resamples=num_resamples, seed=seed, level=level)
    return intervals[metric]


def intervals_of(
    trials: Trials,
    metrics: tuple[Metric, ...],
    *,
    num_resamples: int,
    seed: int,
    level: float,
    speakers: Speakers | None = None,
    asv: AsvRates = ASVSPOOF5_ASV,
    form: TandemForm = "2021",
) -> Mapping[Metric, Interval]:
    """Intervals of several metrics from the same resamples of trials, checked and sorted."""
    check_metrics(metrics)
    if num_resamples < 1:
        raise InputError(
            "A bootstrap needs replicates", expected="at least 1", found=str(num_resamples)
        )
    check_bootstrap(num_resamples, level)
    found = replicates(
        trials, metrics, num_resamples, seed=seed, speakers=speakers, asv=asv, form=form
    )
    intervals: dict[Metric, Interval] = {}
    for metric, values in found.items():
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
        value = value_of(trials, metric, asv, form)
        intervals[metric] = Interval(value, float(low), float(high), level, num_resamples)
    return intervals


def check_bootstrap(num_resamples: int, level: float) -> None:
    """Refuse options that no bootstrap can use; zero resamples stand for no intervals.

    Raises:
        InputError: the number or the level cannot be used.
    """
    if num_resamples < 0:
        raise InputError(
            "A bootstrap needs replicates", expected="0 (none) or more", found=str(num_resamples)
        )
    if not 0 < level < 1:
        raise InputError(
            "The level of an interval is a share", expected="between 0 and 1", found=str(level)
        )
