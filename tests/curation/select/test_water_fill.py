from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curation.selection import water_fill

SIZES = st.lists(st.integers(0, 30), max_size=8)


def poured_one_by_one(sizes: list[int], budget: int) -> list[int]:
    """The twin: give each unit to the first of the emptiest domains that have room."""
    filled = [0] * len(sizes)
    for _ in range(budget):
        open_ = [index for index, size in enumerate(sizes) if filled[index] < size]
        if not open_:
            break
        filled[min(open_, key=lambda index: filled[index])] += 1
    return filled


@pytest.mark.parametrize(
    ("sizes", "budget", "expected"),
    [
        ([10, 10, 10], 9, [3, 3, 3]),
        ([1, 10, 10], 9, [1, 4, 4]),
        ([1, 10, 10], 8, [1, 4, 3]),
        ([2, 3], 100, [2, 3]),
        ([5, 5], 0, [0, 0]),
        ([0, 5], 1, [0, 1]),
        ([], 7, []),
    ],
)
def test_by_hand(sizes: list[int], budget: int, expected: list[int]) -> None:
    assert water_fill(sizes, budget) == expected


@given(SIZES, st.integers(0, 150))
def test_equals_pouring_one_by_one(sizes: list[int], budget: int) -> None:
    assert water_fill(sizes, budget) == poured_one_by_one(sizes, budget)


@given(SIZES, st.integers(0, 10**12))
def test_spends_the_budget_or_everything(sizes: list[int], budget: int) -> None:
    assert sum(water_fill(sizes, budget)) == min(budget, sum(sizes))


@given(SIZES, st.integers(0, 150), st.integers(0, 20))
def test_a_larger_budget_takes_nothing_away(sizes: list[int], budget: int, more: int) -> None:
    smaller, larger = water_fill(sizes, budget), water_fill(sizes, budget + more)
    assert all(a <= b for a, b in zip(smaller, larger, strict=True))
