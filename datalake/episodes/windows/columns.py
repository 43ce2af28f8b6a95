"""Columns of the frames table as arrays, in the shapes of their features."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import InputError
from datalake.recording import Feature
from datalake.video.pictures import decode_picture

__all__ = ["as_array", "as_pictures"]


def as_array(feature: Feature, column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Values of a feature of numbers, (rows, *shape), or of strings, (rows,) of objects.

    A vector of one element is a scalar, as LeRobot has it.

    Raises:
        InputError: some frame has no value.
    """
    values = column.combine_chunks()
    _check_full(feature, values)
    if not feature.is_numeric:
        return np.array(values.to_pylist(), dtype=object)
    if isinstance(values, pa.FixedSizeListArray):
        values = values.flatten()
        _check_full(feature, values)
    shape = () if len(feature.shape) <= 1 and feature.num_elements == 1 else feature.shape
    array: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return array.reshape(len(column), *shape)


def as_pictures(
    feature: Feature, column: pa.ChunkedArray, size: tuple[int, int] | None
) -> npt.NDArray[Any]:
    """Decoded pictures, (rows, height, width, channels).

    Raises:
        InputError: some frame has none, or they differ in size.
        BadVideo: one cannot be decoded.
    """
    _check_full(feature, column)
    pictures = [decode_picture(cell.as_buffer(), size) for cell in column]
    shapes = {picture.shape for picture in pictures}
    if len(shapes) > 1:
        raise InputError(
            f"The pictures of {feature.name} differ in size",
            found=" and ".join(map(str, sorted(shapes)[:2])),
            fix="Give a size to which all are resized",
        )
    if not pictures:
        height_width = feature.shape[:2] if size is None else size[::-1]
        return np.empty((0, *height_width, *feature.shape[2:]), np.uint8)
    return np.stack(pictures)


def _check_full(feature: Feature, values: Any) -> None:
    if values.null_count:
        raise InputError(
            f"Some of these frames have no {feature.name}",
            found="episodes that lack the feature, or null in it",
            fix="Leave the feature out with columns=…, or take other rows",
        )
