"""Waveforms through a codec and back: what telephones and players do to speech.

libsndfile's encoders, the same samples every time on one version of it. Codecs of telephony work at
8 kHz, and what they leave is brought back to the rate it had.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError, MissingPackageError, nearest

__all__ = ["CODECS", "check_codecs", "codec_library", "through_codec"]

Wave: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class _Codec:
    container: str
    subtype: str
    rate_hz: int | None = None
    """The rate it works at; None for the signal's."""
    has_levels: bool = False


CODECS: Final[Mapping[str, _Codec]] = {
    "mp3": _Codec("MP3", "MPEG_LAYER_III", has_levels=True),
    "vorbis": _Codec("OGG", "VORBIS", has_levels=True),
    "opus": _Codec("OGG", "OPUS", 16_000, has_levels=True),
    "ulaw": _Codec("WAV", "ULAW", 8_000),
    "alaw": _Codec("WAV", "ALAW", 8_000),
    "gsm": _Codec("WAV", "GSM610", 8_000),
    "g721": _Codec("AU", "G721_32", 8_000),
}
"""By name; `ulaw` and `alaw` are G.711, `g721` is ADPCM at 32 kbit/s."""


def check_codecs(names: tuple[str, ...]) -> None:
    """Raise `InputError` for a name that is no codec."""
    for name in names:
        if name not in CODECS:
            raise InputError(
                f"There is no codec {name!r}",
                expected=", ".join(CODECS),
                fix=nearest(name, CODECS),
            )


def codec_library() -> str:
    """What encodes, with its version: it decides the samples.

    Raises:
        MissingPackageError: soundfile is not installed.
    """
    return str(_soundfile().__libsndfile_version__)


def through_codec(wave: Wave, sample_rate_hz: int, name: str, level: float = 0.5) -> Wave:
    """A wave encoded and decoded.

    Args:
        wave: (num_samples,), full scale 1; what lies outside is clipped.
        sample_rate_hz: its rate.
        name: one of `CODECS`.
        level: from 0, the most bits, to 1, the fewest; for `mp3`, `vorbis` and `opus`.

    Returns:
        (num_samples,): what decoding gives beyond is cut, what it lacks is silence.

    Raises:
        MissingPackageError: soundfile, or for another rate soxr, is not installed.
    """
    soundfile = _soundfile()
    codec = CODECS[name]
    rate = codec.rate_hz or sample_rate_hz
    sent = _resampled(np.clip(wave, -1, 1), sample_rate_hz, rate)
    file = io.BytesIO()
    levels = {"compression_level": level} if codec.has_levels else {}
    soundfile.write(file, sent, rate, format=codec.container, subtype=codec.subtype, **levels)
    file.seek(0)
    heard, _ = soundfile.read(file, dtype="float32")
    back = _resampled(heard, rate, sample_rate_hz)[: len(wave)]
    return np.pad(back, (0, len(wave) - len(back)))


def _resampled(wave: Wave, from_hz: int, to_hz: int) -> Wave:
    if from_hz == to_hz:
        return wave
    try:
        import soxr
    except ImportError as error:
        raise MissingPackageError.of("soxr", "audio", "Codecs of another rate") from error
    resampled: Wave = soxr.resample(wave, from_hz, to_hz)
    return resampled


def _soundfile() -> Any:
    try:
        import soundfile
    except ImportError as error:
        raise MissingPackageError.of("soundfile", "audio", "Codec augmentation") from error
    return soundfile
