"""A fingerprint of a recording, which coding, resampling and level leave nearly as it is.

After Haitsma and Kalker, "A Highly Robust Audio Fingerprinting System" (ISMIR 2002): the signs of
differences of band energies along frequency and time, 32 bits a frame. Ours: the frame rate, and
the long frame as a running mean of short ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.audio import BadAudio, decode
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["FINGERPRINT", "WORDS_PER_S", "Fingerprinter", "Words", "fingerprint_of", "words_of"]

WORDS_PER_S: Final = 62.5

_VERSION: Final = 1
_WINDOW_S: Final = 0.064
_LOWEST_HZ: Final = 300.0
_HIGHEST_HZ: Final = 2000.0
_NUM_BANDS: Final = 33
_MEAN_FRAMES: Final = 16
_FRAMES_AT_ONCE: Final = 2048

Words = npt.NDArray[np.uint32]


def fingerprint_of(samples: npt.NDArray[np.float32], rate_hz: int) -> Words:
    """A word of 32 bits for each 16 ms.

    Energies of 33 bands between 300 and 2000 Hz, equally wide on a logarithmic scale, are taken
    over windows of 64 ms and averaged over 16 of them (a Hann mean of a quarter second). Bit m of
    word n says whether E(n, m + 1) - E(n, m) grew since the frame before. A word of digital silence
    is 0. On real speech, MP3 of 40 kbit/s turns 5 % of the bits, noise at 20 dB 8 %, resampling to
    8 kHz under 1 %, a neural vocoder 11 to 18 %; other speech 44 % or more.

    Args:
        samples: (num_samples,), mono.
        rate_hz: samples a second, 4,000 or more.

    Returns:
        (num_frames - 1,), uint32.
    """
    size = round(_WINDOW_S * rate_hz)
    padded = np.pad(samples, size // 2)
    if padded.size < size:
        padded = np.pad(padded, (0, size - padded.size))
    num_frames = int((padded.size - size) / rate_hz * WORDS_PER_S) + 1
    # Where frames begin is rounded one by one: clips of any rate stay in step.
    starts = np.round(np.arange(num_frames) * rate_hz / WORDS_PER_S).astype(np.int64)
    starts = starts[starts <= padded.size - size]
    windows = np.lib.stride_tricks.sliding_window_view(padded, size)
    bands = _bands(rate_hz, size)
    energies = np.empty((len(starts), _NUM_BANDS), np.float32)
    for first in range(0, len(starts), _FRAMES_AT_ONCE):
        frames = windows[starts[first : first + _FRAMES_AT_ONCE]] * _hann(size)
        bins = np.fft.rfft(frames, axis=1)
        energies[first : first + len(frames)] = (bins.real**2 + bins.imag**2) @ bands
    mean = np.pad(energies, ((_MEAN_FRAMES // 2, _MEAN_FRAMES - 1 - _MEAN_FRAMES // 2), (0, 0)))
    shape = np.hanning(_MEAN_FRAMES + 2)[1:-1].astype(np.float32)
    smooth = np.lib.stride_tricks.sliding_window_view(mean, _MEAN_FRAMES, axis=0) @ shape
    grew = np.diff(np.diff(smooth, axis=1), axis=0) > 0
    packed = np.packbits(grew, axis=1, bitorder="little")
    return packed.view("<u4")[:, 0].astype(np.uint32)


@lru_cache(maxsize=8)
def _bands(rate_hz: int, size: int) -> npt.NDArray[np.float32]:
    """How much of each bin lies in each band, (num_bins, 33)."""
    edges = np.geomspace(_LOWEST_HZ, _HIGHEST_HZ, _NUM_BANDS + 1)
    centres, half = np.fft.rfftfreq(size, 1 / rate_hz)[:, None], rate_hz / size / 2
    over = np.minimum(centres + half, edges[1:]) - np.maximum(centres - half, edges[:-1])
    return np.asarray(np.maximum(over, 0), np.float32)


@lru_cache(maxsize=8)
def _hann(size: int) -> npt.NDArray[np.float32]:
    return np.hanning(size).astype(np.float32)


def words_of(stored: pa.Scalar) -> Words:
    """The words of a stored fingerprint; none for null."""
    return np.frombuffer(stored.as_buffer(), "<u4") if stored.is_valid else np.empty(0, np.uint32)


@dataclass(frozen=True)
class Fingerprinter:
    """Adds the column `fingerprint`: little-endian words of 32 bits; an `Annotator`.

    Args:
        audio: the column of encoded audio.
    """

    audio: str = "audio"

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.audio,)

    @property
    def adds(self) -> pa.Schema:
        """The fingerprint, 250 bytes a second."""
        return pa.schema([pa.field("fingerprint", pa.binary())])

    @property
    def settings(self) -> Mapping[str, object]:
        """The version of the fingerprint."""
        return {"fingerprint": _VERSION, "audio": self.audio}

    def open(self) -> Annotate:
        """Nothing is loaded."""
        return self._annotate

    def _annotate(self, rows: pa.Table) -> pa.Table:
        values: list[bytes | None] = []
        errors: list[str | None] = []
        for data in rows[self.audio]:
            value, error = None, "there is no audio"
            try:
                if data.is_valid:
                    samples, rate_hz = decode(memoryview(data.as_buffer()))
                    error = f"a rate of {rate_hz} Hz, where 4000 or more are needed"
                    if rate_hz >= 2 * _HIGHEST_HZ:
                        value = fingerprint_of(samples, rate_hz).astype("<u4").tobytes()
            except BadAudio as bad:
                error = f"{bad.refusal.reason}: {bad.refusal.detail}"
            values.append(value)
            errors.append(None if value is not None else error)
        return pa.table(
            {"fingerprint": pa.array(values, pa.binary()), "error": pa.array(errors, pa.string())}
        )


FINGERPRINT: Final = Fingerprinter()
