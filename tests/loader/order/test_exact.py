"""The order of an epoch: a bijection, uniform, the same everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import permutations
from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.order import Blocks, Exact, OrderName, Sequential, order_of
from datalake.loader.order.hashing import keys

GOLDEN_12 = [3, 11, 6, 7, 2, 8, 4, 0, 5, 9, 10, 1]
GOLDEN_MILLION = [58019, 334292, 800439, 975352]

seeds = st.integers(0, 2**63)
epochs = st.integers(0, 1000)


def whole(num_examples: int, seed: int = 0, epoch: int = 0) -> np.ndarray:
    return Exact(num_examples, seed, epoch).examples(np.arange(num_examples))


def by_hand(position: int, num_examples: int, seed: int, epoch: int) -> int:
    """The same permutation for one position in Python's whole numbers."""
    words = 2**64 - 1
    num_rounds = 16 if num_examples <= 4096 else 8
    round_keys = [int(key) for key in keys(num_rounds, "exact/1", seed, epoch)]
    num_bits = len(bin(num_examples - 1)) - 2 if num_examples > 1 else 0
    low_bits = num_bits // 2
    high_bits = num_bits - low_bits

    def scramble(word: int, key: int) -> int:
        word = (word + key) & words
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & words
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & words
        return word ^ (word >> 31)

    while True:
        low, high = position % 2**low_bits, position >> low_bits
        for index, key in enumerate(round_keys):
            if index % 2 == 0:
                high ^= scramble(low, key) % 2**high_bits
            else:
                low ^= scramble(high, key) % 2**low_bits
        position = high << low_bits | low
        if position < num_examples:
            return position


@settings(deadline=None)
@given(st.integers(1, 3000), seeds, epochs)
def test_is_a_bijection(num_examples: int, seed: int, epoch: int) -> None:
    found = whole(num_examples, seed, epoch)
    assert np.array_equal(np.sort(found), np.arange(num_examples))


@settings(deadline=None)
@given(st.integers(1, 10**6), seeds, epochs)
def test_knows_where_an_example_stands(num_examples: int, seed: int, epoch: int) -> None:
    order = Exact(num_examples, seed, epoch)
    positions = np.linspace(0, num_examples - 1, 50).astype(np.int64)
    assert np.array_equal(order.positions(order.examples(positions)), positions)


@settings(deadline=None)
@given(st.integers(1, 10**6), seeds, epochs, st.data())
def test_equals_the_permutation_by_hand(
    num_examples: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, num_examples - 1))
    found = Exact(num_examples, seed, epoch).examples(np.array([position]))
    assert found.tolist() == [by_hand(position, num_examples, seed, epoch)]


@settings(deadline=None)
@given(st.integers(2, 500), st.data())
def test_any_pieces_give_the_same(num_examples: int, data: st.DataObject) -> None:
    positions = data.draw(st.lists(st.integers(0, num_examples - 1), max_size=20))
    order = Exact(num_examples, 1, 2)
    assert order.examples(np.array(positions, int)).tolist() == [
        whole(num_examples, 1, 2)[position] for position in positions
    ]


def test_a_quadrillion_examples_need_no_array() -> None:
    num_examples = 10**15
    positions = np.random.default_rng(0).integers(0, num_examples, 100_000)
    found = Exact(num_examples, 0, 0).examples(positions)
    assert len(np.unique(found)) == len(np.unique(positions))
    assert found.min() >= 0
    assert found.max() < num_examples
    assert abs(found.mean() / num_examples - 0.5) < 5 / sqrt(12 * len(found))


def test_is_pinned() -> None:
    """Saved states name `exact/1`: these values never change under that name."""
    assert whole(12, seed=7, epoch=3).tolist() == GOLDEN_12
    assert Exact(10**6, 7, 3).examples(np.arange(4)).tolist() == GOLDEN_MILLION


@pytest.mark.parametrize("num_examples", [3, 4, 5])
def test_every_permutation_is_equally_likely(num_examples: int) -> None:
    each = 40
    num_seeds = each * factorial(num_examples)
    counts = Counter(tuple(whole(num_examples, seed).tolist()) for seed in range(num_seeds))
    chi = sum((counts[order] - each) ** 2 / each for order in permutations(range(num_examples)))
    assert within(chi, factorial(num_examples) - 1)


