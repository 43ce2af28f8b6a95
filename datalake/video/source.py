"""Opening a video: bytes in memory without a copy of them, or a file, and no surprises.

FFmpeg is told which containers it may open. Left alone it also reads playlists, and then opens the
files and addresses that those name.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO, Final, Protocol, TypeAlias, cast

import pyarrow as pa

from datalake.errors import InputError, MissingPackageError
from datalake.quarantine import Reason
from datalake.video.containers import check_whole
from datalake.video.info import BadVideo

__all__ = ["Sliced", "SlicedFile", "Source", "load_av", "open_video"]

Source: TypeAlias = bytes | bytearray | memoryview | pa.Buffer | BinaryIO
"""Encoded video: bytes in memory, or a seekable binary file."""

_FORMATS: Final = "mov,matroska,avi,mpegts,mpeg,flv,ivf,obu,ogg"

# What FFmpeg asks of Python at once. Small enough that a seek reads little that it does not need.
_BLOCK_BYTES: Final = 1 << 16


def load_av() -> Any:
    """PyAV, imported at the first use.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise MissingPackageError.of("av", "robot", "Reading video") from error
    return av


def open_video(source: Source) -> tuple[Any, Any]:
    """The opened container and its video stream; the caller closes the container.

    Raises:
        BadVideo: the file is no video, cut, or of a codec that cannot be decoded.
        MissingPackageError: av is not installed.
    """
    av = load_av()
    file = _file_of(source)
    is_known = check_whole(file)
    file.seek(0)
    try:
        container = av.open(
            file,
            mode="r",
            options={"format_whitelist": _FORMATS},
            buffer_size=_BLOCK_BYTES,
            metadata_errors="replace",
        )
    except (av.FFmpegError, ValueError) as error:
        if is_known:
            raise BadVideo.of(Reason.CORRUPT, str(error)) from error
        file.seek(0)
        raise BadVideo.of(Reason.NOT_VIDEO, f"a file that begins with {file.read(16)!r}") from error
    try:
        return container, _video_stream(container)
    except BadVideo:
        container.close()
        raise


def _video_stream(container: Any) -> Any:
    streams = [s for s in container.streams.video if not _is_cover(s)]
    if not streams:
        kinds = sorted({stream.type for stream in container.streams})
        raise BadVideo.of(
            Reason.NOT_VIDEO, f"no video track; there is: {', '.join(kinds) or 'no track at all'}"
        )
    if streams[0].codec_context is None:
        raise BadVideo.of(Reason.UNSUPPORTED, "video of a codec that FFmpeg has no decoder for")
    return streams[0]


def _is_cover(stream: Any) -> bool:
    """A picture that belongs to a piece of music."""
    from av.stream import Disposition

    return bool(stream.disposition & Disposition.attached_pic)


def _file_of(source: Source) -> BinaryIO:
    if isinstance(source, bytes | bytearray | memoryview | pa.Buffer):
        return cast("BinaryIO", SlicedFile(memoryview(source).cast("B")))
    is_file = hasattr(source, "read") and not isinstance(source, io.TextIOBase)
    if not is_file or not source.seekable():
        raise InputError(
            "This is no source of video",
            expected="bytes in memory, or a seekable file opened in binary mode",
            found=type(source).__name__,
            fix="Open a path first: path.open('rb')",
        )
    return source


class Sliced(Protocol):
    """Bytes that are brought near as they are asked for: `data[start:stop]`, without steps."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> memoryview: ...


class SlicedFile:
    """Bytes as a file, read where they lie; `io.BytesIO` would copy all but `bytes`."""

    def __init__(self, data: Sliced) -> None:
        self._view = data
        self._position = 0

    def read(self, num_bytes: int) -> bytes:
        """So many bytes; fewer at the end."""
        start = self._position
        self._position = min(start + num_bytes, max(start, len(self._view)))
        return bytes(self._view[start : self._position])

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; returns it."""
        start = {io.SEEK_CUR: self._position, io.SEEK_END: len(self._view)}.get(whence, 0)
        # As in any file one may go beyond the end, where nothing is read.
        self._position = max(0, start + offset)
        return self._position

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._position
