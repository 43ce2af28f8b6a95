"""The split of an epoch over ranks, steps and workers: each example once, whoever reads it."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.split import Split, Tail, worker_steps

num_examples = st.integers(1, 300)
batch_sizes = st.integers(1, 17)
world_sizes = st.integers(1, 9)
tails = st.sampled_from(get_args(Tail))


def ranks(num_examples: int, batch_size: int, world_size: int, tail: Tail) -> list[Split]:
    return [Split(num_examples, batch_size, rank, world_size, tail) for rank in range(world_size)]


def read(splits: list[Split], start: int = 0) -> list[int]:
    """The examples that all ranks read from `start` to the end, by step and rank, without pads."""
    read = []
    for step in range(splits[0].num_steps(start)):
        for split in splits:
            share = split.share(step, start)
            read += share.positions[~share.is_pad].tolist()
    return read


@given(num_examples, batch_sizes, world_sizes, tails)
def test_ranks_together_read_each_example_once_and_in_order(
    num_examples: int, batch_size: int, world_size: int, tail: Tail
) -> None:
    splits = ranks(num_examples, batch_size, world_size, tail)
    left_out = num_examples % (batch_size * world_size) if tail == "drop" else 0
    assert read(splits) == list(range(num_examples - left_out))


@given(num_examples, batch_sizes, world_sizes, tails, st.integers(0, 300))
def test_ranks_keep_step(
    num_examples: int, batch_size: int, world_size: int, tail: Tail, start: int
) -> None:
    start = min(start, num_examples)
    splits = ranks(num_examples, batch_size, world_size, tail)
    (num_steps,) = {split.num_steps(start) for split in splits}
    for step in range(num_steps):
        shares = [split.share(step, start) for split in splits]
        (size,) = {len(share.positions) for share in shares}
        (end,) = {share.end for share in shares}
        left = num_examples - start - step * batch_size * world_size
        assert end == min(start + (step + 1) * batch_size * world_size, num_examples)
        if left >= batch_size * world_size:
            assert size == batch_size
            assert not any(share.is_pad.any() for share in shares)
            continue
        assert step == num_steps - 1
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


@given(num_examples, st.lists(st.tuples(batch_sizes, world_sizes, st.integers(1, 5)), max_size=6))
def test_other_ranks_and_batches_go_on_where_the_others_stopped(
    num_examples: int, phases: list[tuple[int, int, int]]
) -> None:
    seen: list[int] = []
    position = 0
    for batch_size, world_size, num_steps in [*phases, (7, 3, num_examples)]:
        splits = ranks(num_examples, batch_size, world_size, "short")
        num_steps = min(num_steps, splits[0].num_steps(position))
        begin = position
        for step in range(num_steps):
            for split in splits:
                share = split.share(step, begin)
                seen += share.positions[~share.is_pad].tolist()
                position = share.end
    assert seen == list(range(num_examples))


@given(st.integers(0, 50), st.integers(1, 5))
def test_workers_asked_in_turn_make_the_steps_in_order(num_steps: int, num_workers: int) -> None:
    queues = [iter(worker_steps(num_steps, worker, num_workers)) for worker in range(num_workers)]
    made = []
    while queues:
        for queue in list(queues):
            step = next(queue, None)
            if step is None:
                queues.remove(queue)
            else:
                made.append(step)
    assert made == list(range(num_steps))


def test_a_share_by_hand() -> None:
    """10 examples, 3 ranks of 2: one full step, and 4 examples left for 3 ranks."""
    padded = [split.share(1) for split in ranks(10, 2, 3, "pad")]
    assert [share.positions.tolist() for share in padded] == [[6, 0], [7, 1], [8, 9]]
    assert [share.is_pad.tolist() for share in padded] == [[False, True]] * 2 + [[False, False]]
    assert {share.end for share in padded} == {10}
    # One example left for 2 ranks: a batch of one each, the second a repeat.
    short = [split.share(2) for split in ranks(9, 2, 2, "short")]
    assert [share.positions.tolist() for share in short] == [[0], [8]]
    assert np.concatenate([share.is_pad for share in short]).tolist() == [True, False]


def test_nothing_is_left_at_the_end() -> None:
    for tail in get_args(Tail):
        assert Split(10, 3, tail=tail).num_steps(10) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch size"),
        ({"batch_size": 1, "rank": 2, "world_size": 2}, "rank 2, world_size 2"),
        ({"batch_size": 1, "rank": -1}, "rank -1"),
        ({"batch_size": 1, "tail": "wrap"}, "drop, pad or short"),
    ],
)
def test_impossible_splits_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Split(10, **arguments)  # type: ignore[arg-type]
