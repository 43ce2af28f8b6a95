"""Bytes as they come: whole objects, or views of mapped files that nobody should copy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.audio.kinds import Kind, sniff

__all__ = ["Buffer", "Samples", "opened", "view_of"]

Buffer: TypeAlias = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
"""Contiguous bytes. WAV is read in place; what a decoder takes is copied, which costs a hundredth
of the decoding."""

Samples: TypeAlias = npt.NDArray[np.float32]

# Enough to know every kind that is read in place.
_MAGIC_BYTES = 16


def view_of(data: Buffer) -> memoryview:
    """The same bytes, not copied, as a flat view."""
    buffer: Any = data
    return memoryview(buffer).cast("B")


def opened(data: Buffer) -> tuple[bytes | memoryview, Kind | None]:
    """The bytes and their kind: a view in place for WAV, `bytes` for all else."""
    if isinstance(data, bytes):
        return data, sniff(data)
    view = view_of(data)
    head = bytes(view[:_MAGIC_BYTES])
    if sniff(head) == "wav":
        return view, "wav"
    whole = bytes(view)
    return whole, sniff(whole)
