"""AASIST: a network on raw waveforms that joins spectral and temporal graphs.

Paper: Jung et al., "AASIST: audio anti-spoofing using integrated spectro-temporal graph attention
networks" (ICASSP 2022, arXiv 2110.01200). Code: ours, with the numbers of the paper's public
configuration (MIT). Fixed sinc filters on the mel scale, a residual encoder, graph attention over
frequency and over time, two branches of heterogeneous attention with a stack node each, and their
maximum (max graph operation) read out by maxima and means.

Two departures. A block's first activation is used, where the public code computes it and then goes
on from what was before. And the scores are one logit, where the paper has a softmax over two: the
same function, of 161 parameters less.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import conv1d, max_pool2d

from curation.probe.graph_attention import GraphAttention, GraphPooling, HeterogeneousAttention
from curation.probe.latent_network import LatentNetwork

__all__ = ["AASIST_PAPER", "AASIST_SMALL", "Aasist", "AasistSettings"]


@dataclass(frozen=True)
class AasistSettings:
    """The network's numbers."""

    sample_rate_hz: int = 16_000
    num_filters: int = 70
    filter_samples: int = 129
    stride_samples: int = 1
    """Between outputs of the sinc filters."""
    pooled_frames: int = 3
    """Filter outputs that the first pooling joins in time, beside three filters in frequency."""
    channels: tuple[int, ...] = (32, 32, 64, 64, 64, 64)
    """Of the residual blocks; each pools three frames into one."""
    graph_features: int = 64
    joint_features: int = 32


AASIST_PAPER: Final = AasistSettings()
"""As in the paper: 297,705 parameters. A GPU is wanted."""

AASIST_SMALL: Final = AasistSettings(
    stride_samples=8,
    pooled_frames=4,
    channels=(12, 12, 16, 16),
    graph_features=24,
    joint_features=24,
)
"""Ours: 32,425 parameters and far fewer operations, so that a CPU trains it: 4 s of audio, forward
and back, take some 40 ms of one core. Clips must have 3,000 samples or more."""


class Aasist(LatentNetwork):
    """Waveforms to one score an utterance; small by default."""

    def __init__(self, settings: AasistSettings = AASIST_SMALL) -> None:
        super().__init__()
        self.settings = settings
        features, joint = settings.graph_features, settings.joint_features
        self.latent_size = 5 * joint
        self.register_buffer("_filters", _sinc_filters(settings), persistent=False)
        # Filtered speech is so faint that a decaying average would take a hundred steps to forget
        # the variance of 1 it begins with; an average over all steps knows it from the first.
        self.standardise = nn.BatchNorm2d(1, momentum=None)
        widths = (1, *settings.channels)
        self.encoder = nn.Sequential(
            *(
                _ResidualBlock(inputs, outputs, is_first=number == 0)
                for number, (inputs, outputs) in enumerate(pairwise(widths))
            )
        )
        num_spectral = settings.num_filters // 3
        self.positions = nn.Parameter(torch.randn(1, num_spectral, widths[-1]))
        self.spectral = GraphAttention(widths[-1], features, temperature=2.0)
        self.temporal = GraphAttention(widths[-1], features, temperature=2.0)
        self.spectral_pooling = GraphPooling(features, 0.5)
        self.temporal_pooling = GraphPooling(features, 0.5)
        self.branches = nn.ModuleList(_Branch(features, joint) for _ in range(2))
        self.branch_dropout = nn.Dropout(0.2)
        self.dropout = nn.Dropout(0.5)
        self.classifier = nn.Linear(self.latent_size, 1)

    def embed(self, features: Tensor) -> Tensor:
        """Latent vectors (batch, 5 * joint_features) of waveforms (batch, num_samples)."""
        numbers = self.settings
        heard = conv1d(
            features[:, None], cast("Tensor", self._filters), stride=numbers.stride_samples
        )
        maps = max_pool2d(heard.abs()[:, None], (3, numbers.pooled_frames))
        # (batch, channels, num_spectral, num_frames)
        maps = self.encoder(torch.selu(self.standardise(maps))).abs()
        spectral = self.spectral(maps.amax(3).transpose(1, 2) + self.positions)
        temporal = self.temporal(maps.amax(2).transpose(1, 2))
        spectral, temporal = self.spectral_pooling(spectral), self.temporal_pooling(temporal)
        found = [branch(temporal, spectral) for branch in self.branches]
        # The max graph operation: what either branch found, node by node.
        temporal, spectral, stack = (
            torch.maximum(self.branch_dropout(one), self.branch_dropout(other))
            for one, other in zip(*found, strict=True)
        )
        read = [
            *(temporal.abs().amax(1), temporal.mean(1)),
            *(spectral.abs().amax(1), spectral.mean(1)),
            stack.squeeze(1),
        ]
        latents: Tensor = self.dropout(torch.cat(read, dim=1))
        return latents

    def classify(self, latents: Tensor) -> Tensor:
        """Scores (batch,) of latent vectors."""
        scores: Tensor = self.classifier(latents).squeeze(1)
        return scores


