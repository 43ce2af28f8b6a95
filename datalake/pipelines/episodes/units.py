"""Cutting work into units: by bytes and by number, in order, never within what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby
from typing import Final, TypeVar

__all__ = ["cut"]

_T = TypeVar("_T")

_UNITS_PER_WORKER: Final = 4


def cut(
    items: Sequence[_T],
    num_bytes: Callable[[_T], int],
    *,
    num_workers: int,
    least_bytes: int,
    most_bytes: int,
    most_items: int,
    together: Callable[[_T], Hashable] | None = None,
) -> Iterator[list[_T]]:
    """Runs of items, in order.

    A unit has about as many bytes as gives each worker four units, within the bounds. One item may
    be larger than a unit.

    Args:
        items: what is cut.
        num_bytes: of an item.
        num_workers: how many units are worked on at once.
        least_bytes: below this a unit costs more than it is worth.
        most_bytes: above this, work is lost when a worker dies.
        most_items: of a unit.
        together: items that follow each other and have this in common stay together unless they
            alone are too much for a unit: a file that they share is then read once.
    """
    total = sum(map(num_bytes, items))
    wanted = min(max(least_bytes, total // (_UNITS_PER_WORKER * num_workers)), most_bytes)
    unit: list[_T] = []
    size = 0
    runs = groupby(items, key=together) if together else ((None, [item]) for item in items)
    for _, found in runs:
        run = list(found)
        run_bytes = sum(map(num_bytes, run))
        if unit and (size + run_bytes > wanted or len(unit) + len(run) > most_items):
            yield unit
            unit, size = [], 0
        for item in run:
            if unit and (size + num_bytes(item) > most_bytes or len(unit) >= most_items):
                yield unit
                unit, size = [], 0
            unit.append(item)
            size += num_bytes(item)
    if unit:
        yield unit
