"""How well scores are calibrated as log-likelihood ratios."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from curation.metrics.trials import FloatArray, Trials

__all__ = ["cllr", "cllr_of", "cllr_of_means", "trial_costs"]


def cllr(bonafide_scores: npt.ArrayLike, spoof_scores: npt.ArrayLike) -> float:
    """The cost of log-likelihood ratios, in bits: 0 is perfect, 1 says nothing.

    The ASVspoof 5 definition; that code overflows to infinity past ratios of about 709, this one
    does not.

    Raises:
        InputError: see `Trials.of`.
    """
    return cllr_of(Trials.of(bonafide_scores, spoof_scores))


def cllr_of(trials: Trials) -> float:
    """`cllr` of trials that are checked and sorted."""
    bonafide_costs, spoof_costs = trial_costs(trials)
    return float(cllr_of_means(bonafide_costs.mean(), spoof_costs.mean()))


def trial_costs(trials: Trials) -> tuple[FloatArray, FloatArray]:
    """What each trial costs, in nats, in the order of the trials."""
    return np.logaddexp(0.0, -trials.bonafide), np.logaddexp(0.0, trials.spoof)


def cllr_of_means(bonafide_costs: FloatArray, spoof_costs: FloatArray) -> FloatArray:
    """`cllr` from the mean cost of each class, of one shape."""
    return np.asarray(0.5 * (bonafide_costs + spoof_costs) / math.log(2))
