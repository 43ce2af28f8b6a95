"""Is this audio, whole, and what the file name says? And how long is it, exactly?"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.audio.boxes import check_aiff, check_mp4
from datalake.audio.buffers import Buffer, opened
from datalake.audio.flac import FlacHeader, parse_flac
from datalake.audio.info import AudioInfo, BadAudio
from datalake.audio.kinds import Kind, id3_size, kind_of_suffix, likeness
from datalake.audio.mpeg import check_adts, check_mp3
from datalake.audio.ogg import check_pages
from datalake.audio.riff import WaveHeader, parse_wave
from datalake.audio.streams import Stream, open_flac, open_libav, open_sndfile
from datalake.quarantine import Reason

__all__ = ["inspect", "open_stream"]

_LARGEST: Final = np.finfo(np.float32).max
_CHECKS: Final = {
    "ogg": check_pages,
    "mp3": check_mp3,
    "mp4": check_mp4,
    "adts": check_adts,
    "aiff": check_aiff,
}


def inspect(data: Buffer, *, suffix: str = "") -> AudioInfo:
    """Verify a whole audio file and count its samples.

    PCM in WAV is judged by its header alone (and float samples by a look for NaN); everything
    compressed is decoded to its end. FLAC is compared with the MD5 that it carries, Ogg with the
    checksum of each page. `num_samples` is what `decode` returns at the file's own rate.

    Args:
        data: all bytes of the file.
        suffix: the file name's suffix with its dot (`.wav`); empty: nothing is promised.

    Raises:
        BadAudio: the file is refused; `error.refusal` says why.
        MissingPackageError: a compressed file, and the extra `audio` is not installed.
    """
    whole, kind = opened(data)
    kind = _checked_kind(whole, kind, suffix)
    if kind == "wav":
        header = parse_wave(whole)
        if header.codec is not None:
            _check_finite(whole, header)
            return AudioInfo.of(
                header.num_samples, header.sample_rate_hz, header.num_channels, header.codec
            )
    whole = bytes(whole)
    if kind == "flac" and (flac := parse_flac(whole)).num_samples:
        return _inspect_flac(whole, flac)
    stream = open_stream(whole, kind)
    num_samples = 0
    for block in stream.blocks:
        num_samples += len(block)
        if not np.isfinite(block).all():
            raise BadAudio.of(Reason.NON_FINITE, f"within the {num_samples} first samples")
    return AudioInfo.of(num_samples, stream.sample_rate_hz, stream.num_channels, stream.codec)


def open_stream(data: bytes, kind: Kind) -> Stream:
    """Check the container of a compressed file and start to decode it, as float32.

    Raises:
        BadAudio: the container is damaged or no decoder takes it.
    """
    if check := _CHECKS.get(kind):
        check(data)
    if kind in ("mp4", "adts"):
        return open_libav(data)
    if kind == "flac":
        return open_flac(data)
    if kind == "mp3":
        # libsndfile wants a frame as the first bytes.
        data = data[id3_size(data) :].lstrip(b"\0")
    try:
        return open_sndfile(data)
    except BadAudio:
        return open_libav(data)


def _checked_kind(data: bytes | memoryview, kind: Kind | None, suffix: str) -> Kind:
    if not data:
        raise BadAudio.of(Reason.EMPTY, "a file of 0 bytes")
    if kind is None:
        raise BadAudio.of(Reason.NOT_AUDIO, likeness(bytes(data)))
    promised = kind_of_suffix(suffix)
    if promised not in (None, kind):
        raise BadAudio.of(Reason.WRONG_EXTENSION, f"the name says {suffix}, the bytes are {kind}")
    return kind


def _check_finite(data: bytes | memoryview, header: WaveHeader) -> None:
    dtype = {"pcm_f32le": "<f4", "pcm_f64le": "<f8"}.get(header.codec or "")
    if dtype is None:
        return
    count = header.num_samples * header.num_channels
    # Not so for NaN, and for what float32 cannot hold.
    bad = ~(np.abs(np.frombuffer(data, dtype, count, header.data_start)) <= _LARGEST)
    if bad.any():
        raise BadAudio.of(
            Reason.NON_FINITE,
            f"{bad.sum()} of {count} samples, the first at {bad.argmax() // header.num_channels}",
        )


def _inspect_flac(data: bytes, header: FlacHeader) -> AudioInfo:
    """Decode a FLAC file and compare the samples with the MD5 in its header."""
    digest, num_samples = hashlib.md5(usedforsecurity=False), 0
    stream = open_flac(data, "int16" if header.bit_depth <= 16 else "int32")
    for block in stream.blocks:
        num_samples += len(block)
        digest.update(_flac_bytes(block, header.bit_depth))
    # An encoder that writes to a pipe cannot go back to fill the MD5 in.
    if any(header.md5) and digest.digest() != header.md5:
        raise BadAudio.of(Reason.CORRUPT, "the samples do not match the MD5 in the header")
    return AudioInfo.of(num_samples, stream.sample_rate_hz, stream.num_channels, "flac")


def _flac_bytes(block: npt.NDArray[np.signedinteger], depth: int) -> bytes:
    """Samples as FLAC hashes them: little-endian in as many whole bytes as the depth needs.

    libsndfile hands samples over scaled up to the full width of the type.
    """
    num_bytes = (depth + 7) // 8
    if depth == 8 * block.itemsize:
        return block.tobytes()
    shifted = block >> (8 * block.itemsize - depth)
    return shifted.view(np.uint8).reshape(-1, block.itemsize)[:, :num_bytes].tobytes()
