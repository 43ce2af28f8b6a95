"""The order of rows: a hash of the seed and the row's id. Selections cut domains by it.

So a selection depends neither on where a row is stored nor on who reads it, and the first n rows
are a uniform sample for every n. MD5 because every engine has it: the first 8 bytes of
md5("<seed>/<utt_id>"), ascending; equal ones by utt_id, and twins of one utt_id by row index.
"""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["PLACE_DIGITS", "digest", "place", "place_below"]

PLACE_DIGITS: Final = 16
"""Hexadecimal digits of a place: 64 bits. Digits compare as the bytes do."""


def digest(seed: int, name: str) -> bytes:
    """The 16 bytes that stand for a name under a seed."""
    return hashlib.md5(f"{seed}/{name}".encode(), usedforsecurity=False).digest()


def place(seed: int, utt_id: str) -> str:
    """A row's place in the order, as hexadecimal digits."""
    return digest(seed, utt_id).hex()[:PLACE_DIGITS]


def place_below(share: float) -> str:
    """The place that about `share` of all rows stand before; past all of them for 1 or more."""
    if share >= 1:
        return "g"  # the digit after f
    return f"{int(share * 16**PLACE_DIGITS):0{PLACE_DIGITS}x}"
