"""The order in blocks: a bijection, in a bounded working set, equal to the rule written out."""

from __future__ import annotations

import pickle
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.order import Blocks, Exact
from datalake.loader.order.hashing import keys
from tests.loader.order.test_feistel import permute_by_hand, scramble

GOLDEN = [0, 18, 1, 16, 19, 2, 10, 20, 8, 9, 17, 15]

shapes = st.tuples(st.integers(1, 400), st.integers(1, 30), st.integers(1, 40))


def written_out(num_examples: int, size: int, at_once: int, seed: int, epoch: int) -> list[int]:
    """The slow twin: the rule with lists, lane by lane and tick by tick."""
    num_blocks = -(-num_examples // size)
    at_once = min(at_once, num_blocks)
    num_lanes = min(16, at_once)
    num_groups = max(num_lanes, -(-num_blocks * num_lanes // at_once))
    own_key = int(keys(1, "blocks/1 own", seed, epoch)[0])
    tick_key = int(keys(1, "blocks/1 ticks", seed, epoch)[0])
    block_seed = int(keys(1, "blocks/1 blocks", seed, epoch)[0])
    order = Exact(num_blocks, block_seed, epoch).examples(np.arange(num_blocks)).tolist()

    def in_own_order(block: int) -> list[int]:
        stop = min((block + 1) * size, num_examples)
        length = stop - block * size
        key = scramble(block, own_key)
        return [block * size + permute_by_hand(i, length, key) for i in range(length)]

    # Of each lane: one entry a round, with the examples that its blocks give in that round.
    lanes: list[list[list[int]]] = [[] for _ in range(num_lanes)]
    for group in range(num_groups):
        begin, end = group * num_blocks // num_groups, (group + 1) * num_blocks // num_groups
        blocks = [in_own_order(block) for block in order[begin:end]]
        for number in range(size):
            given = [block[number] for block in blocks if number < len(block)]
            lanes[group % num_lanes].append(given)
    leads = [size * (num_lanes - 1 - lane) // num_lanes for lane in range(num_lanes)]
    if num_groups == num_lanes:
        leads = [0] * num_lanes
    middle = max(len(lane) - lead for lane, lead in zip(lanes, leads, strict=True)) - size
    rests = [len(lane) - lead - middle for lane, lead in zip(lanes, leads, strict=True)]

    found: list[int] = []
    tick = 0

    def play(num_ticks: int, turns: list[int]) -> None:
        nonlocal tick
        for number in range(num_ticks):
            visits: list[int] = []
            for lane, count in enumerate(turns):
                start = lane * num_ticks // num_lanes
                done = (number * count + start) // num_ticks
                if ((number + 1) * count + start) // num_ticks > done:
                    visits += lanes[lane].pop(0)
            key = scramble(tick, tick_key)
            found.extend(
                visits[permute_by_hand(place, len(visits), key)] for place in range(len(visits))
            )
            tick += 1

    play(max(leads), leads)
    play(middle, [middle] * num_lanes)
    play(max(rests), rests)
    assert not any(lanes)
    return found


@settings(deadline=None, max_examples=60)
@given(shapes, st.integers(0, 2**40), st.integers(0, 5))
def test_equals_the_rule_written_out(shape: tuple[int, int, int], seed: int, epoch: int) -> None:
    order = Blocks(*shape, seed, epoch)
    found = order.examples(np.arange(shape[0]))
    assert found.tolist() == written_out(*shape, seed, epoch)
    assert sorted(found.tolist()) == list(range(shape[0]))
    assert order.positions(found).tolist() == list(range(shape[0]))


@settings(deadline=None)
@given(shapes, st.data())
def test_any_pieces_give_the_same(shape: tuple[int, int, int], data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=20))
    whole = Blocks(*shape, 1, 2).examples(np.arange(shape[0]))
    pieces = Blocks(*shape, 1, 2).examples(np.array(positions, int))
    assert pieces.tolist() == whole[positions].tolist()


@settings(deadline=None, max_examples=30)
@given(shapes, st.integers(0, 99))
def test_few_blocks_are_in_use_and_it_is_known_when(shape: tuple[int, int, int], seed: int) -> None:
    num_examples, size, at_once = shape
    order = Blocks(num_examples, size, at_once, seed, 0)
    positions = np.arange(num_examples)
    blocks = order.examples(positions) // size
    spans = order.span_of_groups(np.arange(order.num_groups))
    live = np.zeros(num_examples, int)
    seen: list[int] = []
    for group in range(order.num_groups):
        members = order.blocks_of_group(group)
        seen += members.tolist()
        used = positions[np.isin(blocks, members)]
        assert used.tolist() == positions[order.group_of(positions) == group].tolist()
        assert spans.first[group] <= used.min()
        assert used.max() < spans.stop[group]
        assert (order.next_use(members) == spans.first[group]).all()
        live[spans.first[group] : spans.stop[group]] += len(members)
    assert sorted(seen) == list(range(order.num_blocks))
    assert live.max() <= min(at_once, order.num_blocks)


def test_is_pinned() -> None:
    """Saved states name `blocks/1`: these values never change under that name."""
    order = Blocks(25, 3, 4, seed=7, epoch=3)
    assert order.name == "blocks/1:3x4"
    assert order.examples(np.arange(12)).tolist() == GOLDEN


def test_huge_tables_need_no_array() -> None:
    order = Blocks(10**12 + 17, 1024, 500_000, 0, 0)
    positions = np.concatenate(
        [np.random.default_rng(0).integers(0, 10**12, 500), 10**12 + np.arange(17)]
    )
    examples = order.examples(positions)
    assert np.array_equal(order.positions(examples), positions)


def test_a_copy_is_the_same_and_small() -> None:
    order = Blocks(10_000, 16, 30, 1, 2)
    examples = order.examples(np.arange(100))
    packed = pickle.dumps(order)
    assert len(packed) < 500
    assert np.array_equal(pickle.loads(packed).examples(np.arange(100)), examples)


def test_every_example_is_equally_likely_at_every_position() -> None:
    num_examples, num_seeds = 22, 800
    counts = np.zeros((num_examples, num_examples))
    for seed in range(num_seeds):
        found = Blocks(num_examples, 4, 3, seed, 0).examples(np.arange(num_examples))
        counts[np.arange(num_examples), found] += 1
    # The last block is shorter, and ends earlier than it would; the others are alike.
    counts = counts[:, :20]
    expected = counts.sum(axis=1, keepdims=True) / 20
    chi = float(((counts - expected) ** 2 / expected).sum())
    freedom = num_examples * 19
    assert abs(chi - freedom) < 4 * sqrt(2 * freedom)


@pytest.mark.parametrize("name", ["block_size", "blocks_at_once"])
def test_numbers_out_of_range_are_refused(name: str) -> None:
    numbers = {"num_examples": 5, "block_size": 2, "blocks_at_once": 2, name: 0}
    with pytest.raises(InputError, match=name):
        Blocks(**numbers, seed=0, epoch=0)
