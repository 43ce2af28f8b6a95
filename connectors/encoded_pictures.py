"""The size of an encoded picture, from its header."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final

from datalake.errors import MissingPackageError

__all__ = ["encoded_shape", "shape_among"]

# Of the modes of Pillow that have not three.
_CHANNELS: Final = {"1": 1, "L": 1, "I": 1, "I;16": 1, "I;16B": 1, "F": 1, "LA": 2, "RGBA": 4}


def encoded_shape(data: bytes | memoryview) -> tuple[int, int, int] | None:
    """Height, width and channels of a picture; None if the bytes are none. Decodes no pixels.

    Raises:
        MissingPackageError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError.of("pillow", "robot", "Telling a picture's size") from error
    try:
        with Image.open(io.BytesIO(data)) as picture:
            return picture.height, picture.width, _CHANNELS.get(picture.mode, 3)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def shape_among(pictures: Iterable[bytes | memoryview]) -> tuple[int, int, int] | None:
    """The shape of the first that is a picture; None if none is. Empty bytes are none."""
    return next((shape for data in pictures if data and (shape := encoded_shape(data))), None)
