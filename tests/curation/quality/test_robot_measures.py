"""Measures of robot episodes: by hand, and beside loops over episodes and frames."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curation.quality import robot_frames as flags
from curation.quality import robot_lag, robot_motion, robot_timing
from curation.quality.robot_motion import Signal
from tests.curation.quality.episodes import each, rough, starts_of, unit_scale
from tests.curation.quality.robot_twins import (
    longest,
    slow_frozen,
    slow_idle,
    slow_jerk,
    slow_lag,
    slow_offset,
)

seeds = st.integers(0, 2**32 - 1)
ONE = np.array([0, 40])


def moving(seed: int = 0, frames: int = 40) -> np.ndarray:
    """A smooth walk from 0 to 1 and back."""
    rng = np.random.default_rng(seed)
    phase = np.cumsum(rng.uniform(0.05, 0.4, frames))
    return (0.5 - 0.5 * np.cos(phase))[:, None]


# By hand ----------------------------------------------------------------------------------------


def test_the_jerk_of_a_cubic_is_its_third_derivative() -> None:
    time = np.arange(40)[:, None] / 10
    # x = t^3 has 6, of a range of 2; times a factor, of a range times that factor, the same.
    for factor in (1.0, 57.3):
        signal = Signal(factor * time**3, unit_scale())
        scale = signal.scale
        signal = Signal(signal.values, type(scale)(
            scale.low, scale.high * 2 * factor, scale.step, scale.noise
        ))  # fmt: skip
        median, p95 = robot_motion.jerk(signal, ONE, 10.0)
        assert (median[0], p95[0]) == (pytest.approx(3), pytest.approx(3))
    assert math.isnan(robot_motion.jerk(Signal(time[:3], unit_scale()), np.array([0, 3]), 10)[0][0])


def test_idle_frames_lead_and_trail() -> None:
    found = np.array([1, 1, 0, 1, 0, 1, 1, 1], bool)
    share, leading, trailing = robot_motion.idleness(found, np.array([0, 4, 4, 8]))
    assert np.array_equal(share, [0.75, np.nan, 0.75], equal_nan=True)
    assert (leading.tolist(), trailing.tolist()) == ([2, 0, 0], [1, 0, 3])
    assert robot_motion.idleness(np.ones(3, bool), np.array([0, 3]))[1:] == ([3], [0])


def test_what_is_dead_in_an_episode_is_told_from_what_never_moves() -> None:
    values = np.zeros((40, 3))
    values[:, 0] = moving()[:, 0]
    scale = unit_scale(3)
    # The third dimension is constant in all of the robot's episodes.
    scale = type(scale)(scale.low, scale.high * [1, 1, 0], scale.step, scale.noise)
    constant, frozen = robot_motion.dead_dimensions(Signal(values, scale), ONE)
    assert (constant.tolist(), frozen.tolist()) == ([2], [1])


def test_times_are_judged_by_the_rate() -> None:
    times = np.concatenate([np.arange(10) / 10, np.arange(10) / 10 * 1.02, [0, 0.1, 0.1, 0.4]])
    starts = np.array([0, 10, 20, 24])
    assert robot_timing.num_gaps(times, starts, 10.0).tolist() == [0, 0, 1]
    assert robot_timing.num_backward(times, starts).tolist() == [0, 0, 1]
    np.testing.assert_allclose(robot_timing.fps_drift(times, starts, 10.0), [0, 0.02, 1 / 3])
    assert np.isnan(robot_timing.fps_drift(times[:1], np.array([0, 1]), 10.0)).all()


@pytest.mark.parametrize("shift", [-4, 0, 3])
def test_the_lag_is_the_shift_of_the_streams(shift: int) -> None:
    long = moving(frames=60)
    state, action = long[10:50], long[10 + shift : 50 + shift]
    signals = Signal(state, unit_scale()), Signal(5 * action, unit_scale())
    lag, correlation = robot_lag.lag(*signals, ONE, furthest=6)
    assert lag.tolist() == [shift]
    assert correlation[0] == pytest.approx(1)
    # Noise follows nothing; a robot that rests has none.
    noise = Signal(np.random.default_rng(1).normal(size=(40, 1)), unit_scale())
    assert math.isnan(robot_lag.lag(noise, signals[1], ONE, furthest=2)[0][0])
    rest = Signal(np.zeros((40, 1)), unit_scale())
    assert np.isnan(robot_lag.lag(rest, rest, ONE, furthest=2)).all()


def test_the_offset_is_that_at_rest() -> None:
    state = np.concatenate([np.full(10, 0.2), np.linspace(0.2, 0.9, 30)])[:, None]
    action = state + 0.05
    action[20:] += 0.2
    idle = np.arange(40) < 10
    signals = Signal(state, unit_scale()), Signal(action, unit_scale())
    np.testing.assert_allclose(robot_lag.offset(*signals, idle, ONE), [0.05])
    assert np.isnan(robot_lag.offset(*signals, ~(idle | True), ONE)).all()


def test_dimensions_are_paired_by_name() -> None:
    assert robot_lag.paired(["a", "b", "c"], ["c", "a"]) == ([0, 2], [1, 0])
    assert robot_lag.paired(["", ""], ["", ""]) == ([0, 1], [0, 1])
    assert robot_lag.paired(["x", "y"], ["u", "v"]) == ([0, 1], [0, 1])
    assert robot_lag.paired(["x"], ["u", "v"]) == ([], [])
    # A second action of the same joints, as differences, is not taken for the first.
    assert robot_lag.paired(["a", "b"], ["a", "b", "a", "b"]) == ([0, 1], [0, 1])


# Beside loops -----------------------------------------------------------------------------------


@given(starts_of, seeds)
def test_measures_are_those_of_a_loop(starts: np.ndarray, seed: int) -> None:
    state, action = (Signal(rough(starts, seed + more), unit_scale(2)) for more in (0, 1))
    scale = state.scale
    idle = flags.idle(state.values, starts, scale, window=3)
    hung = flags.frozen(state.values, starts, least=2)
    jerk = np.array(robot_motion.jerk(state, starts, 10.0)).T
    lag = np.array(robot_lag.lag(state, action, starts, furthest=3)).T
    offset = robot_lag.offset(state, action, idle, starts)
    still = robot_motion.longest_share(hung, starts)
    bad = robot_motion.num_non_finite(state, starts)
    for number, frames in enumerate(each(starts)):
        own, other = state.values[frames], action.values[frames]
        np.testing.assert_allclose(jerk[number], slow_jerk(own, scale, 10.0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            lag[number, 1], slow_lag(own, other, scale, scale, 3)[1], rtol=1e-9, atol=1e-12
        )
        resting = idle[frames].tolist()
        np.testing.assert_allclose(offset[number], slow_offset(own, other, resting, scale))
        if len(own):
            assert still[number] == longest(slow_frozen(own, 2)) / len(own)
        assert bad[number] == sum(not math.isfinite(value) for value in own.ravel())


@given(starts_of, seeds)
def test_lags_are_those_of_a_loop_where_they_are_clear(starts: np.ndarray, seed: int) -> None:
    """Values of few levels tie; these do not."""
    rng = np.random.default_rng(seed)
    state, action = (
        Signal(rng.normal(size=(starts[-1], 2)), unit_scale(2, step=1e-3)) for _ in range(2)
    )
    found, _ = robot_lag.lag(state, action, starts, furthest=3)
    for number, frames in enumerate(each(starts)):
        own, other = state.values[frames], action.values[frames]
        expected, _ = slow_lag(own, other, state.scale, action.scale, 3)
        np.testing.assert_equal(found[number], expected)
    assert slow_idle(np.zeros((3, 1)), unit_scale(), 3) == [True] * 3