class _Branch(nn.Module):
    """Two layers of heterogeneous attention, the second added to the first."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.stack = nn.Parameter(torch.randn(1, 1, inputs))
        self.first = HeterogeneousAttention(inputs, outputs, temperature=100.0)
        self.second = HeterogeneousAttention(outputs, outputs, temperature=100.0)
        self.temporal_pooling = GraphPooling(outputs, 0.5)
        self.spectral_pooling = GraphPooling(outputs, 0.5)

    def forward(self, temporal: Tensor, spectral: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        temporal, spectral, stack = self.first(temporal, spectral, self.stack)
        temporal, spectral = self.temporal_pooling(temporal), self.spectral_pooling(spectral)
        more_temporal, more_spectral, more_stack = self.second(temporal, spectral, stack)
        return temporal + more_temporal, spectral + more_spectral, stack + more_stack


class _ResidualBlock(nn.Module):
    """Two convolutions past which the input is added; three frames become one."""

    def __init__(self, inputs: int, outputs: int, *, is_first: bool) -> None:
        super().__init__()
        self.activate = (
            nn.Identity() if is_first else nn.Sequential(nn.BatchNorm2d(inputs), nn.SELU())
        )
        self.convolve = nn.Sequential(
            nn.Conv2d(inputs, outputs, (2, 3), padding=(1, 1)),
            nn.BatchNorm2d(outputs),
            nn.SELU(),
            nn.Conv2d(outputs, outputs, (2, 3), padding=(0, 1)),
        )
        self.match = (
            nn.Identity()
            if inputs == outputs
            else nn.Conv2d(inputs, outputs, (1, 3), padding=(0, 1))
        )

    def forward(self, maps: Tensor) -> Tensor:
        return max_pool2d(self.convolve(self.activate(maps)) + self.match(maps), (1, 3))


def _sinc_filters(settings: AasistSettings) -> Tensor:
    """Hamming-windowed band passes between neighbours of a mel grid: (num_filters, 1, samples)."""
    rate = settings.sample_rate_hz
    top = 2595 * torch.log10(torch.tensor(1 + rate / 2 / 700, dtype=torch.float64))
    mels = torch.linspace(0, 1, settings.num_filters + 1, dtype=torch.float64) * top
    edges = (700 * (10 ** (mels / 2595) - 1))[:, None]
    half = (settings.filter_samples - 1) / 2
    time = torch.arange(settings.filter_samples, dtype=torch.float64) - half
    low_passes = 2 * edges / rate * torch.sinc(2 * edges * time / rate)
    window = torch.hamming_window(settings.filter_samples, periodic=False, dtype=torch.float64)
    return ((low_passes[1:] - low_passes[:-1]) * window)[:, None].float()
