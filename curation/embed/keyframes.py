"""A descriptor of pictures made by hand, for images and keyframes of episodes: no model needed.

Size 192. The picture is made grey (ITU-R BT.601), averaged to 64 x 64 areas and brought to 0..1:

- 64 numbers: the lowest 8 x 8 terms of its orthonormal DCT-II over 64, row by row: the layout of
  light and dark. The first is the mean brightness.
- 128 numbers: a histogram of gradients in 4 x 4 cells by 8 directions of 45 degrees, weighed by
  magnitude and shared linearly between neighbouring directions, in the manner of Dalal and Triggs
  (2005) without their blocks; of length 1 over the whole picture (0 where it has no edges).

Of an episode: the mean over its pictures (`curation.embed.pictures`). The combination is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.pictures import Picture, PictureEmbedding, Pictures
from curation.embed.vectors import embedding_field
from datalake.lake import Lake
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["Keyframes", "describe"]

_SIDE: Final = 64
_TERMS: Final = 8
_CELLS: Final = 4
_DIRECTIONS: Final = 8
_SIZE: Final = _TERMS * _TERMS + _CELLS * _CELLS * _DIRECTIONS
_VERSION: Final = 1

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Keyframes:
    """Embeds images, or episodes by their keyframes; an `Annotator`.

    Memory: a picture, and for episodes one video file.

    Args:
        lake: where the table is.
        table: one with images, or `<set>.episodes`.
        column: the column or the camera; None where there is only one.
        num_pictures: how many stand for an episode at most.

    Raises:
        InputError: as `Pictures`; so do the others.
    """

    lake: Lake
    table: str
    column: str | None = None
    num_pictures: int = 8
    pictures: Pictures = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = Pictures(self.lake, self.table, self.column, self.num_pictures)
        object.__setattr__(self, "pictures", found)

    @property
    def reads(self) -> tuple[str, ...]:
        """The images, or what finds those of an episode."""
        return self.pictures.reads

    @property
    def adds(self) -> pa.Schema:
        """`keyframes`, of 192 numbers."""
        return pa.schema([embedding_field("keyframes", _SIZE, self.settings)])

    @property
    def settings(self) -> Mapping[str, object]:
        """The descriptor's version, and the pictures."""
        return {"embedder": "keyframes", "version": _VERSION, **self.pictures.settings}

    def open(self) -> Annotate:
        """Open the set, for episodes."""
        return PictureEmbedding(self.pictures.open(), self.adds.field(0), describe)


def describe(picture: Picture) -> Array:
    """The descriptor of a picture, (192,).

    Args:
        picture: RGB, (height, width, 3).
    """
    grey = _areas(picture @ np.array([0.299, 0.587, 0.114])) / 255
    terms = _BASIS @ grey @ _BASIS.T
    return np.concatenate([terms.ravel(), _gradients(grey)])


def _areas(grey: Array) -> Array:
    """Means of 64 x 64 areas that tile the picture; pixels on a border count by their share."""
    return _shares(grey.shape[0]) @ grey @ _shares(grey.shape[1]).T


def _shares(size: int) -> Array:
    """What each of `size` pixels gives to each of 64 areas: (64, size), rows of sum 1."""
    edges = np.linspace(0, size, _SIDE + 1)
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    shares: Array = np.maximum(overlap, 0) * (_SIDE / size)
    return shares


def _gradients(grey: Array) -> Array:
    down, right = np.gradient(grey)
    magnitude = np.hypot(down, right)
    place = np.arctan2(down, right) / (2 * np.pi) * _DIRECTIONS % _DIRECTIONS
    lower = np.floor(place)
    share = place - lower
    first = lower.astype(np.int64) % _DIRECTIONS
    cell = np.arange(_SIDE) * _CELLS // _SIDE
    bins = (cell[:, None] * _CELLS + cell[None, :]) * _DIRECTIONS
    found = np.zeros(_CELLS * _CELLS * _DIRECTIONS)
    for direction, weight in ((first, 1 - share), ((first + 1) % _DIRECTIONS, share)):
        found += np.bincount(
            (bins + direction).ravel(), (magnitude * weight).ravel(), minlength=found.size
        )
    length = np.linalg.norm(found)
    # Rounding in a plain picture is no edge.
    return found / length if length > 1e-6 else np.zeros_like(found)


def _basis() -> Array:
    """The first rows of the orthonormal DCT-II over 8, so that two of them give it over 64."""
    angles = np.pi / _SIDE * np.outer(np.arange(_TERMS), np.arange(_SIDE) + 0.5)
    basis: Array = np.cos(angles) * np.sqrt(2) / _SIDE
    basis[0] = 1 / _SIDE
    return basis


_BASIS: Final = _basis()
