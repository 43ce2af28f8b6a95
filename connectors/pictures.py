"""Single pictures: lossless PNG of raw pixels, and the size of a picture from its first bytes."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError, MissingPackageError

__all__ = ["is_picture", "picture_shape", "png_of", "shape_among"]

_CHANNELS: Final = {"1": 1, "L": 1, "I": 1, "I;16": 1, "I;16B": 1, "F": 1, "LA": 2}
_CHANNELS_OF_MORE: Final = {"RGB": 3, "P": 3, "YCbCr": 3, "RGBA": 4, "CMYK": 4}
_NUM_SAMPLES: Final = (1, 3, 4)


def is_picture(dtype: str, shape: tuple[int | None, ...]) -> bool:
    """Whether arrays of this type and shape can be stored as PNG without loss."""
    if len(shape) != 3 or shape[0] == 1 or shape[1] == 1:
        return False
    return shape[2] in _NUM_SAMPLES if dtype == "uint8" else dtype == "uint16" and shape[2] == 1


def png_of(pixels: npt.NDArray[Any]) -> bytes:
    """The pixels as PNG, without loss, compressed lightly.

    Args:
        pixels: uint8 of shape (height, width), (height, width, 1), (…, 3) or (…, 4), or uint16 of
            one channel.

    Raises:
        InputError: they have another type or shape.
    """
    image = _pil()
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    is_gray = pixels.ndim == 2 and pixels.dtype in (np.uint8, np.uint16)
    is_colour = pixels.ndim == 3 and pixels.shape[2] in (3, 4) and pixels.dtype == np.uint8
    if not (is_gray or is_colour):
        raise InputError(
            "The pixels cannot be stored as PNG",
            expected="uint8 with 1, 3 or 4 channels, or uint16 with one",
            found=f"{pixels.dtype} of shape {pixels.shape}",
        )
    sink = io.BytesIO()
    image.fromarray(np.ascontiguousarray(pixels)).save(sink, "png", compress_level=1)
    return sink.getvalue()


def picture_shape(data: bytes | memoryview) -> tuple[int, int, int] | None:
    """Height, width and channels of an encoded picture, from its header; None if it is none."""
    try:
        with _pil().open(io.BytesIO(data)) as picture:
            mode = picture.mode
            channels = _CHANNELS.get(mode) or _CHANNELS_OF_MORE.get(mode, 3)
            return picture.height, picture.width, channels
    except (OSError, ValueError, SyntaxError):
        return None


def shape_among(pictures: Iterable[bytes | memoryview]) -> tuple[int, int, int] | None:
    """The shape of the first that is a picture; None if none is. Empty bytes are none."""
    return next((shape for data in pictures if data and (shape := picture_shape(data))), None)


def _pil() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError.of("pillow", "robot", "Reading pictures") from error
    return Image
