"""Encoded pictures to arrays, each straight to its place in the batch."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import InputError
from datalake.tables.mapped import Bytes
from datalake.video.pictures import decode_picture

try:
    import simplejpeg
except ImportError:  # Pillow reads JPEG too, at half the speed.
    simplejpeg = None

__all__ = ["Pixels", "Size", "decode_into", "shape_of"]

Pixels: TypeAlias = npt.NDArray[Any]
Size: TypeAlias = tuple[int, int]
"""(width, height)."""

_JPEG: Final = b"\xff\xd8\xff"
_CHANNELS: Final = {"YCbCr": 3, "RGB": 3, "Gray": 1}
_COLOURS: Final = {3: "RGB", 1: "GRAY"}
# Pillow warns of larger ones, and refuses those twice as large.
_MOST_PIXELS: Final = 89_478_485


def shape_of(data: Bytes, size: Size | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """What `decode_picture` makes of a picture: (height, width, channels), and the numbers.

    Raises:
        BadVideo: it cannot be decoded.
    """
    shape = _jpeg_shape(data)
    if shape is None:
        pixels = decode_picture(pa.py_buffer(data), size)
        return pixels.shape, pixels.dtype
    return (shape if size is None else (*size[::-1], shape[2])), np.dtype(np.uint8)


def decode_into(data: Bytes, out: Pixels, size: Size | None) -> None:
    """Decode a picture into an array of just its shape: what `decode_picture` gives, bit by bit.

    JPEG goes through libjpeg-turbo directly, which takes a third of the time, needs no copy and
    lets other threads run; what that does not take, or only with a warning, goes to Pillow.

    Raises:
        InputError: it has another shape than `out`.
        BadVideo: it cannot be decoded.
    """
    shape = _jpeg_shape(data)
    if shape is not None and size is None and shape == out.shape and out.flags.c_contiguous:
        if _decode_jpeg(data, out):
            return
    elif shape is not None and size is not None:
        whole = np.empty(shape, np.uint8)
        if _decode_jpeg(data, whole):
            _fill(out, _resized(whole, size))
            return
    _fill(out, decode_picture(pa.py_buffer(data), size))


def _fill(out: Pixels, pixels: Pixels) -> None:
    if pixels.shape != out.shape or pixels.dtype != out.dtype:
        raise InputError(
            "The pictures differ in size",
            found=" and ".join(f"{each.shape} of {each.dtype}" for each in (out, pixels)),
            fix="Give a size to which all are resized",
        )
    out[:] = pixels


def _jpeg_shape(data: Bytes) -> tuple[int, int, int] | None:
    """The shape of a JPEG that simplejpeg decodes as Pillow does; None for any other picture."""
    if simplejpeg is None or data[:3].tobytes() != _JPEG:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return None
    channels = _CHANNELS.get(colours)
    if channels is None or height * width > _MOST_PIXELS:
        return None
    return height, width, channels


def _decode_jpeg(data: Bytes, out: Pixels) -> bool:
    """Whether it could be decoded without a warning."""
    try:
        simplejpeg.decode_jpeg(data, _COLOURS[out.shape[2]], buffer=out)
    except ValueError:
        return False
    return True


def _resized(pixels: Pixels, size: Size) -> Pixels:
    from PIL import Image

    picture = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    resized = np.asarray(picture.resize(size, Image.Resampling.BILINEAR))
    return resized if resized.ndim == 3 else resized[:, :, np.newaxis]
