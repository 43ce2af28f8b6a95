"""Shards: every step once, as even as stated, from many episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.packing import balanced_shards


@given(
    st.lists(st.integers(0, 60), max_size=40),
    st.integers(1, 30),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_every_step_lies_in_one_shard_and_shards_are_even(
    lengths: list[int], shard_steps: int, episodes: int, num_ranks: int, seed: int
) -> None:
    shards = balanced_shards(
        np.array(lengths, int),
        shard_steps,
        episodes_per_shard=min(episodes, shard_steps),
        num_ranks=num_ranks,
        seed=seed,
    )
    seen = {
        (int(episode), int(step))
        for number in range(shards.num_shards)
        for episode, step in zip(*shards.steps(number), strict=True)
    }
    assert seen == {(e, step) for e, length in enumerate(lengths) for step in range(length)}
    assert shards.sizes.sum() == sum(lengths)
    assert shards.num_shards % num_ranks == 0
    if shards.num_shards:
        assert np.ptp(shards.sizes) <= shards.largest_stride
        assert shards.largest_stride <= shard_steps // min(episodes, shard_steps)
        assert shards.sizes.mean() <= shard_steps


def test_shards_of_a_robot_dataset() -> None:
    lengths = np.random.default_rng(0).integers(100, 2000, 300)
    shards = balanced_shards(lengths)
    assert np.abs(shards.sizes - 1024).max() <= 64 + 1
    assert shards.num_episodes.min() >= 12
    # Steps that follow each other are in different shards.
    episode, step = shards.steps(0)
    gaps = np.diff(step)[np.diff(episode) == 0]
    assert (gaps > 1).mean() > 0.9


def test_a_seed_is_an_order_of_episodes() -> None:
    one, again, other = (balanced_shards([50] * 40, 100, seed=seed) for seed in (1, 1, 2))
    assert one.episodes.tolist() == again.episodes.tolist() != other.episodes.tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        {"lengths": [-1]},
        {"lengths": [1.5]},
        {"lengths": [[1]]},
        {"shard_steps": 0},
        {"episodes_per_shard": 0},
        {"shard_steps": 4, "episodes_per_shard": 5},
        {"num_ranks": 0},
        {"seed": -1},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        balanced_shards(**{"lengths": [10], **wrong})
