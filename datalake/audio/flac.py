"""FLAC: what the header states, and why a file cannot be decoded.

RFC 9639 defines the format. libFLAC says "lost sync" for a cut file and for a damaged one alike;
the frame headers tell the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from datalake.audio.info import BadAudio
from datalake.audio.kinds import id3_size
from datalake.quarantine import Reason

__all__ = ["FlacHeader", "explain_failure", "parse_flac"]

_STREAMINFO_BYTES: Final = 34


@dataclass(frozen=True, slots=True)
class FlacHeader:
    """The STREAMINFO block."""

    start: int
    """Where the stream begins, behind an ID3 tag."""
    sample_rate_hz: int
    bit_depth: int
    block_samples: int
    """Samples of one channel in a frame, where all have the same number."""
    num_samples: int
    """0 if the encoder did not know."""
    md5: bytes
    """Of the samples; zeros if the encoder did not know."""


def parse_flac(data: bytes) -> FlacHeader:
    """Read STREAMINFO.

    Raises:
        BadAudio: `truncated`, or `bad_header` for a rate of 0 Hz.
    """
    start = id3_size(data)
    info = data[start + 8 : start + 8 + _STREAMINFO_BYTES]
    if len(info) < _STREAMINFO_BYTES:
        raise BadAudio.of(Reason.TRUNCATED, f"the file ends after {len(data)} bytes")
    packed = int.from_bytes(info[10:18], "big")
    if packed >> 44 == 0:
        raise BadAudio.of(Reason.BAD_HEADER, "a sample rate of 0 Hz")
    return FlacHeader(
        start=start,
        sample_rate_hz=packed >> 44,
        bit_depth=(packed >> 36 & 0x1F) + 1,
        block_samples=int.from_bytes(info[2:4], "big"),
        num_samples=packed & (1 << 36) - 1,
        md5=info[18:],
    )


def explain_failure(data: bytes, header: FlacHeader, message: str) -> BadAudio:
    """The error for a file that did not decode: `truncated` if its last frame is cut or missing.

    Args:
        data: the file.
        header: what it states.
        message: what the decoder said.
    """
    position, is_last = header.start + 4, False
    while not is_last and position + 4 <= len(data):
        is_last = bool(data[position] & 0x80)
        position += 4 + int.from_bytes(data[position + 1 : position + 4], "big")
    if position >= len(data):
        return BadAudio.of(Reason.TRUNCATED, f"the file ends after {len(data)} bytes of header")
    last = next(_frames_from_end(data, position, header.block_samples), None)
    if last is None:
        return BadAudio.of(Reason.CORRUPT, message)
    at, end_sample = last
    if end_sample < header.num_samples:
        return BadAudio.of(
            Reason.TRUNCATED,
            f"{header.num_samples} samples are promised, the last frame ends at {end_sample}",
        )
    if _crc(data[at:], 16, 0x8005):
        return BadAudio.of(Reason.TRUNCATED, "the last frame is cut or damaged")
    return BadAudio.of(Reason.CORRUPT, message)


def _frames_from_end(data: bytes, start: int, block_samples: int) -> Iterator[tuple[int, int]]:
    """Where frames begin and the sample they end at, the last frame first."""
    at = len(data)
    while (at := data.rfind(b"\xff", start, at)) >= 0:
        if data[at + 1 : at + 2] in (b"\xf8", b"\xf9") and (
            end := _frame_end_sample(data[at : at + 16], block_samples)
        ):
            yield at, end


def _frame_end_sample(head: bytes, block_samples: int) -> int | None:
    """The sample at which a frame ends; None if the bytes are no frame header."""
    if len(head) < 6:
        return None
    counts_samples = head[1] & 1
    size_code, rate_code = head[2] >> 4, head[2] & 0x0F
    # A number in the manner of UTF-8: the leading ones count its bytes.
    num_bytes = max(1, 8 - (head[4] ^ 0xFF).bit_length())
    number = head[4] & (0x7F >> num_bytes if num_bytes > 1 else 0x7F)
    for byte in head[5 : 4 + num_bytes]:
        number = number << 6 | byte & 0x3F
    after = 4 + num_bytes
    size_bytes = {6: 1, 7: 2}.get(size_code, 0)
    size = int.from_bytes(head[after : after + size_bytes], "big") + 1
    after += size_bytes + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if after >= len(head) or size_code == 0 or _crc(head[: after + 1], 8, 0x07):
        return None
    if size_code == 1:
        size = 192
    elif 2 <= size_code <= 5:
        size = 576 << size_code - 2
    elif size_code >= 8:
        size = 256 << size_code - 8
    return (number if counts_samples else number * block_samples) + size


def _crc(data: bytes, width: int, polynomial: int) -> int:
    """The remainder of `data`; 0 if it ends with its own checksum."""
    value, top, mask = 0, 1 << width - 1, (1 << width) - 1
    for byte in data:
        value ^= byte << width - 8
        for _ in range(8):
            value = (value << 1 ^ (polynomial if value & top else 0)) & mask
    return value
