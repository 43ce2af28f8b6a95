"""Many small keyed permutations at once: each element has a domain and a key of its own."""

from __future__ import annotations

from typing import Final

import numpy as np

from datalake.loader.order.hashing import Words, mix

__all__ = ["permute"]

NUM_ROUNDS: Final = 16
# The increment of SplitMix64: the odd number next to 2^64 over the golden ratio.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(1)


def permute(words: Words, sizes: Words, keys: Words, *, inverse: bool = False) -> Words:
    """Where each word goes in the permutation of range(its size) that its key stands for.

    A Feistel network of 16 rounds with cycle walking, as in `Exact`; round keys are the element's
    key and multiples of a constant, hashed.

    Args:
        words: (n,), each below its size.
        sizes: (n,), from 1 to 2^53.
        keys: (n,): equal keys and sizes, equal permutations.
        inverse: where each word comes from instead.
    """
    found = _network(words, sizes, keys, inverse)
    outside = np.flatnonzero(found >= sizes)
    while outside.size:
        walked = _network(found[outside], sizes[outside], keys[outside], inverse)
        found[outside] = walked
        outside = outside[walked >= sizes[outside]]
    return found


def _network(words: Words, sizes: Words, keys: Words, inverse: bool) -> Words:
    # The exponent of a float is the number of bits of the whole number in it; 0 has none.
    num_bits = np.frexp((sizes - _ONE).astype(np.float64))[1].astype(np.uint64)
    low_bits = num_bits >> _ONE
    low_mask = (_ONE << low_bits) - _ONE
    high_mask = (_ONE << (num_bits - low_bits)) - _ONE
    low, high = words & low_mask, words >> low_bits
    for index in range(NUM_ROUNDS - 1, -1, -1) if inverse else range(NUM_ROUNDS):
        step = np.uint64(index * int(_STEP) & 0xFFFFFFFFFFFFFFFF)
        if index % 2 == 0:
            high ^= mix(low + keys, step) & high_mask
        else:
            low ^= mix(high + keys, step) & low_mask
    joined: Words = (high << low_bits) | low
    return joined
