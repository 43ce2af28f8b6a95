"""WAVE headers: a chunk walk over bytes in memory, quick enough to run on every file.

Layouts that occur in the wild and are read here: RIFF, RF64/BW64 (64-bit sizes in `ds64`), Sony
Wave64; `WAVE_FORMAT_EXTENSIBLE`; chunks such as LIST, bext or JUNK before `fmt ` or `data`; odd
chunks with and without their pad byte; and data sizes that a streaming writer never filled in.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from datalake.audio.info import MAX_CHANNELS, MAX_SAMPLE_RATE_HZ, BadAudio
from datalake.quarantine import Reason

__all__ = ["WaveHeader", "parse_wave"]

_CHUNK: Final = struct.Struct("<4sI")
_FMT: Final = struct.Struct("<HHIIHH")
_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 0x0001, 0x0003, 0x0006, 0x0007, 0xFFFE

# (format tag, bytes a sample) of the codecs whose samples all have one size.
_CODECS: Final = {
    (_PCM, 1): "pcm_u8",
    (_PCM, 2): "pcm_s16le",
    (_PCM, 3): "pcm_s24le",
    (_PCM, 4): "pcm_s32le",
    (_FLOAT, 4): "pcm_f32le",
    (_FLOAT, 8): "pcm_f64le",
    (_ALAW, 1): "alaw",
    (_MULAW, 1): "mulaw",
}
_PLAIN_TAGS: Final = frozenset(tag for tag, _ in _CODECS)

# Writers to a pipe leave a size at one of several huge values (0x7FFFF000, 0xFFFFFFFF and
# neighbours) or at zero. A true chunk of 2 GiB is no utterance.
_STREAMING_SIZE: Final = 0x7FFF_F000
_CHUNK_IDS: Final = frozenset(
    (b"fmt ", b"data", b"LIST", b"fact", b"bext", b"JUNK", b"PEAK", b"cue ", b"smpl", b"id3 ")
)
_W64_TAIL: Final = b"\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a"


@dataclass(frozen=True, slots=True)
class WaveHeader:
    """Where the samples of a WAVE file lie and how they are coded."""

    codec: str | None
    """None where samples have no fixed size (ADPCM, GSM, MP3 in WAV); a decoder must tell."""
    sample_rate_hz: int
    num_channels: int
    frame_bytes: int
    """Bytes of one sample of all channels (of one block where `codec` is None)."""
    data_start: int
    data_bytes: int

    @property
    def num_samples(self) -> int:
        """Samples of one channel; of no meaning where `codec` is None."""
        return self.data_bytes // self.frame_bytes


def parse_wave(data: bytes | memoryview) -> WaveHeader:
    """Find format and samples of a WAVE file.

    Args:
        data: the file; of a view only the header is touched.

    Raises:
        BadAudio: `truncated`, `corrupt` or `bad_header`.
    """
    if data[:4] == b"riff":
        return _parse_w64(data)
    size = len(data)
    wide_data_bytes: int | None = None
    fmt: tuple[int, ...] | None = None
    position = 12
    while position + 8 <= size:
        chunk_id, chunk_bytes = _CHUNK.unpack_from(data, position)
        body = position + 8
        if chunk_id == b"data":
            if fmt is None:
                raise BadAudio.of(Reason.CORRUPT, "the data chunk comes before any fmt chunk")
            if wide_data_bytes is not None and chunk_bytes == 0xFFFF_FFFF:
                chunk_bytes = wide_data_bytes
            elif chunk_bytes == 0 or chunk_bytes >= _STREAMING_SIZE > size - body:
                chunk_bytes = 0 if bytes(data[body : body + 4]) in _CHUNK_IDS else size - body
            return _header(fmt, body, chunk_bytes, size)
        if chunk_id == b"fmt ":
            fmt = _parse_fmt(data, body, chunk_bytes)
        elif chunk_id == b"ds64" and body + 16 <= size:
            wide_data_bytes = int.from_bytes(data[body + 8 : body + 16], "little")
        position = body + chunk_bytes
        if chunk_bytes & 1 and bytes(data[position : position + 4]) not in _CHUNK_IDS:
            position += 1
    if position > size or int.from_bytes(data[4:8], "little") + 8 > size or size < 20:
        raise BadAudio.of(Reason.TRUNCATED, f"the file ends after {size} bytes, within its header")
    raise BadAudio.of(Reason.CORRUPT, "no data chunk")


def _parse_fmt(data: bytes | memoryview, body: int, chunk_bytes: int) -> tuple[int, ...]:
    """The fields of a `fmt ` chunk, with the tag that EXTENSIBLE stands for put in its place."""
    if body + 16 > len(data):
        raise BadAudio.of(Reason.TRUNCATED, "the file ends within its fmt chunk")
    if chunk_bytes < 16:
        raise BadAudio.of(Reason.CORRUPT, f"a fmt chunk of {chunk_bytes} bytes")
    tag, *rest = _FMT.unpack_from(data, body)
    if tag == _EXTENSIBLE and chunk_bytes >= 26:
        tag = int.from_bytes(data[body + 24 : body + 26], "little")
    return (tag, *rest)


def _header(fmt: tuple[int, ...], start: int, data_bytes: int, size: int) -> WaveHeader:
    tag, channels, rate, _, frame_bytes, bits = fmt
    if not 0 < rate <= MAX_SAMPLE_RATE_HZ:
        raise BadAudio.of(Reason.BAD_HEADER, f"a sample rate of {rate} Hz")
    if not 0 < channels <= MAX_CHANNELS:
        raise BadAudio.of(Reason.BAD_HEADER, f"{channels} channels")
    if frame_bytes == 0:
        raise BadAudio.of(Reason.BAD_HEADER, "a block of 0 bytes")
    codec = None
    if tag in _PLAIN_TAGS:
        width, odd = divmod(frame_bytes, channels)
        codec = _CODECS.get((tag, width))
        if odd or codec is None or not 0 < bits <= 8 * width:
            raise BadAudio.of(
                Reason.BAD_HEADER,
                f"{channels} channels of {bits} bits in blocks of {frame_bytes} bytes",
            )
    if start + data_bytes > size:
        raise BadAudio.of(
            Reason.TRUNCATED,
            f"the header promises {data_bytes} bytes of samples, the file holds {size - start}",
        )
    return WaveHeader(codec, rate, channels, frame_bytes, start, data_bytes)


def _parse_w64(data: bytes | memoryview) -> WaveHeader:
    """Sony Wave64: 16-byte ids, 64-bit sizes that include their 24-byte header, padded to 8."""
    size = len(data)
    fmt: tuple[int, ...] | None = None
    position = 40
    while position + 24 <= size:
        chunk_id = data[position : position + 16]
        chunk_bytes = int.from_bytes(data[position + 16 : position + 24], "little")
        if chunk_bytes < 24:
            raise BadAudio.of(Reason.CORRUPT, f"a Wave64 chunk of {chunk_bytes} bytes")
        body = position + 24
        if chunk_id == b"fmt " + _W64_TAIL:
            fmt = _parse_fmt(data, body, chunk_bytes - 24)
        elif chunk_id == b"data" + _W64_TAIL:
            if fmt is None:
                raise BadAudio.of(Reason.CORRUPT, "the data chunk comes before any fmt chunk")
            return _header(fmt, body, chunk_bytes - 24, size)
        position += chunk_bytes + -chunk_bytes % 8
    if position > size or size < 64:
        raise BadAudio.of(Reason.TRUNCATED, f"the file ends after {size} bytes, within its header")
    raise BadAudio.of(Reason.CORRUPT, "no data chunk")
