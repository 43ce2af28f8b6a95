"""The statistics of pictures: a sample of frames, per channel, in [0, 1]."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.episodes.statistics.feature_stats import QUANTILES, FeatureStats
from datalake.episodes.statistics.quantiles import between
from datalake.errors import InputError

__all__ = ["sampled_frames", "summarise_pictures"]

_LEAST_FRAMES: Final = 100
_MOST_FRAMES: Final = 10_000
_POWER: Final = 0.75
_SMALL_PIXELS: Final = 300
_TARGET_PIXELS: Final = 150


def sampled_frames(length: int) -> npt.NDArray[np.int64]:
    """Which frames of an episode its pictures' statistics are taken from, ascending.

    `length**0.75` of them, evenly spread, but at least 100 and at most 10,000: the rule of
    `lerobot.datasets.compute_stats`.
    """
    least = min(length, _LEAST_FRAMES)
    number = max(least, min(int(length**_POWER), _MOST_FRAMES))
    return np.round(np.linspace(0, length - 1, number)).astype(np.int64)


def summarise_pictures(
    feature: str, pictures: Iterable[npt.NDArray[np.uint8]]
) -> FeatureStats | None:
    """The statistics of pictures, one value a channel, in [0, 1]; None if there is no picture.

    Every n-th row and column goes in, such that some 150 pixels a side stay, where a side has 300
    or more (as in `lerobot.datasets.compute_stats`). `count` is that of pictures. The figures are
    exact for these pixels: a byte has 256 values, so they are counted. One picture is held.

    Args:
        feature: its name.
        pictures: uint8, (height, width, channels), in any order and of any size.

    Raises:
        InputError: a picture is no array of bytes in three dimensions, or has other channels than
            those before it.
    """
    seen: npt.NDArray[np.int64] | None = None
    count = 0
    for picture in pictures:
        if picture.dtype != np.uint8 or picture.ndim != 3:
            raise InputError(
                "A picture cannot be summarised",
                where=feature,
                expected="uint8 of (height, width, channels)",
                found=f"{picture.dtype} of {picture.shape}",
            )
        channels = picture.shape[2]
        seen = np.zeros((channels, 256), dtype=np.int64) if seen is None else seen
        if len(seen) != channels:
            raise InputError(
                "The pictures of a feature have unlike channels",
                where=feature,
                expected=str(len(seen)),
                found=str(channels),
            )
        thin = _thinned(picture)
        for channel in range(channels):
            seen[channel] += np.bincount(thin[:, :, channel].ravel(), minlength=256)
        count += 1
    return None if seen is None else _figures(feature, count, seen)


def _thinned(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    height, width = picture.shape[:2]
    if max(height, width) < _SMALL_PIXELS:
        return picture
    step = max(height, width) // _TARGET_PIXELS
    return picture[::step, ::step]


def _value_at(up_to: npt.NDArray[np.int64], rank: int) -> float:
    return float(np.searchsorted(up_to, rank, "right")) / 255


def _figures(feature: str, count: int, seen: npt.NDArray[np.int64]) -> FeatureStats:
    """The figures of how often each channel (row) has each byte (column)."""
    levels = np.arange(256) / 255
    totals = seen.sum(axis=1)
    mean = seen @ levels / totals
    spread = np.square(levels[None] - mean[:, None])
    up_to = np.cumsum(seen, axis=1)
    quantiles = {
        name: np.array(
            [
                between(partial(_value_at, row), int(total), level)
                for row, total in zip(up_to, totals, strict=True)
            ]
        )
        for name, level in QUANTILES.items()
    }
    return FeatureStats(
        feature,
        count,
        min=levels[np.argmax(seen > 0, axis=1)],
        max=levels[255 - np.argmax(seen[:, ::-1] > 0, axis=1)],
        mean=mean,
        std=np.sqrt((seen * spread).sum(axis=1) / totals),
        **quantiles,
    )
