"""Raw pictures as PNG: an array of pixels becomes bytes that every tool opens, and loses nothing.

The fastest level of compression is used. On camera pictures higher levels save a tenth of the bytes
and take several times as long.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.errors import MissingPackageError

__all__ = ["AXES", "channels_last", "encode_png", "picture_shape"]

AXES: Final = ("height", "width", "channels")
"""The names of a picture's axes."""

_CHANNELS: Final = (1, 3, 4)
_SMALLEST_SIDE: Final = 8


def picture_shape(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int, int] | None:
    """(height, width, channels) of an array that is a picture; None for one that is none.

    Pictures are of uint8 (grey, RGB, RGBA) or uint16 (grey, as depth is), channels last, channels
    first or without channels, and have at least 8 pixels a side: smaller arrays are numbers.
    """
    if dtype not in (np.uint8, np.uint16):
        return None
    if len(shape) == 2:
        found = (*shape, 1)
    elif len(shape) == 3 and shape[2] in _CHANNELS:
        found = shape
    elif len(shape) == 3 and shape[0] in _CHANNELS:
        found = (shape[1], shape[2], shape[0])
    else:
        return None
    height, width, channels = found
    if min(height, width) < _SMALLEST_SIDE or (dtype == np.uint16 and channels != 1):
        return None
    return height, width, channels


def channels_last(pixels: npt.NDArray[Any], shape: tuple[int, int, int]) -> npt.NDArray[Any]:
    """Pixels of any layout of `picture_shape`, channels last."""
    if pixels.ndim == 3 and pixels.shape != shape:
        return np.moveaxis(pixels, 0, -1)
    return pixels.reshape(shape)


def encode_png(pixels: npt.NDArray[Any]) -> bytes:
    """A picture (height, width, channels) of uint8 or uint16 as PNG, to the pixel.

    Raises:
        MissingPackageError: imagecodecs is not installed.
    """
    try:
        import imagecodecs
    except ImportError as error:
        raise MissingPackageError.of("imagecodecs", "robot", "Storing pictures as PNG") from error
    if pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    return bytes(imagecodecs.png_encode(np.ascontiguousarray(pixels), level=1))
