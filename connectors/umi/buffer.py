"""The arrays of a replay buffer in Zarr, and how they become features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.frame_arrays import FrameArray, FrameColumn, NoFeatureError
from connectors.refused import RefusedError
from connectors.umi.store import ZarrGroup, reading_zarr
from datalake.quarantine import Reason
from datalake.recording import Feature

__all__ = ["ENDS", "Buffer", "Settings", "episode_ends", "left_over", "open_buffer"]

ENDS: Final = "meta/episode_ends"
"""Where the ends of the episodes are."""

_JXL: Final = "imagecodecs_jpegxl"
_JXL_BEGINS: Final = (b"\xff\x0a", b"\x00\x00\x00\x0cJXL ")


class Settings(NamedTuple):
    """What a user's options say."""

    fps: float
    task: str
    skip: tuple[str, ...]
    keeps_jxl: bool
    fills_absent: bool


class Buffer(NamedTuple):
    """The arrays of an opened replay buffer."""

    arrays: dict[str, FrameColumn]
    """By feature."""
    lengths: dict[str, int]
    """Rows of each array, by feature."""
    notes: list[str]
    """What is left out, and why."""


def episode_ends(opened: ZarrGroup) -> npt.NDArray[Any]:
    """The frame after each episode's last, (episodes,).

    Raises:
        RefusedError: they are not there, cannot be read or are no numbers.
    """
    with reading_zarr(ENDS):
        if ENDS not in opened.group:
            raise RefusedError(Reason.EMPTY_METADATA, f"there is no {ENDS}")
        ends = np.asarray(opened.array(ENDS)[:])
        absent = opened.absent_chunks()
    if absent:
        raise RefusedError(Reason.NOT_FOUND, f"chunks of {ENDS} are not there")
    if ends.ndim != 1 or ends.dtype.kind not in "iu" or not len(ends):
        raise RefusedError(
            Reason.EMPTY_METADATA,
            f"{ENDS} is {ends.dtype} of shape {ends.shape}, not some numbers",
        )
    return ends


def left_over(buffer: Buffer, ends: npt.NDArray[Any]) -> Iterator[str]:
    """Sentences about frames that no episode claims."""
    for name, length in buffer.lengths.items():
        if length > (last := max(0, int(ends.max()))):
            path = buffer.arrays[name].path
            yield f"{path} has {length - last} frames after the last episode, which are left out"


def open_buffer(opened: ZarrGroup, settings: Settings) -> Buffer:
    """The arrays below data.

    Raises:
        RefusedError: there is none, or its description is damaged.
    """
    import zarr

    buffer = Buffer({}, {}, [])
    with reading_zarr("data"):
        if not isinstance(opened.group["data"], zarr.Group):
            raise RefusedError(Reason.EMPTY_METADATA, "data is no group")
        members = opened.members("data")
    for key, found in members.items():
        if key in settings.skip:
            continue
        path = f"data/{key}"
        if not isinstance(found, zarr.Array) or not found.shape or not found.shape[0]:
            why = "it is no array with rows" if found is not None else "nothing says what it is"
            buffer.notes.append(f"{path} is left out: {why}")
            continue
        try:
            with reading_zarr(path):
                member = opened.array(path)
                array = _frame_array(opened, path, key, member, settings)
                opened.forget()  # The first row, which may have been looked at.
        except NoFeatureError as error:
            buffer.notes.append(f"{path} is left out: {error}")
            continue
        buffer.arrays[array.feature.name] = array
        buffer.lengths[array.feature.name] = member.shape[0]
    if not buffer.arrays:
        raise RefusedError(Reason.EMPTY, "data has no array that a frame could hold")
    return buffer


def _frame_array(
    opened: ZarrGroup, path: str, key: str, member: Any, settings: Settings
) -> FrameColumn:
    picture_name = f"observation.images.{key}"
    name = "action" if key == "action" else f"observation.{key}"
    array = FrameArray.of(path, member, name=name, picture_name=picture_name)
    if settings.keeps_jxl and array.feature.dtype == "image" and _is_jxl(member):
        return _JxlArray(path, opened, member, array.feature)
    return array


def _is_jxl(member: Any) -> bool:
    """Whether each chunk is one frame in JPEG XL and nothing else."""
    codec = getattr(member.metadata, "compressor", None)
    filters = getattr(member.metadata, "filters", None)
    return (
        getattr(codec, "codec_id", None) == _JXL
        and not filters
        and member.chunks == (1, *member.shape[1:])
    )


@dataclass(frozen=True)
class _JxlArray:
    """Pictures whose chunks are files of JPEG XL."""

    path: str
    opened: ZarrGroup
    stored: Any
    feature: Feature

    def column(self, rows: slice) -> pa.Array:
        """The files as they are stored."""
        zeros = (0,) * (len(self.stored.shape) - 1)
        encoded = []
        for row in range(rows.start, rows.stop):
            key = f"{self.path}/{self.stored.metadata.encode_chunk_key((row, *zeros))}"
            data = self.opened.encoded(key)
            if data is None or not data.startswith(_JXL_BEGINS):
                what = "is not there" if data is None else "is no JPEG XL"
                reason = Reason.NOT_FOUND if data is None else Reason.CORRUPT
                raise RefusedError(reason, f"the chunk {key} {what}")
            encoded.append(data)
        return pa.array(encoded, pa.large_binary())
