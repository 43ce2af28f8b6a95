"""From the bytes of an audio file to float32 samples."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.audio.info import BadAudio
from datalake.audio.inspection import open_stream
from datalake.audio.kinds import likeness, sniff
from datalake.audio.riff import WaveHeader, parse_wave
from datalake.errors import InputError, MissingPackageError
from datalake.quarantine import Reason

__all__ = ["decode", "resample"]

_DTYPES: Final = {
    "pcm_u8": "u1",
    "pcm_s16le": "<i2",
    "pcm_s32le": "<i4",
    "pcm_f32le": "<f4",
    "pcm_f64le": "<f8",
}


def decode(
    data: bytes, *, sample_rate_hz: int | None = None, mono: bool = True
) -> tuple[npt.NDArray[np.float32], int]:
    """Decode a whole audio file.

    Args:
        data: all bytes of a file of any supported kind.
        sample_rate_hz: resample to this rate (soxr, high quality); None: the file's own.
        mono: mix the channels down to their mean.

    Returns:
        The samples, full scale at 1 and not clipped, and their rate in Hz. float32,
        (num_samples,) if `mono`, else (num_channels, num_samples).

    Raises:
        BadAudio: the bytes are no audio, damaged or cut.
        InputError: `sample_rate_hz` is not positive.
        MissingPackageError: the extra `audio` is needed and not installed.
    """
    kind = sniff(data)
    if kind is None:
        raise BadAudio.of(
            Reason.NOT_AUDIO if data else Reason.EMPTY,
            likeness(data) if data else "a file of 0 bytes",
        )
    header = parse_wave(data) if kind == "wav" else None
    if header is not None and (plain := _decode_wave(data, header)) is not None:
        samples, rate_hz = plain, header.sample_rate_hz
    else:
        stream = open_stream(data, kind)
        blocks = list(stream.blocks)
        if not blocks:
            raise BadAudio.of(Reason.EMPTY, "a header without samples")
        samples = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        rate_hz = stream.sample_rate_hz
    if mono:
        samples = samples[:, 0] if samples.shape[1] == 1 else samples.mean(1, dtype=np.float32)
    if sample_rate_hz is not None and sample_rate_hz != rate_hz:
        samples, rate_hz = resample(samples, rate_hz, sample_rate_hz), sample_rate_hz
    return np.ascontiguousarray(samples.T), rate_hz


def resample(samples: npt.NDArray[np.float32], from_hz: int, to_hz: int) -> npt.NDArray[np.float32]:
    """Resample (num_samples,) or (num_samples, num_channels) with soxr at high quality.

    Raises:
        InputError: `to_hz` is not positive.
        MissingPackageError: soxr is not installed.
    """
    if to_hz <= 0:
        raise InputError("The sample rate is impossible", found=f"{to_hz} Hz", expected="above 0")
    try:
        import soxr
    except ImportError as error:
        raise MissingPackageError.of("soxr", "audio", "Resampling") from error
    resampled: npt.NDArray[np.float32] = soxr.resample(samples, from_hz, to_hz, quality="HQ")
    return resampled


def _decode_wave(data: bytes, header: WaveHeader) -> npt.NDArray[np.float32] | None:
    """Samples of plain PCM, (num_samples, num_channels); None where a decoder is needed."""
    if header.num_samples == 0:
        raise BadAudio.of(Reason.EMPTY, "a header without samples")
    shape = (header.num_samples, header.num_channels)
    count, start = shape[0] * shape[1], header.data_start
    if header.codec == "pcm_s24le":
        packed = np.frombuffer(data, np.uint8, 3 * count, start).reshape(count, 3)
        wide = np.zeros((count, 4), np.uint8)
        wide[:, 1:] = packed
        return (wide.view("<i4").astype(np.float32) * np.float32(2.0**-31)).reshape(shape)
    dtype = _DTYPES.get(header.codec or "")
    if dtype is None:
        return None
    raw: npt.NDArray[Any] = np.frombuffer(data, dtype, count, start).reshape(shape)
    with np.errstate(over="ignore"):
        samples = raw.astype(np.float32)
    if raw.dtype == np.uint8:
        samples = (samples - np.float32(128)) / np.float32(128)
    elif raw.dtype.kind == "i":
        samples *= np.float32(2.0 ** (1 - 8 * raw.itemsize))
    return samples
