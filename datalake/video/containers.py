"""Containers whose outer layer says whether the file is whole: MP4's boxes, Matroska's segment.

FFmpeg reads what is left of a cut file and says little of the rest. Only headers are read here, a
few bytes a box.
"""

from __future__ import annotations

import os
from typing import BinaryIO, Final

from datalake.quarantine import Reason
from datalake.video.info import BadVideo

__all__ = ["check_whole"]

_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
_EBML: Final = b"\x1a\x45\xdf\xa3"
_SEGMENT: Final = b"\x18\x53\x80\x67"
_MP4_FIRST: Final = frozenset({b"ftyp", b"styp", b"moov", b"mdat", b"wide"})
_MP4_BOXES: Final = _MP4_FIRST | {
    b"moof", b"free", b"skip", b"udta", b"meta", b"uuid", b"sidx", b"mfra", b"pdin", b"emsg",
}  # fmt: skip


def check_whole(file: BinaryIO) -> bool:
    """Look at the outer layer of a file.

    Returns:
        Whether it is a container of a kind that is known here.

    Raises:
        BadVideo: `empty`, `lfs_pointer`, `video_truncated`.
    """
    size = file.seek(0, os.SEEK_END)
    head = _read(file, 0, 64)
    if not head:
        raise BadVideo.of(Reason.EMPTY, "a file of 0 bytes")
    if head.startswith(_LFS_POINTER):
        raise BadVideo.of(
            Reason.LFS_POINTER, "a Git-LFS pointer lies in the file's place: run `git lfs pull`"
        )
    if head.startswith(_EBML):
        _check_matroska(file, size)
        return True
    if head[4:8] in _MP4_FIRST:
        _check_mp4(file, size)
        return True
    return False


def _check_mp4(file: BinaryIO, size: int) -> None:
    position, names = 0, set()
    while position + 8 <= size:
        header = _read(file, position, 16)
        length, name = int.from_bytes(header[:4], "big"), header[4:8]
        if name not in _MP4_BOXES:
            # Bytes that some writer left behind the last box; FFmpeg passes over them too.
            break
        if length == 1:
            length = int.from_bytes(header[8:16], "big")
        elif length == 0:
            length = size - position
        if length < 8:
            raise BadVideo.of(Reason.CORRUPT, f"a box of {length} bytes at byte {position}")
        if position + length > size:
            raise BadVideo.of(
                Reason.VIDEO_TRUNCATED,
                f"the box {name.decode('latin-1')!r} promises {length} bytes,"
                f" the file holds {size - position} of them",
            )
        names.add(name)
        position += length
    if b"moov" not in names:
        raise BadVideo.of(
            Reason.VIDEO_TRUNCATED,
            "no moov box: the index is missing, as if the recording had not been finished",
        )


def _check_matroska(file: BinaryIO, size: int) -> None:
    position = 4
    position, length = _varint(file, position)
    position += length or 0
    if position + 12 > size:
        raise BadVideo.of(Reason.VIDEO_TRUNCATED, f"the file ends after {size} bytes of header")
    if _read(file, position, 4) != _SEGMENT:
        return
    position, length = _varint(file, position + 4)
    if length is not None and position + length > size:
        raise BadVideo.of(
            Reason.VIDEO_TRUNCATED,
            f"the segment promises {length} bytes, the file holds {size - position} of them",
        )


def _varint(file: BinaryIO, position: int) -> tuple[int, int | None]:
    """Where an EBML number ends, and the number; None: unknown, as live recordings have it."""
    packed = _read(file, position, 8)
    num_bytes = 9 - packed[0].bit_length() if packed and packed[0] else 8
    value = int.from_bytes(packed[:num_bytes], "big") & (1 << 7 * num_bytes) - 1
    return position + num_bytes, None if value == (1 << 7 * num_bytes) - 1 else value


def _read(file: BinaryIO, position: int, num_bytes: int) -> bytes:
    file.seek(position)
    return file.read(num_bytes)
