"""How far up a clip's spectrum reaches, and traces that coders leave in it. All of it relative."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Spectrum", "spectrum_of"]

_FRAME_S: Final = 0.032
_FRAMES_AT_ONCE: Final = 1024
_CLIFF_DB: Final = 20.0
_BELOW_HZ: Final = 500.0
_GAP_HZ: Final = 250.0
_LOWEST_HZ: Final = 2000.0
_MEDIAN_BINS: Final = 9
_HOLE_DB: Final = 30.0
_BAND_BINS: Final = 4
_LOUD_DB: Final = 30.0

Samples = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spectrum:
    """What the spectrum of a clip says."""

    bandwidth_hz: float
    """Where the spectrum falls off a cliff for good; half the rate where it does not."""
    hole_share: float
    """The share of the upper half of the band that is empty while the clip is loud: a hint."""


def spectrum_of(samples: Samples, rate_hz: int) -> Spectrum | None:
    """The effective bandwidth and the share of spectral holes; None for silence.

    Ours. The power of all frames (Hann, the power of two nearest to 32 ms, not overlapping) is
    averaged by frequency, and the median over nine bins takes single tones out of it. At each
    frequency from 2 kHz on the mean level of the 500 Hz below is held against the highest level
    that any frequency more than 250 Hz above has. Where that contrast is largest, and 20 dB or
    more, the spectrum ends: the bandwidth is the highest frequency at half of that step. Speech
    alone falls far more gently, however soft it is up there, and noise of the recording goes on to
    the top; a low-pass filter of a resampler or coder (8 kHz audio stored at 16 or 44.1 kHz, MP3
    cut at 16 kHz, a telephone line) does not. What is cut within 250 Hz of half the rate is whole.

    A hole is four bins of a frame, 30 dB or more below the same frame's bins on both sides.
    Coders that allot bits by band (MP3, AAC, Vorbis) leave bands empty that noise would fill.

    Args:
        samples: (num_samples,), mono.
        rate_hz: samples a second.
    """
    size = 1 << max(round(np.log2(_FRAME_S * rate_hz)), 4)
    if samples.size < size:
        samples = np.concatenate([samples, np.zeros(size - samples.size, np.float32)])
    frames = samples[: samples.size // size * size].reshape(-1, size)
    total = np.zeros(size // 2 + 1)
    blocks = []
    for start in range(0, len(frames), _FRAMES_AT_ONCE):
        bins = np.fft.rfft(frames[start : start + _FRAMES_AT_ONCE] * _window(size), axis=1)
        power = (bins.real**2 + bins.imag**2).astype(np.float32, copy=False)
        total += power.sum(axis=0, dtype=np.float64)
        blocks.append(power)
    if total.max() <= 0:
        return None
    level_db = 10 * np.log10(np.maximum(total, total.max() * 1e-16))
    bandwidth_hz = _end_of(level_db, rate_hz / size, rate_hz)
    top = int(bandwidth_hz * size / rate_hz)
    holes, cells = np.sum([_holes(power, top) for power in blocks], axis=0)
    return Spectrum(bandwidth_hz, float(holes / cells) if cells else 0.0)


def _end_of(level_db: FloatArray, bin_hz: float, rate_hz: int) -> float:
    """The frequency at which the spectrum ends, in Hz."""
    half = _MEDIAN_BINS // 2
    padded = np.pad(level_db, half, mode="edge")
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(padded, _MEDIAN_BINS), axis=1)
    below, gap = (max(round(width / bin_hz), 1) for width in (_BELOW_HZ, _GAP_HZ))
    first, last = max(round(_LOWEST_HZ / bin_hz), below), len(smooth) - gap - 1
    if last <= first:
        return rate_hz / 2
    highest_from = np.maximum.accumulate(smooth[::-1])[::-1]
    sums = np.concatenate([[0.0], np.cumsum(smooth)])
    at = np.arange(first, last)
    contrast = (sums[at + 1] - sums[at + 1 - below]) / below - highest_from[at + 1 + gap]
    best = int(contrast.argmax())
    if contrast[best] < _CLIFF_DB:
        return rate_hz / 2
    step = highest_from[at[best] + 1 + gap] + contrast[best] / 2
    return float(np.flatnonzero(smooth >= step)[-1] * bin_hz)


def _holes(power: npt.NDArray[np.float32], top: int) -> tuple[int, int]:
    """Holes, and cells that could be holes, of the upper half of the band of loud frames."""
    bottom = top // 2
    num_bands = (top - bottom) // _BAND_BINS
    if num_bands < 3:
        return 0, 0
    energy = power.sum(axis=1)
    loud = energy > energy.max() * 10 ** (-_LOUD_DB / 10)
    region = power[loud, top - num_bands * _BAND_BINS : top]
    bands = region.reshape(len(region), num_bands, _BAND_BINS).sum(axis=2)
    neighbours = np.minimum(bands[:, :-2], bands[:, 2:])
    holes = bands[:, 1:-1] < neighbours * np.float32(10 ** (-_HOLE_DB / 10))
    return int(holes.sum()), holes.size


@lru_cache(maxsize=8)
def _window(size: int) -> npt.NDArray[np.float32]:
    return np.hanning(size).astype(np.float32)
