"""Numbers of many episodes at once, beside what a loop finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curation.quality.segments import (
    differences,
    filled,
    lengths_of_runs,
    owners,
    quantiles,
    reduced,
)
from tests.curation.quality.episodes import each, rough, slow_filled, starts_of

seeds = st.integers(0, 2**32 - 1)


@given(starts_of, seeds)
def test_reductions_are_those_of_a_loop(starts: np.ndarray, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(starts[-1], 2))
    found = reduced(np.maximum, values, starts, -1.0)
    for number, frames in enumerate(each(starts)):
        expected = values[frames].max(axis=0) if len(values[frames]) else [-1.0, -1.0]
        assert found[number].tolist() == list(expected)
    counts = reduced(np.add, values[:, 0] > 0, starts, 0)
    assert counts.tolist() == [int((values[frames, 0] > 0).sum()) for frames in each(starts)]
    assert owners(starts).tolist() == [
        number for number, frames in enumerate(each(starts)) for _ in values[frames]
    ]


@given(starts_of, seeds, st.integers(1, 3))
def test_differences_stay_in_their_episode(starts: np.ndarray, seed: int, order: int) -> None:
    values = np.random.default_rng(seed).normal(size=(starts[-1], 2))
    found = differences(values, starts, order)
    for frames in each(starts):
        own = values[frames]
        expected = np.zeros_like(own)
        expected[order:] = np.diff(own, order, axis=0)[: max(0, len(own) - order)]
        np.testing.assert_array_equal(found[frames], expected)


@given(starts_of, seeds)
def test_what_is_missing_is_filled_within_its_episode(starts: np.ndarray, seed: int) -> None:
    values = rough(starts, seed)
    found = filled(values, starts)
    for frames in each(starts):
        np.testing.assert_array_equal(found[frames], slow_filled(values[frames]))


@given(starts_of, seeds)
def test_runs_are_those_of_a_loop(starts: np.ndarray, seed: int) -> None:
    flags = np.random.default_rng(seed).random(starts[-1]) < 0.7
    expected = []
    for frames in each(starts):
        text = "".join("x" if flag else " " for flag in flags[frames])
        sizes = [[len(run)] * len(run) for run in text.split(" ") if run]
        run = iter([size for group in sizes for size in group])
        expected += [next(run) if flag else 0 for flag in flags[frames]]
    assert lengths_of_runs(flags, starts).tolist() == expected


@given(starts_of, seeds)
def test_quantiles_are_numpys(starts: np.ndarray, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=starts[-1])
    shares = (0.0, 0.5, 0.95, 1.0)
    found = quantiles(values, starts, shares)
    for number, frames in enumerate(each(starts)):
        own = values[frames]
        expected = np.quantile(own, shares) if len(own) else np.full(4, np.nan)
        np.testing.assert_allclose(found[:, number], expected, rtol=1e-12, atol=1e-12)