@pytest.mark.parametrize("num_examples", [13, 16, 60])
def test_every_example_is_equally_likely_at_every_position(num_examples: int) -> None:
    num_seeds = 2000
    counts = np.zeros((num_examples, num_examples))
    for seed in range(num_seeds):
        counts[np.arange(num_examples), whole(num_examples, seed)] += 1
    expected = num_seeds / num_examples
    assert within(((counts - expected) ** 2 / expected).sum(), (num_examples - 1) ** 2)


def within(chi: float, freedom: int) -> bool:
    """Whether a chi-square statistic lies within 4 standard deviations of its mean."""
    return abs(chi - freedom) < 4 * sqrt(2 * freedom)


def test_a_batch_draws_from_as_many_blocks_as_a_uniform_one() -> None:
    num_examples, num_blocks, batch = 64_000, 20, 64
    blocks = whole(num_examples).reshape(-1, batch) // (num_examples // num_blocks)
    distinct = np.array([len(np.unique(row)) for row in blocks])
    expected = num_blocks * (1 - (1 - 1 / num_blocks) ** batch)
    assert abs(distinct.mean() - expected) < 4 * distinct.std() / sqrt(len(distinct))
    assert distinct.mean() / expected > 0.99


def test_neighbours_in_the_epoch_are_as_far_apart_as_strangers() -> None:
    num_examples = 50_000
    found = whole(num_examples)
    gaps = np.abs(np.diff(found)) / num_examples
    # Two uniform points lie 1/3 apart on average, with a standard deviation of sqrt(1/18).
    assert abs(gaps.mean() - 1 / 3) < 4 * sqrt(1 / 18 / len(gaps))
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 4 / sqrt(num_examples)
    assert abs(np.corrcoef(found, np.arange(num_examples))[0, 1]) < 4 / sqrt(num_examples)


def test_epochs_and_seeds_agree_no_more_than_by_chance() -> None:
    first = whole(5000, seed=0, epoch=0)
    others = [whole(5000, 0, epoch) for epoch in range(1, 101)]
    others += [whole(5000, seed, 0) for seed in range(1, 101)]
    # Two random permutations agree at one position on average, with variance 1.
    agreements = np.array([(first == other).sum() for other in others])
    assert abs(agreements.mean() - 1) < 4 / sqrt(len(others))


def test_sequential_and_choice() -> None:
    positions = np.array([2, 0, 1])
    assert order_of("sequential", 3, seed=1, epoch=1) == Sequential(3)
    assert Sequential(3).examples(positions).tolist() == [2, 0, 1]
    assert Sequential(3).positions(positions).tolist() == [2, 0, 1]
    assert order_of("exact", 3, seed=1, epoch=2) == Exact(3, 1, 2)
    made = order_of("blocks", 9, block_size=2, blocks_at_once=3, seed=1, epoch=2)
    assert made == Blocks(9, 2, 3, 1, 2)
    with pytest.raises(InputError, match="Did you mean exact"):
        order_of("exakt", 3, seed=1, epoch=2)  # type: ignore[arg-type]


@pytest.mark.parametrize("position", [-1, 5])
@pytest.mark.parametrize("name", ["exact", "blocks", "sequential"])
def test_what_lies_outside_is_refused(position: int, name: OrderName) -> None:
    order = order_of(name, 5, block_size=2, blocks_at_once=2, seed=0, epoch=0)
    with pytest.raises(InputError, match=r"A position .* 0 to 4"):
        order.examples(np.array([position]))
    with pytest.raises(InputError, match=r"An example .* 0 to 4"):
        order.positions(np.array([position]))


@settings(deadline=None)
@given(st.integers(1, 50))
def test_keeps_the_shape(num_columns: int) -> None:
    positions = np.arange(num_columns * 3).reshape(3, num_columns)
    found = Exact(150, 0, 0).examples(positions)
    assert np.array_equal(found.ravel(), Exact(150, 0, 0).examples(positions.ravel()))
    assert found.shape == positions.shape


def test_is_the_same_in_every_process_and_needs_no_torch() -> None:
    program = (
        "import sys, numpy as np, datalake, datalake.loader, datalake.loader.sampling\n"
        "from datalake.loader.order import Exact\n"
        "print(Exact(12, 7, 3).examples(np.arange(12)).tolist())\n"
        "print(sorted({'torch', 'lance', 'ray', 'duckdb'} & set(sys.modules)))"
    )
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == [str(GOLDEN_12), "[]"]
