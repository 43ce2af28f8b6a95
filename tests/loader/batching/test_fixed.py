"""The split of an epoch over ranks, steps and workers: each example once, whoever reads it."""

from __future__ import annotations

from itertools import islice
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.batching import Fixed, Place, Share, Tail
from tests.loader.batching.fakes import as_sampler, uniform
from tests.loader.exactness import unhurried

num_examples = st.integers(1, 300)
batch_sizes = st.integers(1, 17)
world_sizes = st.integers(1, 9)
tails = st.sampled_from(get_args(Tail))


def steps(batching: Fixed, num_examples: int, world_size: int, start: int = 0) -> list[list[Share]]:
    """The shares of all ranks, step by step."""
    sampler, place = as_sampler(uniform(num_examples)), Place(0, start)
    ranks = [batching.shares(sampler, place, rank, world_size) for rank in range(world_size)]
    found = [list(step) for step in zip(*ranks, strict=True)]
    assert len(found) == batching.num_steps(sampler, place, world_size)
    return found


def read(steps: list[list[Share]]) -> list[int]:
    """The examples that all ranks read, by step and rank, without pads."""
    return [p for step in steps for share in step for p in share.positions[~share.is_pad].tolist()]


@unhurried
@given(num_examples, batch_sizes, world_sizes, tails)
def test_ranks_together_read_each_example_once_and_in_order(
    num_examples: int, batch_size: int, world_size: int, tail: Tail
) -> None:
    left_out = num_examples % (batch_size * world_size) if tail == "drop" else 0
    made = steps(Fixed(batch_size, tail), num_examples, world_size)
    assert read(made) == list(range(num_examples - left_out))


@unhurried
@given(num_examples, batch_sizes, world_sizes, tails, st.integers(0, 300))
def test_ranks_keep_step(
    num_examples: int, batch_size: int, world_size: int, tail: Tail, start: int
) -> None:
    start = min(start, num_examples)
    made = steps(Fixed(batch_size, tail), num_examples, world_size, start)
    for step, shares in enumerate(made):
        (size,) = {len(share.positions) for share in shares}
        (end,) = {share.after.position for share in shares}
        left = num_examples - start - step * batch_size * world_size
        assert end == min(start + (step + 1) * batch_size * world_size, num_examples)
        if left >= batch_size * world_size:
            assert size == batch_size
            assert not any(share.is_pad.any() for share in shares)
            continue
        assert step == len(made) - 1
        assert tail != "drop"
        assert size == (batch_size if tail == "pad" else -(-left // world_size))
        num_real = [int((~share.is_pad).sum()) for share in shares]
        assert max(num_real) - min(num_real) <= 1
        repeats = [p for share in shares for p in share.positions[share.is_pad].tolist()]
        assert set(repeats) <= set(range(num_examples))
        # As different from each other as can be.
        assert len(set(repeats)) == min(len(repeats), num_examples)
        if tail == "short":
            assert all(share.is_pad.sum() <= 1 for share in shares)


@unhurried
@given(num_examples, batch_sizes, st.integers(1, 5), tails)
def test_workers_asked_in_turn_make_the_steps_in_order(
    num_examples: int, batch_size: int, num_workers: int, tail: Tail
) -> None:
    batching, sampler = Fixed(batch_size, tail), as_sampler(uniform(num_examples))
    whole = list(batching.shares(sampler, Place(0, 0), 1, 2))
    for worker in range(num_workers):
        part = batching.shares(sampler, Place(0, 0), 1, 2, worker=worker, num_workers=num_workers)
        expected = islice(whole, worker, None, num_workers)
        for left, right in zip(part, expected, strict=True):
            assert left.positions.tolist() == right.positions.tolist()
            assert left.after == right.after


def test_a_share_by_hand() -> None:
    """10 examples, 3 ranks of 2: one full step, and 4 examples left for 3 ranks."""
    padded = steps(Fixed(2, "pad"), 10, 3)[1]
    assert [share.positions.tolist() for share in padded] == [[6, 0], [7, 1], [8, 9]]
    assert [share.is_pad.tolist() for share in padded] == [[False, True]] * 2 + [[False, False]]
    assert {share.after for share in padded} == {Place(0, 10)}
    # One example left for 2 ranks: a batch of one each, the second a repeat.
    short = steps(Fixed(2, "short"), 9, 2)[2]
    assert [share.positions.tolist() for share in short] == [[0], [8]]
    assert np.concatenate([share.is_pad for share in short]).tolist() == [True, False]


def test_nothing_is_left_at_the_end() -> None:
    for tail in get_args(Tail):
        assert steps(Fixed(3, tail), 10, 1, start=10) == []


def test_the_last_step_of_a_huge_epoch_takes_no_pass() -> None:
    sampler = as_sampler(uniform(10))
    place = Place(0, 0)
    object.__setattr__(sampler, "lengths", (range(10**12),))
    assert Fixed(1).num_steps(sampler, place, 1) == 10**12
    late = Fixed(1).shares(sampler, place, 0, 1, worker=10**12 - 1, num_workers=10**12)
    assert [share.positions.tolist() for share in late] == [[10**12 - 1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch size"),
        ({"batch_size": True}, "batch size"),
        ({"batch_size": 1, "tail": "wrap"}, "drop, pad or short"),
    ],
)
def test_impossible_batches_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Fixed(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rank", "world_size", "position", "message"),
    [
        (2, 2, 0, "rank 2, world_size 2"),
        (-1, 1, 0, "rank -1"),
        (0, 1, 11, "11"),
        (0, 1, -1, "-1"),
    ],
)
def test_impossible_ranks_and_places_are_refused(
    rank: int, world_size: int, position: int, message: str
) -> None:
    sampler = as_sampler(uniform(10))
    with pytest.raises(InputError, match=message):
        next(iter(Fixed(1).shares(sampler, Place(0, position), rank, world_size)))
