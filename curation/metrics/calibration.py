"""How well scores are calibrated as log-likelihood ratios."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from curation.metrics.trials import Trials

__all__ = ["cllr", "cllr_of"]


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
    bonafide_cost = np.logaddexp(0.0, -trials.bonafide).mean()
    spoof_cost = np.logaddexp(0.0, trials.spoof).mean()
    return float(0.5 * (bonafide_cost + spoof_cost) / math.log(2))
