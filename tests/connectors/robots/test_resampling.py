"""The common grid and what it takes, against loops that are slow and obvious."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from connectors.mcap.resampling import RULES, grid_of, interpolated, median_rate_hz, take

SECOND = 1_000_000_000

streams = st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=40).map(sorted)


@settings(max_examples=200, deadline=None)
@given(streams, streams, st.sampled_from([1.0, 7.5, 30.0, 100.0]), st.sampled_from(RULES))
def test_takes_what_a_loop_takes(
    reference: list[int], other: list[int], fps: float, rule: str
) -> None:
    grid = grid_of(
        np.array(reference),
        [reference[0], other[0]],
        [reference[-1], other[-1]],
        fps,
        rule,
    )
    half = 0 if rule == "nearest" else round(SECOND / fps / 2)
    assume(len(grid))
    begin = min(time for time in reference if time >= max(reference[0], other[0])) + half
    assert grid[0] == begin
    assert grid[-1] <= min(reference[-1], other[-1]) + half < grid[-1] + SECOND / fps + 1
    for nth, time in enumerate(grid):
        assert abs(time - (begin + nth * SECOND / fps)) <= 1
    taken = take(np.array(other), grid, rule, 0.5)
    ages = []
    for time, index in zip(grid.tolist(), taken.index.tolist(), strict=True):
        before = max(nth for nth, found in enumerate(other) if found <= time)
        if rule == "nearest":
            best = min(abs(found - time) for found in other)
            assert abs(other[index] - time) == best
        else:
            assert index == before
        ages.append(abs(time - other[index]))
    stale = [nth for nth, age in enumerate(ages) if age > SECOND / 2]
    assert taken.first_stale == (stale[0] if stale else None)
    assert taken.max_age_s == max(ages) / SECOND
    inside = {nth for nth, time in enumerate(other) if grid[0] <= time <= grid[-1]}
    assert taken.num_dropped == len(inside - set(taken.index.tolist()))
    pairs = zip(taken.index.tolist(), taken.index.tolist()[1:], strict=False)
    assert taken.num_repeated == sum(one == two for one, two in pairs)


@pytest.mark.parametrize("rule", ["hold", "nearest"])
def test_jitter_neither_drops_nor_repeats(rule: str) -> None:
    """A camera of 29.97 Hz whose messages come up to 5 ms early or late, at a grid of 30 Hz."""
    random = np.random.default_rng(0)
    times = np.arange(300) * SECOND // 30 + random.integers(-5_000_000, 5_000_000, 300)
    grid = grid_of(times, [int(times[0])], [int(times[-1])], 30, rule)
    taken = take(times, grid, rule, 0.5)
    assert taken.num_dropped + taken.num_repeated <= 1
    assert 299 <= len(grid) <= 300


def test_streams_of_one_loop_stay_together() -> None:
    """State, action and picture of a loop follow each other within milliseconds."""
    loop = np.arange(100) * SECOND // 20
    grid = grid_of(loop + 4_000_000, [4_000_000, 0, 9_000_000], [int(loop[-1])] * 3, 20, "hold")
    indices = [take(loop + late, grid, "hold", 0.5).index for late in (0, 4_000_000, 9_000_000)]
    assert all(np.array_equal(index, indices[0]) for index in indices)


def test_streams_without_a_common_time_have_no_grid() -> None:
    assert not len(grid_of(np.array([0, 10]), [0, 3 * SECOND], [10, 4 * SECOND], 30, "hold"))
    assert not len(grid_of(np.array([0, 5 * SECOND]), [0, SECOND], [SECOND, SECOND], 30, "nearest"))


def test_interpolation_lies_on_the_lines() -> None:
    times = np.array([0, 10, 30]) * 1_000_000
    values = np.array([[0.0, 1.0], [10.0, 1.0], [30.0, 5.0]])
    grid = np.array([0, 5, 10, 20, 30, 40]) * 1_000_000
    expected = [[0, 1], [5, 1], [10, 1], [20, 3], [30, 5], [30, 5]]
    assert interpolated(times, values, grid).tolist() == expected
    assert interpolated(times, values.astype(np.float32), grid).dtype == np.float32


def test_interpolation_keeps_values_at_their_times_and_gaps_of_nan() -> None:
    values = np.array([[0.1], [np.nan], [0.3]])
    found = interpolated(np.array([0, 10, 20]), values, np.array([0, 5, 10, 15, 20]))
    assert found[0, 0] == 0.1
    assert np.isnan(found[1:4]).all()
    assert found[4, 0] == 0.3


@pytest.mark.parametrize(
    ("interval_s", "rate"), [(1 / 29.97, 30.0), (0.02, 50.0), (2.0, 0.5), (1 / 1000, 1000.0)]
)
def test_rates_are_whole_numbers_from_one_on(interval_s: float, rate: float) -> None:
    times = np.rint(np.arange(50) * interval_s * SECOND).astype(np.int64)
    times[20:] += 3 * SECOND
    assert median_rate_hz(times) == pytest.approx(rate)
    assert median_rate_hz(times[:1]) is None
