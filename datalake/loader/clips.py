"""Crop and pad one clip to a fixed length. numpy only."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.loader.order.hashing import Words, keys, mix
from datalake.loader.order.order import Indices

__all__ = ["Crop", "Pad", "Samples", "crop", "crop_words", "fill"]

Samples: TypeAlias = npt.NDArray[np.float32]

Crop: TypeAlias = Literal["random", "head"]
"""Which part of a clip that is too long: anywhere, by seed, or its beginning."""

Pad: TypeAlias = Literal["repeat", "zeros"]
"""How a clip that is too short is filled: by itself again (as anti-spoofing does), or zeros."""


def crop_words(rows: Indices, *, seed: int, epoch: int) -> Words:
    """One random word a row, from which its crop follows: the same whichever worker reads it."""
    (key,) = keys(1, "crop", seed, epoch)
    return mix(rows.astype(np.uint64), key)


def crop(samples: Samples, num_samples: int, word: np.uint64 | None) -> Samples:
    """At most `num_samples` of a clip, as a view.

    Args:
        samples: shape (any,).
        num_samples: the longest result.
        word: where to begin: evenly over all beginnings that fit; None: at the head.
    """
    num_starts = max(len(samples) - num_samples, 0) + 1
    start = 0 if word is None else int(word) * num_starts >> 64
    return samples[start : start + num_samples]


def fill(out: Samples, samples: Samples, pad: Pad) -> None:
    """Write a clip into `out`, which is at least as long, and pad the rest."""
    out[: len(samples)] = samples
    rest = out[len(samples) :]
    rest[:] = np.resize(samples, len(rest)) if pad == "repeat" else 0
