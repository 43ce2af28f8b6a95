"""Count, min, max, mean and variance of a stream of vectors, in any order and any cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["Accumulator"]

Vector = npt.NDArray[np.float64]


class Accumulator:
    """Moments of vectors, element by element; two of them merge into one of both.

    The mean and the sum of squared deviations are updated in pairs (Chan, Golub and LeVeque,
    "Updating formulae and a pairwise algorithm for computing sample variances", 1979), so a large
    offset costs no digits. Any order and any cut give the same up to rounding. NaN is left out,
    element by element; infinite values make the mean infinite and the std NaN, as in NumPy. An
    element of which nothing was seen is NaN. A few vectors of memory. Picklable; not thread-safe.
    """

    def __init__(self, num_elements: int) -> None:
        self.counts = np.zeros(num_elements, dtype=np.int64)
        """Values that were seen of each element, NaN apart."""
        self._min = np.full(num_elements, np.inf)
        self._max = np.full(num_elements, -np.inf)
        self._mean = np.zeros(num_elements)
        self._squares = np.zeros(num_elements)

    @classmethod
    def of_figures(
        cls, count: int, least: Vector, most: Vector, mean: Vector, std: Vector
    ) -> Accumulator:
        """The accumulator that has seen `count` vectors of these figures."""
        made = cls(len(mean))
        made.counts = np.where(np.isnan(mean), 0, count).astype(np.int64)
        seen = made.counts > 0
        made._min = np.where(seen, least, np.inf)
        made._max = np.where(seen, most, -np.inf)
        made._mean = np.where(seen, mean, 0.0)
        made._squares = np.where(seen, np.square(std) * count, 0.0)
        return made

    def add(self, values: npt.NDArray[Any]) -> None:
        """Take in vectors, shape (vectors, elements), of any dtype of numbers.

        Raises:
            InputError: they have another number of elements.
        """
        if values.ndim != 2 or values.shape[1] != len(self.counts):
            raise InputError(
                "Vectors cannot be added to statistics",
                expected=f"an array of (vectors, {len(self.counts)})",
                found=str(values.shape),
            )
        if not len(values):
            return
        wide = values.astype(np.float64, copy=False)
        there = ~np.isnan(wide)
        seen = Accumulator(len(self.counts))
        seen.counts = np.count_nonzero(there, axis=0)
        with np.errstate(all="ignore"):
            seen._min = np.min(wide, axis=0, initial=np.inf, where=there)
            seen._max = np.max(wide, axis=0, initial=-np.inf, where=there)
            divisor = np.maximum(seen.counts, 1)
            seen._mean = np.sum(wide, axis=0, where=there) / divisor
            seen._squares = np.sum(np.square(wide - seen._mean), axis=0, where=there)
        self.merge(seen)

    def merge(self, other: Accumulator) -> None:
        """Take in all that `other` has seen."""
        total = self.counts + other.counts
        share = other.counts / np.maximum(total, 1)
        with np.errstate(all="ignore"):
            apart = other._mean - self._mean
            met = self._mean + apart * share
            # An infinite mean stays infinite; inf - inf would make it NaN.
            self._mean = np.where(np.isfinite(apart), met, self._mean + other._mean)
            self._squares += other._squares + np.square(apart) * self.counts * share
        # One that has seen nothing says nothing.
        only_other = (self.counts == 0) & (other.counts > 0)
        self._mean = np.where(only_other, other._mean, self._mean)
        self._squares = np.where(only_other, other._squares, self._squares)
        self._min = np.minimum(self._min, other._min)
        self._max = np.maximum(self._max, other._max)
        self.counts = total

    @property
    def min(self) -> Vector:
        """The smallest values."""
        return self._where_seen(self._min)

    @property
    def max(self) -> Vector:
        """The largest values."""
        return self._where_seen(self._max)

    @property
    def mean(self) -> Vector:
        """The arithmetic means."""
        return self._where_seen(self._mean)

    @property
    def std(self) -> Vector:
        """Of the population (ddof 0)."""
        return self._where_seen(np.sqrt(self._squares / np.maximum(self.counts, 1)))

    def _where_seen(self, figure: Vector) -> Vector:
        return np.where(self.counts > 0, figure, np.nan)
