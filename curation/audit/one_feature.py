"""How well one feature alone tells bona fide from spoof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.audit.weighted_roc import binned_eer

__all__ = ["FeatureTrial", "cells_of", "folds_of"]

_NUM_FOLDS: Final = 5
_MOST_CATEGORIES: Final = 32
_MOST_BINS: Final = 64
_SMOOTHING: Final = 1.0
_SCORE_STEP: Final = 0.05

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def cells_of(values: Sequence[object] | npt.NDArray[np.generic], is_bonafide: Mask) -> IntArray:
    """A cell for each row: a category, or a bin of a number.

    Text and truth values, and numbers of at most 32 different values, are categories. Other numbers
    are cut at quantiles, taken over both classes with equal mass, into as many bins as the
    square root of the smaller class, 2 to 64. Null and NaN are a cell of their own: that a value is
    missing may give a class away too.

    Args:
        values: (num_rows,), numbers (NaN for null) or strings (None for null).
        is_bonafide: (num_rows,).

    Returns:
        Cells, numbered from 0, (num_rows,).
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        texts = np.array(["\0" if value is None else str(value) for value in array.tolist()])
        return np.unique(texts, return_inverse=True)[1].astype(np.int64)
    numbers = array.astype(np.float64)
    known = ~np.isnan(numbers)
    found, numbered = np.unique(numbers[known], return_inverse=True)
    cells = np.full(len(numbers), -1, np.int64)
    if len(found) > _MOST_CATEGORIES:
        numbered = np.searchsorted(
            _edges(numbers[known], is_bonafide[known]), numbers[known], side="right"
        )
    cells[known] = numbered
    # Without empty cells, to which smoothing would give a share.
    return np.unique(cells, return_inverse=True)[1].astype(np.int64)


def _edges(numbers: FloatArray, is_bonafide: Mask) -> FloatArray:
    num_bonafide = int(is_bonafide.sum())
    num_spoof = len(numbers) - num_bonafide
    num_bins = int(np.clip(np.sqrt(min(num_bonafide, num_spoof)), 2, _MOST_BINS))
    order = np.argsort(numbers, kind="stable")
    mass = np.where(is_bonafide, 1 / max(num_bonafide, 1), 1 / max(num_spoof, 1))[order]
    reached = np.cumsum(mass) / mass.sum()
    at = np.searchsorted(reached, np.arange(1, num_bins) / num_bins)
    return np.unique(numbers[order[np.minimum(at, len(order) - 1)]])


def folds_of(is_bonafide: Mask) -> IntArray:
    """A fold for each of some rows in random order, both classes dealt out evenly, (num_rows,)."""
    folds = np.empty(len(is_bonafide), np.int64)
    for side in (is_bonafide, ~is_bonafide):
        folds[side] = np.arange(side.sum()) % _NUM_FOLDS
    return folds


@dataclass(frozen=True, eq=False)
class FeatureTrial:
    """One feature put to the test on some rows.

    Each of five folds is scored by the log-likelihood ratio of its cell, learnt from the other four
    with one row of smoothing a cell: any shape of the two distributions counts, and noise, which
    does not carry over to the fold left out, ends at about one half. Ratios are rounded to
    1/20 nat: smaller differences between folds are none of the feature. Ours. All that is kept
    of the rows is their mass by domain, fold and cell.

    Args:
        mass: (num_domains, 5, num_cells), the sum of the rows' weights.
        squares: the same of the weights' squares.
        is_bonafide: (num_domains,).
    """

    mass: FloatArray
    squares: FloatArray
    is_bonafide: Mask

    @classmethod
    def of(
        cls,
        cells: IntArray,
        folds: IntArray,
        domains: IntArray,
        is_bonafide: Mask,
        weights: FloatArray,
    ) -> FeatureTrial:
        """Sum rows up.

        Args:
            cells: (num_rows,), from `cells_of`.
            folds: (num_rows,), from `folds_of`.
            domains: (num_rows,), indices of domains.
            is_bonafide: (num_domains,).
            weights: (num_rows,).
        """
        shape = (len(is_bonafide), _NUM_FOLDS, int(cells.max(initial=0)) + 1)
        place = np.ravel_multi_index((domains, folds, cells), shape)
        size = int(np.prod(shape))
        return cls(
            np.bincount(place, weights, size).reshape(shape).astype(np.float64),
            np.bincount(place, weights**2, size).reshape(shape).astype(np.float64),
            is_bonafide,
        )

    @cached_property
    def _scores(self) -> FloatArray:
        return _scores(self._class_mass(True), self._class_mass(False))

    def _class_mass(self, bonafide: bool) -> FloatArray:
        return np.asarray(self.mass[self.is_bonafide == bonafide].sum(axis=0))

    @cached_property
    def eer(self) -> float:
        """The equal error rate of the feature, as a fraction."""
        return float(
            binned_eer(
                self._scores.ravel(),
                self._class_mass(True).ravel(),
                self._class_mass(False).ravel(),
            )
        )

    def interval(
        self, *, num_resamples: int, seed: int, level: float = 0.95
    ) -> tuple[float, float]:
        """Percentile bootstrap over rows, the learnt scores held fixed.

        Each class is drawn anew as often as it has effective rows, (sum w)^2 / sum w^2, from its
        mass in the cells.
        """
        rng = np.random.default_rng(seed)
        drawn = []
        for bonafide in (True, False):
            mass = self._class_mass(bonafide).ravel()
            squares = self.squares[self.is_bonafide == bonafide].sum()
            size = max(round(mass.sum() ** 2 / squares), 1)
            drawn.append(rng.multinomial(size, mass / mass.sum(), size=num_resamples))
        replicates = binned_eer(self._scores.ravel(), *drawn)
        low, high = np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def domain_eers(self) -> FloatArray:
        """The EER of each domain alone against the whole other class, (num_domains,)."""
        scores, found = self._scores.ravel(), np.empty(len(self.mass))
        classes = {side: self._class_mass(side).ravel() for side in (True, False)}
        for bonafide in (True, False):
            own = self.mass[self.is_bonafide == bonafide].reshape(-1, scores.size)
            other = np.broadcast_to(classes[not bonafide], own.shape)
            pair = (own, other) if bonafide else (other, own)
            found[self.is_bonafide == bonafide] = binned_eer(scores, *pair)
        return found

    def eers_without(self) -> FloatArray:
        """The EER once a domain is gone and the scores are learnt anew, (num_domains,).

        NaN for the only domain of its class.
        """
        found = np.full(len(self.mass), np.nan)
        bonafide, spoof = self._class_mass(True), self._class_mass(False)
        for index, own in enumerate(self.mass):
            left = (bonafide - own, spoof) if self.is_bonafide[index] else (bonafide, spoof - own)
            left = (np.maximum(left[0], 0), np.maximum(left[1], 0))
            if (self.is_bonafide == self.is_bonafide[index]).sum() > 1:
                scores = _scores(*left)
                found[index] = binned_eer(scores.ravel(), left[0].ravel(), left[1].ravel())
        return found


def _scores(bonafide: FloatArray, spoof: FloatArray) -> FloatArray:
    """Out-of-fold log-likelihood ratios, (5, num_cells), from masses of that shape."""

    def likelihood(mass: FloatArray) -> FloatArray:
        others = mass.sum(axis=0) - mass
        smoothed = np.maximum(others, 0) + _SMOOTHING
        return np.asarray(np.log(smoothed / smoothed.sum(axis=1, keepdims=True)))

    ratios = likelihood(bonafide) - likelihood(spoof)
    return np.asarray(np.round(ratios / _SCORE_STEP) * _SCORE_STEP)
