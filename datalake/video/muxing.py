"""Writing MP4: the index in front of the pictures, so that a reader finds it at once."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from datalake.video.source import load_av

__all__ = ["open_mp4"]


def open_mp4(sink: BinaryIO) -> Any:
    """An MP4 being written to a seekable binary file; the caller closes it.

    The index is moved to the front at the end. For that FFmpeg opens the file it has written once
    more, to read; a sink that cannot be read keeps its index at the back.

    Raises:
        MissingPackageError: av is not installed.
    """
    av = load_av()
    if not sink.readable():
        return av.open(sink, mode="w", format="mp4")
    return av.open(
        sink,
        mode="w",
        format="mp4",
        options={"movflags": "faststart"},
        io_open=lambda _url, _flags, _options: _Again(sink),
    )


class _Again:
    """A file opened a second time: what it holds, from a position of its own."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0

    def read(self, num_bytes: int) -> bytes:
        writer_at = self._file.tell()
        self._file.seek(self._position)
        data = self._file.read(num_bytes)
        self._position += len(data)
        self._file.seek(writer_at)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        writer_at = self._file.tell()
        if whence == io.SEEK_CUR:
            offset, whence = self._position + offset, io.SEEK_SET
        self._position = self._file.seek(offset, whence)
        self._file.seek(writer_at)
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        """The writer's file stays open."""
