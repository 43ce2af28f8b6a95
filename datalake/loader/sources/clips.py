"""Which part of a clip a batch holds, and what stands behind one that is too short. numpy only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.blocks.gather import gatherer
from datalake.loader.order.hashing import Words

__all__ = ["Crop", "Layout", "Pad", "Samples", "crop_start", "crop_starts", "pad_all", "pad_behind"]

Samples: TypeAlias = npt.NDArray[np.float32]

Crop: TypeAlias = Literal["random", "head"]
"""Which part of a clip that is too long: anywhere, by seed, or its beginning."""

Pad: TypeAlias = Literal["repeat", "zeros"]
"""How a clip that is too short is filled: by itself again (as anti-spoofing does), or zeros."""

Layout: TypeAlias = Literal["padded", "flat"]
"""How the clips of a batch lie: in rows of one length, or one after the other without padding."""


def crop_start(length: int, num_samples: int, word: int, crop: Crop) -> int:
    """Where the crop of one clip begins: evenly over all beginnings that fit, or at the head.

    Args:
        length: samples of the clip.
        num_samples: the longest crop.
        word: the example's random word, from 0 to 2**64 - 1.
        crop: which part.
    """
    return 0 if crop == "head" else word * (max(length - num_samples, 0) + 1) >> 64


def crop_starts(
    lengths: npt.NDArray[np.int64], num_samples: int, words: Words, crop: Crop
) -> npt.NDArray[np.int64]:
    """`crop_start` of many clips, each shorter than 2**32 samples; all arrays are (n,)."""
    if crop == "head":
        return np.zeros_like(lengths)
    # The upper half of the 128-bit product, from two products that 64 bits hold.
    half = np.uint64(32)
    beginnings = (np.maximum(lengths - num_samples, 0) + 1).astype(np.uint64)
    low = (words & np.uint64(0xFFFF_FFFF)) * beginnings >> half
    return ((words >> half) * beginnings + low >> half).astype(np.int64)


def pad_behind(row: Samples, length: int, pad: Pad) -> None:
    """Fill what follows the first `length` samples of a row; `length` is not 0."""
    if pad == "zeros":
        row[length:] = 0
        return
    # Twice as much each time: a multiple of the clip until the row ends.
    while length < len(row):
        rest = row[length : 2 * length]
        rest[:] = row[: len(rest)]
        length *= 2


def pad_all(rows: Iterable[tuple[Samples, int]], pad: Pad) -> None:
    """`pad_behind` of several rows and lengths. Rows without a length stay as they are."""
    short = [(row, length) for row, length in rows if 0 < length < len(row)]
    if pad == "zeros":
        gatherer().zero([row[length:] for row, length in short])
        return
    while short:
        rest = [row[length : 2 * length] for row, length in short]
        gatherer().copy(
            rest, [row[: len(each)] for (row, _), each in zip(short, rest, strict=True)]
        )
        short = [(row, 2 * length) for row, length in short if 2 * length < len(row)]
