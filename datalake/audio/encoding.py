"""Re-encoding: FLAC, which loses nothing that 16 bits hold."""

from __future__ import annotations

import io
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datalake.audio.decoding import decode
from datalake.audio.info import AudioInfo
from datalake.errors import InputError, MissingPackageError, nearest

__all__ = ["Preset", "encode_flac", "transcode"]

Preset: TypeAlias = Literal["flac16k"]
PRESETS: Final = get_args(Preset)


def encode_flac(samples: npt.NDArray[np.float32], sample_rate_hz: int) -> bytes:
    """Encode samples as 16-bit FLAC; the same samples always give the same bytes.

    Args:
        samples: (num_samples,) or (num_channels, num_samples), full scale at 1; what lies
            outside is clipped.
        sample_rate_hz: their rate.

    Raises:
        InputError: the samples are not finite, or FLAC cannot hold the rate or the channels.
        MissingPackageError: soundfile is not installed.
    """
    try:
        import soundfile
    except ImportError as error:
        raise MissingPackageError.of("soundfile", "audio", "Encoding FLAC") from error
    if not np.isfinite(samples).all():
        raise InputError("Samples cannot be encoded", found="NaN or infinite samples")
    scaled = np.rint(samples.T * np.float32(32768)).clip(-32768, 32767).astype(np.int16)
    target = io.BytesIO()
    try:
        soundfile.write(target, scaled, sample_rate_hz, format="FLAC", subtype="PCM_16")
    except soundfile.SoundFileError as error:
        raise InputError(
            "FLAC cannot hold these samples",
            found=f"shape {samples.shape} at {sample_rate_hz} Hz: {error}",
            expected="at most 8 channels at 1 to 655,350 Hz",
        ) from error
    return target.getvalue()


def transcode(data: bytes, preset: Preset) -> tuple[bytes, AudioInfo]:
    """Decode a file and encode it again.

    `flac16k`: 16 kHz, mono (mean of the channels), 16 bits, FLAC. A file that is that already
    keeps every sample.

    Raises:
        BadAudio: the file cannot be decoded.
        InputError: the preset is not known, or samples are not finite.
    """
    if preset not in PRESETS:
        raise InputError(
            "The transcode preset is not known", found=preset, fix=nearest(preset, PRESETS)
        )
    samples, rate_hz = decode(data, sample_rate_hz=16_000)
    return encode_flac(samples, rate_hz), AudioInfo.of(len(samples), rate_hz, 1, "flac")
