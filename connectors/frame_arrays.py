"""Arrays of which one row is one frame, as formats of robot data store them: features and columns.

What HDF5 and Zarr have in common: an array has a shape, a dtype and rows that can be read. Numbers
keep their dtype and their bits; pictures become PNG of the same pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connectors.pictures import AXES, channels_last, encode_png, picture_shape
from connectors.refused import RefusedError
from datalake.quarantine import Reason
from datalake.recording import BOOKKEEPING, Feature
from datalake.recording.feature import NUMERIC_DTYPES

__all__ = [
    "FrameArray",
    "FrameColumn",
    "NoFeatureError",
    "Stored",
    "feature_name",
    "number_column",
    "time_columns",
]

# About how many frames of pictures are in memory at once as pixels.
_BLOCK_FRAMES: Final = 16


class Stored(Protocol):
    """An array in a file: an h5py dataset or a Zarr array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(frames, …)."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        ...

    def __getitem__(self, rows: slice) -> Any:
        """Read rows."""
        ...


class FrameColumn(Protocol):
    """An array of which each row is a frame's value of one feature."""

    @property
    def path(self) -> str:
        """Within the file."""
        ...

    @property
    def feature(self) -> Feature:
        """What the rows are values of."""
        ...

    def column(self, rows: slice) -> pa.Array:
        """The rows in the feature's `arrow_type`.

        Raises:
            RefusedError: the values are not what the feature promises.
        """
        ...


class NoFeatureError(Exception):
    """The array is nothing that a frame can hold; the text says why."""


@dataclass(frozen=True)
class FrameArray:
    """One array of a file, and the feature that its rows are values of."""

    path: str
    """Within the file."""
    stored: Stored
    feature: Feature
    flipped: bool = False
    """Whether pictures are stored bottom up and shall be turned."""

    @classmethod
    def of(
        cls,
        path: str,
        stored: Stored,
        *,
        name: str,
        picture_name: str | None = None,
        flipped: bool = False,
        info: Mapping[str, Any] | None = None,
    ) -> FrameArray:
        """The array under the name `name`, or `picture_name` where it holds pictures.

        Args:
            path: within the file.
            stored: at least one row where it is of floats, of which the first is looked at.
            name: the feature's name if it is numbers or text.
            picture_name: its name if it is pictures; None: it is no picture whatever its shape.
            flipped: as in the class.
            info: what the source says of its pictures.

        Raises:
            NoFeatureError: its dtype or shape fits no feature.
        """
        shape, dtype = tuple(stored.shape[1:]), stored.dtype
        if picture_name is not None:
            pixels, whole = _pixel_dtype(stored)
            if size := picture_shape(shape, pixels):
                said = {**(info or {}), **({"stored_as": dtype.name} if whole else {})}
                picture = Feature(picture_name, "image", size, AXES, info=said)
                return cls(path, stored, picture, flipped)
        if 0 in shape:
            raise NoFeatureError(f"its rows of shape {shape} hold nothing")
        if _is_text(dtype):
            if shape not in {(), (1,)}:
                raise NoFeatureError(f"it holds texts in rows of shape {shape}")
            return cls(path, stored, Feature(name, "string", (1,)))
        if dtype.name not in NUMERIC_DTYPES:
            raise NoFeatureError(f"its dtype {dtype} is none that a frame can hold")
        # A number a frame has the shape (1,), as LeRobot writes it.
        return cls(path, stored, Feature(name, dtype.name, shape or (1,)))

    def column(self, rows: slice) -> pa.Array:
        """The rows as a column, in the feature's `arrow_type`.

        Raises:
            RefusedError: the values are not what the feature promises.
        """
        if self.feature.dtype == "image":
            return self._pictures(rows)
        values = np.asarray(self.stored[rows])
        if self.feature.dtype == "string":
            return pa.array([_text(value, self.path) for value in values.ravel()], pa.string())
        return number_column(values, self.feature)

    def _pictures(self, rows: slice) -> pa.Array:
        height, width, channels = self.feature.shape
        encoded = []
        for start, stop in _blocks(self.stored, rows):
            block = np.asarray(self.stored[start:stop])
            if block.dtype.kind == "f":
                block = _whole_pixels(block, self.path, start - rows.start)
            for frame in block:
                pixels = channels_last(frame, (height, width, channels))
                encoded.append(encode_png(pixels[::-1] if self.flipped else pixels))
        return pa.array(encoded, pa.large_binary())


def feature_name(name: str) -> str:
    """The name with dots for slashes; one that numbers or times frames gets `source.` in front."""
    dotted = ".".join(part for part in name.split("/") if part)
    return f"source.{dotted}" if dotted in BOOKKEEPING else dotted


def number_column(values: npt.NDArray[Any], feature: Feature) -> pa.Array:
    """Numbers (frames, …) as a column; the array's memory is used where it is in C order."""
    native = values.dtype.newbyteorder("=")
    flat = pa.array(np.ascontiguousarray(values, native).ravel(), NUMERIC_DTYPES[feature.dtype])
    if feature.num_elements == 1:
        return flat
    return pa.FixedSizeListArray.from_arrays(flat, type=feature.arrow_type)


def time_columns(num_frames: int, fps: float) -> dict[str, pa.Array]:
    """`timestamp`, `frame_index` and `task_index` of an episode whose source has a rate alone."""
    numbers = np.arange(num_frames)
    return {
        "timestamp": pa.array(numbers / fps),
        "frame_index": pa.array(numbers),
        "task_index": pa.array(np.zeros(num_frames, np.int64)),
    }


def _pixel_dtype(stored: Stored) -> tuple[np.dtype[Any], bool]:
    """The dtype of the array's pixels, and whether they are floats that hold whole numbers.

    Colour pictures as floats from 0 to 255, as Push-T's have them, are pictures; the first row
    decides, and the others are checked when they are read.
    """
    shape = stored.shape
    if stored.dtype.kind == "f" and len(shape) == 4 and shape[3] == 3 and shape[0]:
        first = np.asarray(stored[0:1])
        if _are_bytes(first):
            return np.dtype(np.uint8), True
    return stored.dtype, False


def _blocks(stored: Stored, rows: slice) -> Iterator[tuple[int, int]]:
    """Rows to read at once, in whole chunks of the file, so that each is unpacked once."""
    chunks = getattr(stored, "chunks", None)
    step = int(chunks[0]) if chunks else 1
    step *= -(-_BLOCK_FRAMES // step)
    start = rows.start
    while start < rows.stop:
        stop = min((start // step + 1) * step, rows.stop)
        yield start, stop
        start = stop


def _are_bytes(values: npt.NDArray[Any]) -> bool:
    return bool(np.all((values >= 0) & (values <= 255) & (values == np.floor(values))))


def _whole_pixels(block: npt.NDArray[Any], path: str, start: int) -> npt.NDArray[Any]:
    if not _are_bytes(block):
        raise RefusedError(
            Reason.OUT_OF_RANGE,
            f"{path}: the pictures from frame {start} on are floats that are no whole numbers from "
            "0 to 255, unlike those at the dataset's beginning",
        )
    return block.astype(np.uint8)


def _is_text(dtype: np.dtype[Any]) -> bool:
    # h5py marks objects that are texts in the dtype's metadata.
    said: Mapping[str, Any] = dict(dtype.metadata or {})
    return dtype.kind in "SUT" or (dtype.kind == "O" and said.get("vlen") in (str, bytes))


def _text(value: Any, path: str) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(Reason.CORRUPT, f"{path}: a text is not UTF-8") from error
