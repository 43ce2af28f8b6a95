"""From the bytes of an audio file to float32 samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from datalake.audio.buffers import Buffer, opened
from datalake.audio.info import BadAudio
from datalake.audio.inspection import open_stream
from datalake.audio.kinds import likeness
from datalake.audio.pcm import is_pcm, mixed_down, pcm_span
from datalake.audio.riff import parse_wave
from datalake.errors import InputError, MissingPackageError
from datalake.quarantine import Reason

__all__ = ["decode", "resample"]


def decode(
    data: Buffer, *, sample_rate_hz: int | None = None, mono: bool = True
) -> tuple[npt.NDArray[np.float32], int]:
    """Decode a whole audio file.

    Args:
        data: all bytes of a file of any supported kind; PCM in WAV is read where it lies.
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
    whole, kind = opened(data)
    if kind is None:
        raise BadAudio.of(
            Reason.NOT_AUDIO if whole else Reason.EMPTY,
            likeness(bytes(whole)) if whole else "a file of 0 bytes",
        )
    header = parse_wave(whole) if kind == "wav" else None
    if header is not None and header.num_samples == 0:
        raise BadAudio.of(Reason.EMPTY, "a header without samples")
    if header is not None and is_pcm(header):
        samples = pcm_span(whole, header, 0, header.num_samples)
        rate_hz = header.sample_rate_hz
    else:
        stream = open_stream(bytes(whole), kind)
        blocks = list(stream.blocks)
        if not blocks:
            raise BadAudio.of(Reason.EMPTY, "a header without samples")
        samples = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        rate_hz = stream.sample_rate_hz
    if mono:
        samples = mixed_down(samples)
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
