"""Quantiles of more numbers than memory holds, exact, by counting in passes.

Every dtype of numbers has keys: unsigned integers in the same order. In a pass the keys between the
bounds that are still open fall into 4,096 bins; the bins that hold the ranks asked for are the
bounds of the next one. Each pass settles 12 bits, whatever the values are like. As soon as the
values between the bounds fit into memory, one last pass collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["QuantileSearch", "between"]

Keys = npt.NDArray[np.uint64]

_BINS: Final = 4096


def between(value_at: Callable[[int], float], count: int, level: float) -> float:
    """The quantile of `count` sorted values, interpolated by NumPy itself.

    Args:
        value_at: the value of a rank from 0.
        count: how many there are, at least one.
        level: which quantile, in [0, 1].
    """
    place = (count - 1) * level
    lower = int(np.floor(place))
    pair = [value_at(lower), value_at(min(lower + 1, count - 1))]
    with np.errstate(all="ignore"):
        return float(np.quantile(pair, place - lower))


@dataclass
class _Bounds:
    """Keys from `low` to `high` (both included), and the ranks that are known to be among them."""

    low: int
    high: int
    below: int
    """Values smaller than `low`."""
    inside: int
    ranks: list[int]
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    collected: list[Keys] = field(default_factory=list)

    @property
    def width(self) -> int:
        """Keys a bin."""
        return -(-(self.high - self.low + 1) // _BINS)

    def open(self, *, collecting: bool) -> None:
        self.counts = np.zeros(0 if collecting else _BINS, np.int64)
        self.collected = []

    def add(self, keys: Keys, *, collecting: bool) -> None:
        low, high = np.uint64(self.low), np.uint64(self.high)
        among = keys[(keys >= low) & (keys <= high)]
        if collecting:
            self.collected.append(among)
        else:
            bins = ((among - low) // np.uint64(self.width)).astype(np.int64)
            self.counts += np.bincount(bins, minlength=_BINS)

    def narrowed(self) -> list[_Bounds]:
        """The bins that hold the ranks."""
        up_to = np.cumsum(self.counts)
        found: dict[int, _Bounds] = {}
        for rank in self.ranks:
            bin_ = int(np.searchsorted(up_to, rank - self.below, "right"))
            if bin_ not in found:
                low = self.low + bin_ * self.width
                inside = int(self.counts[bin_])
                below = self.below + int(up_to[bin_]) - inside
                high = min(low + self.width - 1, self.high)
                found[bin_] = _Bounds(low, high, below, inside, [])
            found[bin_].ranks.append(rank)
        return list(found.values())


class _Element:
    """The search of one element of a vector."""

    def __init__(self) -> None:
        self.count = 0
        self.bounds: list[_Bounds] = []
        self.known: dict[int, int] = {}

    @property
    def num_open(self) -> int:
        return sum(bounds.inside for bounds in self.bounds)

    def start(self, low: int, high: int, levels: Sequence[float]) -> None:
        places = [int(np.floor((self.count - 1) * level)) for level in levels]
        ranks = {min(place + step, self.count - 1) for place in places for step in (0, 1)}
        if self.count:
            self.bounds = [_Bounds(low, high, 0, self.count, sorted(ranks))]

    def settle(self) -> None:
        """Learn the keys of ranks whose bounds are one key."""
        for bounds in self.bounds:
            if bounds.low == bounds.high:
                self.known.update(dict.fromkeys(bounds.ranks, bounds.low))
        self.bounds = [bounds for bounds in self.bounds if bounds.low != bounds.high]


class QuantileSearch:
    """Exact quantiles of a stream of vectors that is seen several times.

        for values in stream: search.add(values)
        while not search.advance():
            for values in stream: search.add(values)
        search.quantiles()

    The stream must bring the same vectors in every pass; their order and cuts do not matter. NaN is
    left out. Holds some 32 KiB for each bin that is open (at most two a level and element) or
    `memory_bytes` of values.
    """

    def __init__(self, num_elements: int, levels: Sequence[float], memory_bytes: int) -> None:
        self._levels = levels
        self._memory_values = max(memory_bytes // 8, 1)
        self._elements = [_Element() for _ in range(num_elements)]
        self._dtype: np.dtype[Any] | None = None
        self._lows = [2**64 - 1] * num_elements
        self._highs = [0] * num_elements
        # The first pass: all values as long as there is room, and how many there are.
        self._kept: list[npt.NDArray[Any]] | None = []
        self._num_kept = 0
        self._is_first = True
        self._collecting = False

    def add(self, values: npt.NDArray[Any]) -> None:
        """Take in vectors, shape (vectors, elements)."""
        self._dtype = self._dtype or values.dtype
        if values.dtype != self._dtype:
            raise InputError(
                "A column changes its type", expected=str(self._dtype), found=str(values.dtype)
            )
        if self._is_first:
            self._take_first(values)
            return
        for element, column in zip(self._elements, values.T, strict=True):
            if element.bounds:
                keys = _keys_of(column)
                for bounds in element.bounds:
                    bounds.add(keys, collecting=self._collecting)

    def advance(self) -> bool:
        """End a pass. False: another one is needed."""
        if self._is_first:
            self._is_first = False
            if self._kept is not None:
                return True
            for element, low, high in zip(self._elements, self._lows, self._highs, strict=True):
                element.start(low, high, self._levels)
                element.settle()
        elif self._collecting:
            for element in self._elements:
                self._look_up(element)
        else:
            for element in self._elements:
                element.bounds = [new for old in element.bounds for new in old.narrowed()]
                element.settle()
        num_open = sum(element.num_open for element in self._elements)
        self._collecting = num_open <= self._memory_values
        for element in self._elements:
            for bounds in element.bounds:
                bounds.open(collecting=self._collecting)
        return num_open == 0

    def quantiles(self) -> npt.NDArray[np.float64]:
        """Shape (levels, elements), once `advance` gave true. NaN where no value was seen."""
        found = np.full((len(self._levels), len(self._elements)), np.nan)
        if self._kept is not None:
            return self._of_kept(found)
        for column, element in enumerate(self._elements):
            for row, level in enumerate(self._levels):
                if element.count:
                    value_at = partial(self._value_at, element.known)
                    found[row, column] = between(value_at, element.count, level)
        return found

    def _of_kept(self, found: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if self._kept:
            wide = np.concatenate(self._kept).astype(np.float64)
            for column, values in enumerate(wide.T):
                there = values[~np.isnan(values)]
                if len(there):
                    with np.errstate(all="ignore"):
                        found[:, column] = np.quantile(there, self._levels)
        return found

    def _take_first(self, values: npt.NDArray[Any]) -> None:
        self._num_kept += values.size
        if self._num_kept > self._memory_values:
            self._kept = None
        if self._kept is not None:
            self._kept.append(values)
        for place, (element, column) in enumerate(zip(self._elements, values.T, strict=True)):
            keys = _keys_of(column)
            if len(keys):
                element.count += len(keys)
                self._lows[place] = min(self._lows[place], int(keys.min()))
                self._highs[place] = max(self._highs[place], int(keys.max()))

    def _look_up(self, element: _Element) -> None:
        for bounds in element.bounds:
            keys = np.sort(np.concatenate(bounds.collected))
            element.known.update({rank: int(keys[rank - bounds.below]) for rank in bounds.ranks})
        element.bounds = []

    def _value_at(self, known: Mapping[int, int], rank: int) -> float:
        assert self._dtype is not None  # a value was seen
        return float(_value_of(known[rank], self._dtype))


def _keys_of(values: npt.NDArray[Any]) -> Keys:
    """Integers in the order of the values, NaN left out."""
    kind, bits = values.dtype.kind, values.dtype.itemsize * 8
    if kind == "f":
        there = np.ascontiguousarray(values[~np.isnan(values)])
        raw = there.view(f"u{bits // 8}").astype(np.uint64)
        sign, ones = np.uint64(1 << (bits - 1)), np.uint64((1 << bits) - 1)
        # Negative numbers are ordered backwards.
        return np.where(raw & sign, raw ^ ones, raw | sign)
    if kind == "i":
        return values.astype(np.int64).view(np.uint64) ^ np.uint64(1 << 63)
    return values.astype(np.uint64)


def _value_of(key: int, dtype: np.dtype[Any]) -> Any:
    bits = dtype.itemsize * 8
    if dtype.kind == "f":
        sign = 1 << (bits - 1)
        raw = key ^ sign if key & sign else key ^ ((1 << bits) - 1)
        return np.array([raw], dtype=np.uint64).astype(f"u{bits // 8}").view(dtype)[0]
    return key - (1 << 63) if dtype.kind == "i" else key
