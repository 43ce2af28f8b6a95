"""The equal error rate of scores that come in few values, from their histograms, with weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["binned_eer"]

FloatArray = npt.NDArray[np.float64]


def binned_eer(scores: npt.ArrayLike, bonafide: npt.ArrayLike, spoof: npt.ArrayLike) -> Any:
    """The equal error rate where many trials share a score; NaN where a class has no mass.

    Miss and false-alarm rate after each value of the score, joined by straight lines, cross at the
    EER: trials of one score are rejected in equal parts. `curation.metrics.eer` puts bona fide
    first among equals, as the challenges do; with five values of a score that rule would decide
    the result, and a feature that says nothing would not get one half.

    Args:
        scores: (num_cells,), higher for bona fide.
        bonafide: (..., num_cells), the mass of bona fide in each cell.
        spoof: (..., num_cells), the mass of spoof.

    Returns:
        Shape (...): fractions.
    """
    values, cell = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    miss, rejected = (_cumulated(mass, cell, values.size) for mass in (bonafide, spoof))
    with np.errstate(invalid="ignore", divide="ignore"):
        miss, kept = miss / miss[..., -1:], 1 - rejected / rejected[..., -1:]
        excess = miss - kept
        # The excess grows from -1 to 1: the last step at which it is below zero, and the next.
        before = (excess < 0).sum(axis=-1, keepdims=True) - 1
        before = np.clip(before, 0, values.size - 1)
        low, high = (np.take_along_axis(excess, before + step, -1) for step in (0, 1))
        part = low / (low - high)
        first, second = (np.take_along_axis(miss, before + step, -1) for step in (0, 1))
        return (first + part * (second - first))[..., 0]


def _cumulated(mass: npt.ArrayLike, cell: npt.NDArray[np.intp], size: int) -> FloatArray:
    """Mass at or below each value, with a zero before the first."""
    given = np.asarray(mass, np.float64)[..., np.argsort(cell, kind="stable")]
    first = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=size))[:-1]])
    summed = np.add.reduceat(given, first, axis=-1)
    return np.concatenate([np.zeros((*summed.shape[:-1], 1)), np.cumsum(summed, axis=-1)], axis=-1)
