"""Pictures in messages: compressed ones as they are, raw ones as PNG of the same pixels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from connectors.mcap.message_fields import Fields
from connectors.pictures import encode_png
from connectors.refused import RefusedError
from datalake.quarantine import Reason

__all__ = ["COMPRESSED", "RAW", "picture_of"]

COMPRESSED: Final = frozenset({"sensor_msgs/CompressedImage", "foxglove/CompressedImage"})
RAW: Final = frozenset({"sensor_msgs/Image", "foxglove/RawImage"})
"""Types of messages, as `Channel.short_type` has them."""

_PNG: Final = b"\x89PNG\r\n"
_DEPTH_HEADER_BYTES: Final = 12

# Channels, dtype, and the order that makes them RGB.
_ENCODINGS: Final[dict[str, tuple[int, str, tuple[int, ...] | None]]] = {
    "rgb8": (3, "uint8", None),
    "8UC3": (3, "uint8", (2, 1, 0)),
    "bgr8": (3, "uint8", (2, 1, 0)),
    "rgba8": (4, "uint8", None),
    "8UC4": (4, "uint8", (2, 1, 0, 3)),
    "bgra8": (4, "uint8", (2, 1, 0, 3)),
    "mono8": (1, "uint8", None),
    "8UC1": (1, "uint8", None),
    "mono16": (1, "uint16", None),
    "16UC1": (1, "uint16", None),
}


def picture_of(short_type: str, fields: Fields) -> bytes:
    """The encoded picture of a message.

    Raises:
        RefusedError: its encoding is not supported, or it is none.
    """
    data = fields.get("data")
    if not isinstance(data, np.ndarray):
        raise RefusedError(Reason.CORRUPT, f"a message of {short_type} has no data")
    if short_type in COMPRESSED:
        return _compressed(data.tobytes(), str(fields.get("format", "")))
    return _raw(data, fields)


def _compressed(data: bytes, said: str) -> bytes:
    # ROS puts the parameters of the depth's scale in front of the picture.
    if "compressedDepth" in said and data[_DEPTH_HEADER_BYTES:].startswith(_PNG):
        return data[_DEPTH_HEADER_BYTES:]
    return data


def _raw(data: Any, fields: Fields) -> bytes:
    encoding = str(fields.get("encoding", ""))
    if encoding not in _ENCODINGS:
        raise RefusedError(
            Reason.UNSUPPORTED,
            f"pictures in {encoding or 'no named encoding'}; read are {', '.join(_ENCODINGS)}",
        )
    channels, dtype, order = _ENCODINGS[encoding]
    try:
        height, width = int(fields["height"]), int(fields["width"])
        row_bytes = width * channels * np.dtype(dtype).itemsize
        step = int(fields.get("step", 0)) or row_bytes
        if min(height, width) < 1 or step < row_bytes or len(data) < step * height:
            raise ValueError(f"{len(data)} bytes for {height} rows of {step}")
        rows = np.ascontiguousarray(data[: step * height].reshape(height, step)[:, :row_bytes])
    except (KeyError, TypeError, ValueError) as error:
        raise RefusedError(Reason.CORRUPT, f"a picture does not have its size: {error}") from error
    stored = np.dtype(dtype).newbyteorder(">" if fields.get("is_bigendian", 0) else "<")
    pixels = rows.view(stored).astype(dtype, copy=False).reshape(height, width, channels)
    return encode_png(pixels if order is None else pixels[:, :, list(order)])
