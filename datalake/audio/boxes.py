"""MP4 and AIFF: containers whose outer boxes say whether the file is whole."""

from __future__ import annotations

from datalake.audio.info import BadAudio
from datalake.quarantine import Reason

__all__ = ["check_aiff", "check_mp4"]


def check_mp4(data: bytes) -> None:
    """Walk the top-level boxes of an MP4 or M4A file.

    Raises:
        BadAudio: `truncated` (a box is cut, or the index is missing) or `corrupt`.
    """
    position, names = 0, set()
    while position + 8 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        name = data[position + 4 : position + 8]
        if length == 1:
            length = int.from_bytes(data[position + 8 : position + 16], "big")
        elif length == 0:
            length = len(data) - position
        if length < 8:
            raise BadAudio.of(Reason.CORRUPT, f"a box of {length} bytes at byte {position}")
        if position + length > len(data):
            raise BadAudio.of(
                Reason.TRUNCATED,
                f"the box {name.decode('latin-1')!r} promises {length} bytes,"
                f" the file holds {len(data) - position}",
            )
        names.add(name)
        position += length
    if b"moov" not in names:
        raise BadAudio.of(Reason.TRUNCATED, "no moov box: the index of the audio is missing")


def check_aiff(data: bytes) -> None:
    """Compare the length that an AIFF file states with what is there.

    Raises:
        BadAudio: `truncated`.
    """
    promised = int.from_bytes(data[4:8], "big") + 8
    if promised > len(data) or len(data) < 12:
        raise BadAudio.of(
            Reason.TRUNCATED, f"the header promises {promised} bytes, the file holds {len(data)}"
        )
