"""Single encoded pictures (PNG, JPEG, …)."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import MissingPackageError
from datalake.quarantine import Reason
from datalake.video.info import BadVideo

__all__ = ["decode_picture"]


def decode_picture(
    data: bytes | memoryview | pa.Buffer, size: tuple[int, int] | None = None
) -> npt.NDArray[Any]:
    """Decode a picture, as Pillow does: the decoder with which robot datasets are read elsewhere.

    Args:
        data: an encoded picture.
        size: (width, height) to resize to, bilinear.

    Returns:
        (height, width, channels), uint8; one channel of uint16 or int32 for deep pictures.

    Raises:
        BadVideo: `corrupt`.
        MissingPackageError: pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError.of("pillow", "robot", "Decoding pictures") from error
    try:
        image: Any = Image.open(io.BytesIO(data))
        if image.mode in ("P", "CMYK", "YCbCr", "1"):
            image = image.convert("RGB")
        if size is not None:
            image = image.resize(size, Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadVideo.of(Reason.CORRUPT, f"a picture: {error}") from error
    return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
