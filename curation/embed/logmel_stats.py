"""Mean and standard deviation over time of log-mel bands.

Size 160: the means of 80 bands, then their standard deviations (of the population). 25 ms Hann
windows every 10 ms at 16 kHz, power spectrum of 512 points, triangles on the mel scale of
O'Shaughnessy (2595 log10(1 + f / 700)) from 0 to 8 kHz with peaks of 1, natural logarithm. Taking
moments of it for a clip's embedding is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.vectors import embedding_field
from curation.embed.waveforms import Unembeddable, Waveform, WaveformEmbedding
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["LogmelStats", "log_mel"]

_RATE_HZ: Final = 16_000
_WINDOW: Final = 400
_HOP: Final = 160
_FFT: Final = 512
_BANDS: Final = 80
_FLOOR: Final = 1e-10
_AT_ONCE: Final = 2048
_VERSION: Final = 1

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LogmelStats:
    """Embeds encoded audio by its log-mel spectrum; an `Annotator`. Needs no torch.

    Memory: a decoded clip, and the spectra of 20 s.

    Args:
        column: encoded audio. Clips are mixed down and resampled to 16 kHz.
    """

    column: str = "audio"

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.column,)

    @property
    def adds(self) -> pa.Schema:
        """`logmel_stats`, of 160 numbers."""
        return pa.schema([embedding_field("logmel_stats", 2 * _BANDS, self.settings)])

    @property
    def settings(self) -> Mapping[str, object]:
        """The version of the bands."""
        return {"embedder": "logmel_stats", "version": _VERSION, "column": self.column}

    def open(self) -> Annotate:
        """Nothing is loaded."""
        return WaveformEmbedding(self.column, _RATE_HZ, self.adds.field(0), _embed)


def _embed(waveform: Waveform) -> Array:
    if len(waveform) < _WINDOW:
        raise Unembeddable(f"too short: {len(waveform)} samples, and a window has {_WINDOW}")
    frames = np.lib.stride_tricks.sliding_window_view(waveform, _WINDOW)[::_HOP]
    parts = [frames[start : start + _AT_ONCE] for start in range(0, len(frames), _AT_ONCE)]
    first = _of_frames(parts[0])
    # Deviations from the first frames' mean: squares of large means would cost digits.
    middle = first.mean(axis=0)
    sums, squares = np.zeros(_BANDS), np.zeros(_BANDS)
    for place, part in enumerate(parts):
        apart = (_of_frames(part) if place else first) - middle
        sums += apart.sum(axis=0)
        squares += np.square(apart).sum(axis=0)
    mean = sums / len(frames)
    variance = np.maximum(squares / len(frames) - np.square(mean), 0)
    return np.concatenate([middle + mean, np.sqrt(variance)])


def log_mel(waveform: Waveform) -> Array:
    """The log-mel spectrum of a clip: (num_frames, 80); nothing is padded."""
    return _of_frames(np.lib.stride_tricks.sliding_window_view(waveform, _WINDOW)[::_HOP])


def _of_frames(frames: npt.NDArray[np.float32]) -> Array:
    spectrum = np.fft.rfft(frames * _HANN, n=_FFT)
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    found: Array = np.log(power @ _FILTERS + _FLOOR)
    return found


def _mel_filters() -> Array:
    """Triangles of equal width in mel, (257, 80)."""
    top = 2595 * np.log10(1 + _RATE_HZ / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, _BANDS + 2) / 2595) - 1)
    bins = np.linspace(0, _RATE_HZ / 2, _FFT // 2 + 1)[:, None]
    low, peak, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - low) / (peak - low), (high - bins) / (high - peak)
    return np.maximum(0, np.minimum(rising, falling))


# Periodic, as a transform takes it.
_HANN: Final = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)
_FILTERS: Final = _mel_filters()
