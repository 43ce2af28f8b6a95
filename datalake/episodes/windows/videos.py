"""The pictures of a set's videos by row of its frames table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.blocks.ahead import Ahead
from datalake.blocks.reader import TableReader
from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.windows.cameras import Allocate, Cameras, Wanted
from datalake.episodes.windows.decoded import DecodedPictures, told_apart
from datalake.episodes.windows.spans import Spans
from datalake.errors import InputError
from datalake.recording import Feature
from datalake.tables import Table
from datalake.video.source import load_av

__all__ = ["Videos", "picture_shape", "video_recipe"]

Ints: TypeAlias = npt.NDArray[np.int64]
Pixels: TypeAlias = npt.NDArray[Any]


class Videos:
    """Frames of videos for windows. Thread-safe and picklable.

    Args:
        episodes: the set.
        reader: of its frames table, for timestamps.
        cameras: decodes.
        kept: by feature where its decoded pictures are kept; empty to keep none.
    """

    def __init__(
        self,
        episodes: EpisodeSet,
        reader: TableReader,
        cameras: Cameras,
        kept: Mapping[str, DecodedPictures],
    ) -> None:
        self._episodes, self._reader = episodes, reader
        self._cameras, self._kept = cameras, kept

    def view(
        self, reader: TableReader, cameras: Cameras, kept: Mapping[str, DecodedPictures]
    ) -> Videos:
        """The same through a reader and cameras of another stream."""
        return Videos(self._episodes, reader, cameras, kept)

    def read(self, rows: Mapping[str, Ints], allocate: Allocate) -> dict[str, Pixels]:
        """For each camera the pictures of its rows, (*rows.shape, height, width, 3).

        Raises:
            InputError: an episode has no video of a camera, no frame stands at a time, or videos
                differ in size.
            BadVideo: a video cannot be decoded.
        """
        if not rows:
            return {}
        return self._taken(rows, allocate) if self._kept else self._decoded(rows, allocate)

    def announce(self, rows: Mapping[str, Ints]) -> None:
        """Say which frames will be wanted soon, so that whoever passes one by decodes it."""
        # What cannot be had is found out when it is read.
        with suppress(InputError):
            self._cameras.expect(self._wanted(rows))

    def prefetch(self, rows: Mapping[str, Ints]) -> list[Ahead]:
        """Begin to bring near what decoding these frames takes, where videos are on a store.

        What cannot be had is found out when it is read.
        """
        if not self._cameras.is_in_pieces:
            return []
        with suppress(InputError):
            missing = {
                name: self._kept[name].missing(np.unique(each)) if self._kept else each
                for name, each in rows.items()
            }
            return self._cameras.prefetch(self._wanted(missing))
        return []

    def _wanted(self, rows: Mapping[str, Ints]) -> Wanted:
        return {
            name: (
                self._episodes.index.episode_at(each.ravel()),
                self._reader.numbers("timestamp", each.ravel()),
            )
            for name, each in rows.items()
        }

    def _decoded(self, rows: Mapping[str, Ints], allocate: Allocate) -> dict[str, Pixels]:
        shapes = iter([each.shape for each in rows.values()])
        made: list[Pixels] = []

        def flat(shape: Sequence[int], dtype: npt.DTypeLike) -> Pixels:
            # Cameras know no windows; the array itself is what the allocator shall see again.
            made.append(allocate((*next(shapes), *shape[1:]), dtype))
            return made[-1].reshape(shape)

        self._cameras.pictures(self._wanted(rows), allocate=flat)
        return dict(zip(rows, made, strict=True))

    def _taken(self, rows: Mapping[str, Ints], allocate: Allocate) -> dict[str, Pixels]:
        """What is kept as it is, and the rest decoded in one go, each frame once."""
        found: dict[str, Pixels] = {}
        missing: dict[str, Ints] = {}
        for name, each in rows.items():
            kept = self._kept[name]
            found[name] = allocate((*each.shape, *kept.shape), kept.dtype)
            flat = found[name].reshape(-1, *kept.shape)
            is_there = kept.take(each.ravel(), flat, np.arange(each.size))
            if not is_there.all():
                missing[name] = np.unique(each.ravel()[~is_there])
        if not missing:
            return found
        for name, pictures in self._cameras.pictures(self._wanted(missing)).items():
            kept, flat = self._kept[name], found[name].reshape(-1, *self._kept[name].shape)
            for row, picture in zip(missing[name].tolist(), pictures, strict=True):
                kept.put(row, picture)
                flat[rows[name].ravel() == row] = picture
        return found


def video_recipe(videos: Table, size: tuple[int, int] | None) -> str:
    """What decoded frames follow from beside their row."""
    av = load_av()
    return f"frames/1 of {told_apart(videos)}, size {size}, av {av.__version__}"


def picture_shape(
    episodes: EpisodeSet, feature: Feature, size: tuple[int, int] | None
) -> tuple[int, int, int]:
    """The one shape that all pictures of a camera have.

    Raises:
        InputError: its videos differ in size.
    """
    if size is not None:
        return (size[1], size[0], 3)
    videos = episodes.videos.scan(["height", "width"]).read_all()
    rows, _ = Spans(episodes, [feature.name]).of(
        feature.name, np.arange(len(episodes.index.lengths))
    )
    seen = videos.take(np.unique(rows[rows >= 0])).group_by(["height", "width"]).aggregate([])
    sizes = sorted(zip(seen["height"].to_pylist(), seen["width"].to_pylist(), strict=True))
    if len(sizes) > 1:
        raise InputError(
            f"The videos of {feature.name} differ in size, so that they cannot be kept decoded",
            found=" and ".join(f"{width} x {height}" for height, width in sizes[:2]),
            fix="Give a size to which all are resized",
        )
    height, width = sizes[0] if sizes else feature.shape[:2]
    return (height, width, 3)
