"""Detection costs as ASVspoof 5 defines them, normalised by the best cost without a detector."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.metrics.trials import FloatArray, Trials

__all__ = [
    "BAYES_THRESHOLD",
    "DEFAULT_COST",
    "act_dcf",
    "act_dcf_of",
    "actual_cost",
    "detection_costs",
    "min_dcf",
    "min_dcf_of",
]

P_SPOOF: Final = 0.05
C_MISS: Final = 1.0
C_FALSE_ALARM: Final = 10.0
# The floating-point order of these products is the challenge's: `1 - (1 - P_SPOOF)` is not P_SPOOF.
P_BONAFIDE: Final = 1 - P_SPOOF
DEFAULT_COST: Final = min(C_MISS * P_BONAFIDE, C_FALSE_ALARM * (1 - P_BONAFIDE))
BAYES_THRESHOLD: Final = -math.log(C_MISS * P_BONAFIDE / (C_FALSE_ALARM * P_SPOOF))


def min_dcf(bonafide_scores: npt.ArrayLike, spoof_scores: npt.ArrayLike) -> float:
    """The least normalised detection cost over all thresholds (P_spoof .05, costs 1 and 10).

    Raises:
        InputError: see `Trials.of`.
    """
    return min_dcf_of(Trials.of(bonafide_scores, spoof_scores))


def act_dcf(bonafide_scores: npt.ArrayLike, spoof_scores: npt.ArrayLike) -> float:
    """The normalised detection cost at the Bayes threshold, -log 1.9.

    Scores must be log-likelihood ratios (natural logarithm) of bona fide against spoof; for other
    scores the value says nothing.

    Raises:
        InputError: see `Trials.of`.
    """
    return act_dcf_of(Trials.of(bonafide_scores, spoof_scores))


def min_dcf_of(trials: Trials) -> float:
    """`min_dcf` of trials that are checked and sorted."""
    return float(detection_costs(*trials.error_rates()).min() / DEFAULT_COST)


def act_dcf_of(trials: Trials) -> float:
    """`act_dcf` of trials that are checked and sorted."""
    miss_rate, false_alarm_rate = trials.rates_at(BAYES_THRESHOLD)
    return float(actual_cost(np.asarray(miss_rate), np.asarray(false_alarm_rate)))


def detection_costs(miss_rates: FloatArray, false_alarm_rates: FloatArray) -> FloatArray:
    """Costs at error rates, of their shape, not normalised."""
    return C_MISS * miss_rates * P_BONAFIDE + C_FALSE_ALARM * false_alarm_rates * (1 - P_BONAFIDE)


def actual_cost(miss_rates: FloatArray, false_alarm_rates: FloatArray) -> FloatArray:
    """Normalised costs at error rates, as the challenge takes them at the Bayes threshold.

    It multiplies in another order than for the least cost, which shows in the last bit.
    """
    costs = C_MISS * P_BONAFIDE * miss_rates + C_FALSE_ALARM * P_SPOOF * false_alarm_rates
    return np.asarray(costs / min(C_FALSE_ALARM * P_SPOOF, C_MISS * P_BONAFIDE))
