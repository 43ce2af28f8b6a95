"""Keyed hashing of whole arrays: the stateless randomness of the loader.

The same on every machine and in every process: keys come from BLAKE2b, never from `hash()`.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Words", "keys", "mix"]

Words: TypeAlias = npt.NDArray[np.uint64]


def keys(count: int, *context: str | int) -> Words:
    """Independent 64-bit keys for a context such as ("crop", seed, epoch). Shape (count,)."""
    name = "/".join(str(part) for part in context).encode()
    return np.frombuffer(hashlib.shake_128(name).digest(8 * count), dtype="<u8").astype(np.uint64)


def mix(words: Words, key: np.uint64) -> Words:
    """Hash each word under a key: a bijection in which every bit hangs on every bit.

    The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) with Stafford's 13th constants.
    """
    mixed = words + key
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed
