"""Bootstrap intervals over utterances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from curation.metrics.calibration import cllr_of
from curation.metrics.detection_cost import act_dcf_of, min_dcf_of
from curation.metrics.equal_error_rate import eer_of
from curation.metrics.trials import FloatArray, Trials
from datalake.errors import InputError, nearest

__all__ = ["Interval", "Metric", "bootstrap_interval", "interval_of"]

Metric = Literal["eer", "min_dcf", "act_dcf", "cllr"]

_OF_TRIALS: Final[Mapping[Metric, Callable[[Trials], float]]] = {
    "eer": eer_of,
    "min_dcf": min_dcf_of,
    "act_dcf": act_dcf_of,
    "cllr": cllr_of,
}


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
    fide and spoof trials as the test. Utterances of one speaker are taken as independent.

    Args:
        bonafide_scores: shape (num_bonafide,), higher for bona fide.
        spoof_scores: shape (num_spoof,).
        metric: `eer`, `min_dcf`, `act_dcf` or `cllr`.
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
    if metric not in _OF_TRIALS:
        raise InputError(
            f"The metric {metric} is not known",
            expected=" or ".join(get_args(Metric)),
            fix=nearest(metric, _OF_TRIALS),
        )
    if num_resamples < 1:
        raise InputError(
            "A bootstrap needs replicates", expected="at least 1", found=str(num_resamples)
        )
    if not 0 < level < 1:
        raise InputError(
            "The level of an interval is a share", expected="between 0 and 1", found=str(level)
        )
    measure = _OF_TRIALS[metric]
    rng = np.random.default_rng(seed)
    replicates = [
        measure(Trials(_resample(trials.bonafide, rng), _resample(trials.spoof, rng)))
        for _ in range(num_resamples)
    ]
    low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
    return Interval(measure(trials), float(low), float(high), level, num_resamples)


def _resample(ascending: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw with replacement; counting how often each was drawn keeps the order without a sort."""
    draws = rng.integers(0, ascending.size, size=ascending.size)
    return np.repeat(ascending, np.bincount(draws, minlength=ascending.size))
