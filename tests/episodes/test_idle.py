"""Idle heads and tails, told without a unit and in spite of noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from datalake.episodes.idle import idle_frames
from datalake.recording import Feature
from tests.robots import robot_features, robot_frames

ACTION = Feature("action", "float64", (2,))


def frames(values: np.ndarray, name: str = "action") -> pa.Table:
    flat = pa.array(np.ascontiguousarray(values, float).reshape(-1))
    return pa.table({name: pa.FixedSizeListArray.from_arrays(flat, values.shape[1])})


def path(head: int, moving: int, tail: int) -> np.ndarray:
    """Two joints that rest, reach out evenly and rest again; (frames, 2)."""
    reach = np.linspace(0, 1, moving + 1)
    way = np.concatenate([np.zeros(head), reach, np.ones(tail)])
    return np.stack([way, -2 * way], axis=1)


@pytest.mark.parametrize(("head", "tail"), [(0, 0), (7, 0), (0, 5), (12, 30)])
def test_rest_is_found_at_both_ends(head: int, tail: int) -> None:
    # The last frame of rest at the head and the first at the tail belong to the motion.
    assert idle_frames(frames(path(head, 40, tail)), [ACTION]) == (head, tail)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 57.3, 4096.0])
def test_the_unit_does_not_matter(scale: float) -> None:
    rng = np.random.default_rng(0)
    values = path(20, 60, 15) + rng.normal(0, 1e-3, (96, 2))
    offset = 1e3 * scale
    expected = idle_frames(frames(values), [ACTION])
    assert idle_frames(frames(scale * values + offset), [ACTION]) == expected


@pytest.mark.parametrize("noise", [0, 1e-4, 1e-3, 3e-3])
@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_motion(noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = path(50, 100, 80)
    # A third joint that only trembles.
    values = np.hstack([values, np.zeros((len(values), 1))])
    values = values + rng.normal(0, max(noise, 1e-5), values.shape)
    head, tail = idle_frames(frames(values), [Feature("action", "float64", (3,))])
    # Two percent of the way take two frames.
    assert 49 <= head <= 52
    assert 79 <= tail <= 82


def test_readings_that_are_off_are_no_motion() -> None:
    values = path(20, 60, 15)
    values[5, 0], values[90, 1], values[50, 1] = 40.0, np.nan, np.inf
    assert idle_frames(frames(values), [ACTION]) == (20, 15)
    values[:3] = np.nan
    assert idle_frames(frames(values), [ACTION]) == (20, 15)


@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_what_was_trimmed_is_not_trimmed_again(noise: float) -> None:
    rng = np.random.default_rng(2)
    values = path(30, 200, 40) + rng.normal(0, noise, (271, 2))
    head, tail = idle_frames(frames(values), [ACTION])
    assert 28 <= head <= 31
    again = idle_frames(frames(values[head : len(values) - tail]), [ACTION])
    assert max(again) <= (1 if noise else 0)


def test_slow_motion_is_motion() -> None:
    assert idle_frames(frames(path(100, 5000, 50)), [ACTION]) == (100, 50)


def test_a_command_counts_though_the_arm_lags() -> None:
    action, state = path(10, 30, 20), path(14, 30, 16)
    table = frames(action).append_column("observation/state", frames(state, "s")["s"])
    features = [ACTION, Feature("observation.state", "float64", (2,))]
    head, tail = idle_frames(table, features)
    assert (head, tail) == (10, 16)


def test_frames_without_a_value_are_passed_over() -> None:
    table = frames(path(10, 30, 5))
    holes = pa.array(
        [None if i % 7 == 3 else row for i, row in enumerate(table["action"].to_pylist())],
        pa.list_(pa.float64(), 2),
    )
    assert idle_frames(pa.table({"action": holes}), [ACTION]) == idle_frames(table, [ACTION])
    empty = pa.table({"action": pa.nulls(5, pa.list_(pa.float64(), 2))})
    assert idle_frames(empty, [ACTION]) == (0, 0)


def test_nothing_moves() -> None:
    rng = np.random.default_rng(1)
    assert idle_frames(frames(np.ones((30, 2))), [ACTION]) == (30, 0)
    trembling = frames(rng.normal(0, 1, (300, 2)))
    assert idle_frames(trembling, [ACTION]) == (300, 0)
    assert idle_frames(frames(np.full((9, 2), np.nan)), [ACTION]) == (9, 0)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_short_episodes(length: int) -> None:
    head, tail = idle_frames(frames(np.arange(2 * length).reshape(length, 2)), [ACTION])
    assert 0 <= head + tail <= length


def test_there_is_nothing_to_tell_by() -> None:
    table = pa.table({"next.reward": [0.0, 1.0, 2.0]})
    assert idle_frames(table, [Feature("next.reward", "float64")]) == (0, 0)
    # Observations stand in for a state that has another name, and rewards never do.
    table = pa.table({"observation.gripper": [0.0] * 5 + [1.0] * 5, "next.reward": range(10)})
    features = [Feature("observation.gripper", "float64"), Feature("next.reward", "int64")]
    assert idle_frames(table, features) == (4, 4)


def test_stored_columns_are_found() -> None:
    table = robot_frames(0, 40, idle=(9, 6))
    head, tail = idle_frames(table, robot_features())
    # The command moves one frame before the arm does.
    assert (head, tail) == (8, 6)
