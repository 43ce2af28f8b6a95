"""Flags of frames: by hand, and beside a loop over frames."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from curation.quality import robot_frames as flags
from curation.quality.robot_scale import Scale, scale_of
from tests.curation.quality.episodes import each, rough, slow_filled, starts_of, unit_scale
from tests.curation.quality.robot_twins import slow_frozen, slow_idle, slow_jump, slow_saturated

seeds = st.integers(0, 2**32 - 1)


def one(*values: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array(values, float)[:, None], np.array([0, len(values)])


def where(found: np.ndarray) -> list[int]:
    return np.flatnonzero(found).tolist()


# By hand ----------------------------------------------------------------------------------------


def test_idle_is_a_spell_without_motion() -> None:
    values, starts = one(0, 0.01, 0, 0.01, 0.5, 0.9, 0.9, 0.9, 0.5, 0.5)
    assert where(flags.idle(values, starts, unit_scale(), window=3)) == [0, 1, 2, 3, 5, 6, 7]
    assert where(flags.idle(values, starts, unit_scale(), window=4)) == [0, 1, 2, 3]
    # The unit does not matter.
    scale = Scale(*(np.array([each]) for each in (0.0, 100.0, 1.0, 0.0)))
    assert where(flags.idle(100 * values, starts, scale, window=4)) == [0, 1, 2, 3]
    # Two episodes that each rest for two frames do not rest for four.
    assert where(flags.idle(np.zeros((4, 1)), np.array([0, 2, 4]), scale, window=3)) == []


def test_what_only_trembles_rests() -> None:
    values, starts = one(0, 0.4, 0.1, 0.3)
    assert where(flags.idle(values, starts, unit_scale(noise=0.1), window=4)) == [0, 1, 2, 3]


def test_frozen_frames_are_the_same_to_the_bit() -> None:
    values, starts = one(1, 1, 1, 2, 2, 3, np.nan, np.nan, np.nan)
    assert where(flags.frozen(values, starts, least=3)) == [0, 1, 2, 6, 7, 8]
    assert where(flags.frozen(values, starts, least=2)) == [0, 1, 2, 3, 4, 6, 7, 8]
    assert where(flags.frozen(np.zeros((4, 1)), np.array([0, 2, 4]), least=3)) == []


def test_a_jump_is_no_part_of_a_movement() -> None:
    values, starts = one(0, 0.01, 0.02, 0.5, 0.51, 0.52)
    assert where(flags.jump(values, starts, unit_scale())) == [3]
    spike, starts = one(0, 0.01, 0.9, 0.02, 0.03)
    assert where(flags.jump(spike, starts, unit_scale())) == [2, 3]
    reach, starts = one(0, 0.1, 0.3, 0.5, 0.7, 0.8)
    assert where(flags.jump(reach, starts, unit_scale())) == []
    gripper, starts = one(0, 0, 0, 1, 1, 0)
    assert where(flags.jump(gripper, starts, unit_scale(step=1.0))) == []
    # From one episode to the next is no step.
    assert where(flags.jump(np.array([[0.0], [1.0]]), np.array([0, 1, 2]), unit_scale())) == []


def test_saturated_is_a_stay_at_an_end_of_the_range() -> None:
    values, starts = one(0.9, 1, 1, 1, 0.9, 1, 0.9, 0, 0, 0, 0)
    assert where(flags.saturated(values, starts, unit_scale())) == [1, 2, 3, 7, 8, 9, 10]
    assert where(flags.saturated(values, starts, unit_scale(step=1.0))) == []


def test_gaps_and_times_that_go_back() -> None:
    times = np.array([0, 0.1, 0.3, 0.3, 0.4, 0, 0.2])
    starts = np.array([0, 5, 7])
    assert where(flags.gap(times, starts, 10.0)) == [2, 6]
    assert where(flags.gap(times, starts, np.array([10.0, 5.0]))) == [2]
    assert where(flags.backward(times, starts)) == [3]


def test_no_frames_have_no_flags() -> None:
    nothing, starts = np.zeros((0, 1)), np.array([0, 0])
    for found in (
        flags.idle(nothing, starts, unit_scale(), window=2),
        flags.frozen(nothing, starts, least=2),
        flags.jump(nothing, starts, unit_scale()),
        flags.saturated(nothing, starts, unit_scale()),
        flags.gap(nothing[:, 0], starts, 10),
        flags.backward(nothing[:, 0], starts),
        flags.non_finite(nothing),
    ):
        assert found.dtype == np.bool_
        assert found.shape == (0,)


def test_the_scale_is_that_of_the_motion() -> None:
    rng = np.random.default_rng(0)
    move = np.sin(np.linspace(0, 20, 2000))
    values = np.stack([move, 3 + 0 * move, rng.normal(0, 0.1, 2000), np.sign(move)], axis=1)
    values[7] = np.nan
    scale = scale_of(values, np.array([0, 900, 900, 2000]))
    assert scale.moves.tolist() == [True, False, False, True]
    assert scale.is_switch.tolist() == [False, False, False, True]
    assert abs(scale.noise[2] - 0.1) < 0.01
    assert scale.extent[1] == 0
    np.testing.assert_allclose(scale.low[0], np.nanmin(values[:, 0]))


# Beside a loop ----------------------------------------------------------------------------------


@given(starts_of, seeds, st.integers(2, 5))
def test_flags_are_those_of_a_loop(starts: np.ndarray, seed: int, window: int) -> None:
    values, scale = rough(starts, seed), unit_scale(2)
    idle = flags.idle(values, starts, scale, window=window)
    jump = flags.jump(values, starts, scale)
    saturated = flags.saturated(values, starts, scale, least=window)
    frozen = flags.frozen(values, starts, least=window)
    for frames in each(starts):
        known = slow_filled(values[frames])
        assert idle[frames].tolist() == slow_idle(known, scale, window)
        assert jump[frames].tolist() == slow_jump(known, scale)
        assert saturated[frames].tolist() == slow_saturated(values[frames], scale, window)
        assert frozen[frames].tolist() == slow_frozen(values[frames], window)
