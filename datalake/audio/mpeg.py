"""MPEG audio and ADTS AAC: files that are a row of frames and have no header of their own.

Decoders resynchronise after damage in silence, so the frames are walked first: a lost sync is
damage, and a last frame that is cut, or fewer frames than a Xing header counts, is truncation.
"""

from __future__ import annotations

from typing import Final

from datalake.audio.info import BadAudio
from datalake.audio.kinds import id3_size
from datalake.quarantine import Reason

__all__ = ["check_adts", "check_mp3"]

# kbit/s by bitrate index, by (is MPEG-1, layer).
_BITRATES: Final = {
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES_HZ: Final = (44_100, 48_000, 32_000)
_SAMPLES: Final = {
    (True, 1): 384,
    (True, 2): 1152,
    (True, 3): 1152,
    (False, 1): 384,
    (False, 2): 1152,
    (False, 3): 576,
}
_TRAILERS: Final = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"ID3", b"3DI")


def check_mp3(data: bytes) -> None:
    """Walk all frames of an MP3 file. Streams of free bitrate are left to the decoder.

    Raises:
        BadAudio: `truncated`, `corrupt` or `empty`.
    """
    position = first = _first_frame(data)
    num_frames = 0
    while position + 4 <= len(data):
        length = _mp3_frame_bytes(data, position)
        if length is None:
            if _is_trailer(data, position):
                break
            raise BadAudio.of(Reason.CORRUPT, f"frame {num_frames} is none, at byte {position}")
        if length == 0:
            return
        if position + length > len(data):
            raise BadAudio.of(Reason.TRUNCATED, f"frame {num_frames} is cut short")
        position += length
        num_frames += 1
    _check_frames(num_frames)
    promised = _xing_frames(data, first)
    # The frame that holds the Xing header is not among those it counts.
    if promised is not None and num_frames - 1 < promised:
        raise BadAudio.of(
            Reason.TRUNCATED, f"the header promises {promised} frames, there are {num_frames - 1}"
        )


def check_adts(data: bytes) -> None:
    """Walk all frames of an AAC file in ADTS framing.

    Raises:
        BadAudio: `truncated`, `corrupt` or `empty`.
    """
    position = _first_frame(data)
    num_frames = 0
    while position + 7 <= len(data):
        if data[position] != 0xFF or data[position + 1] & 0xF6 != 0xF0:
            if _is_trailer(data, position):
                break
            raise BadAudio.of(Reason.CORRUPT, f"frame {num_frames} is none, at byte {position}")
        length = int.from_bytes(data[position + 3 : position + 6], "big") >> 5 & 0x1FFF
        if length < 7:
            raise BadAudio.of(Reason.CORRUPT, f"frame {num_frames} has {length} bytes")
        if position + length > len(data):
            raise BadAudio.of(Reason.TRUNCATED, f"frame {num_frames} is cut short")
        position += length
        num_frames += 1
    if position < len(data) and data[position] == 0xFF:
        raise BadAudio.of(Reason.TRUNCATED, f"frame {num_frames} is cut short")
    _check_frames(num_frames)


def _check_frames(num_frames: int) -> None:
    if num_frames == 0:
        raise BadAudio.of(Reason.EMPTY, "tags without a single frame")


def _first_frame(data: bytes) -> int:
    """Where the first frame stands, behind an ID3 tag and the zeros that may pad it."""
    position = id3_size(data)
    while position and data[position : position + 1] == b"\0":
        position += 1
    return position


def _mp3_frame_bytes(data: bytes, position: int) -> int | None:
    """Bytes of the frame there; None if it is no frame, 0 if its bitrate is free."""
    sync, second, third = data[position], data[position + 1], data[position + 2]
    version, layer = second >> 3 & 3, 4 - (second >> 1 & 3)
    bitrate_index, rate_index = third >> 4, third >> 2 & 3
    if sync != 0xFF or second & 0xE0 != 0xE0 or version == 1 or layer == 4:
        return None
    if bitrate_index == 15 or rate_index == 3:
        return None
    is_mpeg1 = version == 3
    rate_hz = _RATES_HZ[rate_index] >> (0 if is_mpeg1 else 1 if version == 2 else 2)
    bits = _BITRATES[is_mpeg1, layer][bitrate_index] * 1000
    if bits == 0:
        return 0
    padding = third >> 1 & 1
    if layer == 1:
        return (12 * bits // rate_hz + padding) * 4
    return _SAMPLES[is_mpeg1, layer] // 8 * bits // rate_hz + padding


def _xing_frames(data: bytes, position: int) -> int | None:
    """The number of frames that a Xing or Info header in the first frame counts."""
    for magic in (b"Xing", b"Info"):
        # Behind 4 bytes of header come 9 to 32 bytes of side information.
        found = data.find(magic, position + 4, position + 44)
        if found >= 0 and len(data) >= found + 12 and data[found + 7] & 1:
            return int.from_bytes(data[found + 8 : found + 12], "big")
    return None


def _is_trailer(data: bytes, position: int) -> bool:
    """Whether what stands here is a tag or padding at the end rather than a damaged frame."""
    return data.startswith(_TRAILERS, position) or not data[position:].strip(b"\0")
