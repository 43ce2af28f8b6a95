"""Packing written out plainly: what the fast ways must agree with."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations


def best_fit_decreasing(lengths: Iterable[int], capacity: int) -> list[int]:
    """How full each bin is."""
    fills: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [fill for fill in fills if fill + length <= capacity]
        if fitting:
            fills[fills.index(max(fitting))] += length
        else:
            fills.append(length)
    return fills


def first_fit(lengths: Iterable[int], capacity: int) -> list[int]:
    """The bin of each item."""
    fills: list[int] = []
    placed = []
    for length in lengths:
        number = next((n for n, fill in enumerate(fills) if fill + length <= capacity), len(fills))
        if number == len(fills):
            fills.append(0)
        fills[number] += length
        placed.append(number)
    return placed


def next_fit(lengths: Iterable[int], capacity: int) -> int:
    """The number of bins."""
    bins, fill = 0, capacity
    for length in lengths:
        if fill + length > capacity:
            bins, fill = bins + 1, 0
        fill += length
    return bins


def fewest_bins(lengths: list[int], capacity: int) -> int:
    """The smallest number of bins there is, for a handful of items."""
    if not lengths:
        return 0
    rest = lengths[1:]
    return 1 + min(
        fewest_bins([length for i, length in enumerate(rest) if i not in mates], capacity)
        for size in range(len(rest) + 1)
        for mates in combinations(range(len(rest)), size)
        if lengths[0] + sum(rest[i] for i in mates) <= capacity
    )
