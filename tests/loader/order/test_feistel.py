"""Many small permutations: each a bijection, uniform, and the same alone as beside others."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from math import factorial, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.loader.order.feistel import permute
from datalake.loader.order.hashing import keys, mix

WORDS = 2**64 - 1


def scramble(word: int, key: int) -> int:
    """SplitMix64 in Python's whole numbers."""
    word = (word + key) & WORDS
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORDS
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORDS
    return word ^ (word >> 31)


def permute_by_hand(word: int, size: int, key: int) -> int:
    """The slow twin, one word at a time."""
    num_bits = (size - 1).bit_length()
    low_bits = num_bits // 2
    while True:
        low, high = word % 2**low_bits, word >> low_bits
        for index in range(16):
            round_key = (key + index * 0x9E3779B97F4A7C15) & WORDS
            if index % 2 == 0:
                high ^= scramble(low, round_key) % 2 ** (num_bits - low_bits)
            else:
                low ^= scramble(high, round_key) % 2**low_bits
        word = high << low_bits | low
        if word < size:
            return word


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, WORDS)), min_size=1, max_size=8))
def test_equals_its_twin_and_comes_back(domains: list[tuple[int, int]]) -> None:
    words = np.concatenate([np.arange(size, dtype=np.uint64) for size, _ in domains])
    sizes = np.concatenate([np.full(size, size, np.uint64) for size, _ in domains])
    each = np.concatenate([np.full(size, key, np.uint64) for size, key in domains])
    found = permute(words, sizes, each)
    expected = [permute_by_hand(word, size, key) for size, key in domains for word in range(size)]
    assert found.tolist() == expected
    assert np.array_equal(permute(found, sizes, each, inverse=True), words)


def test_large_domains() -> None:
    sizes = np.array([2**20, 2**33 + 1, 10**15], np.uint64)
    words = sizes - np.uint64(1)
    each = keys(3, "test")
    found = permute(words, sizes, each)
    assert (found < sizes).all()
    assert np.array_equal(permute(found, sizes, each, inverse=True), words)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_every_permutation_is_equally_likely(size: int) -> None:
    each = 200
    num_keys = each * factorial(size)
    hashed = np.repeat(mix(np.arange(num_keys, dtype=np.uint64), np.uint64(5)), size)
    words = np.tile(np.arange(size, dtype=np.uint64), num_keys)
    found = permute(words, np.full(len(words), size, np.uint64), hashed).reshape(-1, size)
    counts = Counter(map(tuple, found.tolist()))
    chi = sum((counts[order] - each) ** 2 / each for order in permutations(range(size)))
    freedom = factorial(size) - 1
    assert abs(chi - freedom) < 4 * sqrt(2 * freedom)


@pytest.mark.parametrize("size", [13, 64, 100])
def test_every_word_is_equally_likely_everywhere(size: int) -> None:
    num_keys = 4000
    hashed = np.repeat(mix(np.arange(num_keys, dtype=np.uint64), np.uint64(6)), size)
    words = np.tile(np.arange(size, dtype=np.uint64), num_keys)
    found = permute(words, np.full(len(words), size, np.uint64), hashed).astype(np.int64)
    counts = np.bincount(words.astype(np.int64) * size + found, minlength=size * size)
    expected = num_keys / size
    chi = float(((counts - expected) ** 2 / expected).sum())
    freedom = (size - 1) ** 2
    assert abs(chi - freedom) < 4 * sqrt(2 * freedom)
