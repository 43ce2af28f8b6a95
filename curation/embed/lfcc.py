"""Linear-frequency cepstral coefficients (LFCC), the front end of the ASVspoof baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["Lfcc", "LfccSettings"]

_FLOOR = 1e-10
"""Added to filter energies before the logarithm: digital silence stays finite."""


@dataclass(frozen=True)
class LfccSettings:
    """The front end's numbers; the defaults are the ASVspoof baselines' (paper: ASVspoof 2019)."""

    sample_rate_hz: int = 16_000
    window_samples: int = 320
    """20 ms."""
    hop_samples: int = 160
    """10 ms."""
    fft_size: int = 512
    num_filters: int = 20
    """Triangles of equal width from 0 Hz to half the sample rate, overlapping by half."""
    preemphasis: float = 0.97

    def num_frames(self, num_samples: int) -> int:
        """Whole windows in `num_samples`; nothing is padded."""
        return max(0, 1 + (num_samples - self.window_samples) // self.hop_samples)


class Lfcc(nn.Module):
    """Waveforms to LFCC with their first and second differences.

    Pre-emphasis, Hamming window, power spectrum, linear filter bank, natural logarithm, orthonormal
    DCT-II (all coefficients are kept, c0 included). A difference is half of the next frame less the
    last, the edge frames repeated. Nothing is learned and nothing depends on the rest of a batch,
    so a row's features are the same in every batch.
    """

    def __init__(self, settings: LfccSettings | None = None) -> None:
        super().__init__()
        self.settings = settings or LfccSettings()
        numbers = self.settings
        window = torch.hamming_window(numbers.window_samples, periodic=False)
        self.register_buffer("_window", window, persistent=False)
        self.register_buffer("_filters", _linear_filters(numbers), persistent=False)
        self.register_buffer("_dct", _dct_matrix(numbers.num_filters), persistent=False)

    def forward(self, waveforms: Tensor) -> Tensor:
        """Features of a batch.

        Args:
            waveforms: float (batch, num_samples), full scale 1.

        Returns:
            float (batch, 3 * num_filters, num_frames): static, first, second differences.
        """
        static = self.static(self.frames(waveforms))
        first = _difference(static)
        return torch.cat([static, first, _difference(first)], dim=1)

    def in_pieces(self, waveform: Tensor, num_frames: int) -> Tensor:
        """What `forward` gives for one waveform of any length, in little memory.

        The same up to rounding. The features and spectra of `num_frames` frames are in memory.

        Args:
            waveform: float (num_samples,), full scale 1.
            num_frames: how many frames are transformed at once.

        Returns:
            float (3 * num_filters, num_frames of the waveform).
        """
        frames = self.frames(waveform[None])
        static = torch.cat(
            [self.static(part) for part in torch.split(frames, num_frames, 1)], dim=2
        )
        first = _difference(static)
        return torch.cat([static, first, _difference(first)], dim=1)[0]

    def frames(self, waveforms: Tensor) -> Tensor:
        """Emphasised windows, (batch, num_frames, window_samples), each sample in memory once."""
        numbers = self.settings
        emphasised = torch.cat(
            [waveforms[:, :1], waveforms[:, 1:] - numbers.preemphasis * waveforms[:, :-1]], dim=1
        )
        return emphasised.unfold(1, numbers.window_samples, numbers.hop_samples)

    def static(self, frames: Tensor) -> Tensor:
        """The coefficients of windows, (batch, num_filters, num_frames), without differences."""
        spectrum = torch.fft.rfft(frames * cast("Tensor", self._window), n=self.settings.fft_size)
        power = spectrum.real.square() + spectrum.imag.square()
        energies = torch.log(power @ cast("Tensor", self._filters) + _FLOOR)
        return (energies @ cast("Tensor", self._dct)).transpose(1, 2)


def _difference(features: Tensor) -> Tensor:
    padded = torch.cat([features[..., :1], features, features[..., -1:]], dim=-1)
    return (padded[..., 2:] - padded[..., :-2]) / 2


def _linear_filters(numbers: LfccSettings) -> Tensor:
    """The filter bank: (fft_size / 2 + 1, num_filters), peaks of 1."""
    nyquist = numbers.sample_rate_hz / 2
    bins = torch.linspace(0, nyquist, numbers.fft_size // 2 + 1, dtype=torch.float64)[:, None]
    edges = torch.linspace(0, nyquist, numbers.num_filters + 2, dtype=torch.float64)
    low, peak, high = edges[:-2], edges[1:-1], edges[2:]
    return (
        torch.minimum((bins - low) / (peak - low), (high - bins) / (high - peak)).clamp(0).float()
    )


def _dct_matrix(size: int) -> Tensor:
    """Orthonormal DCT-II as a matrix to multiply from the right: (size, size)."""
    position = torch.arange(size, dtype=torch.float64)[:, None]
    order = torch.arange(size, dtype=torch.float64)
    matrix = torch.cos(math.pi / size * (position + 0.5) * order) * math.sqrt(2 / size)
    matrix[:, 0] /= math.sqrt(2)
    return matrix.float()
