"""A light convolutional network with max-feature-map activations (LCNN).

Paper: Wu et al., "A light CNN for deep face representation with noisy labels" (2018), whose audio
form serves as an ASVspoof baseline. The widths here are ours: small, so that a CPU trains it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from curation.probe.latent_network import LatentNetwork

__all__ = ["LightCnn", "MaxFeatureMap"]


class MaxFeatureMap(nn.Module):
    """Halves the channels: the larger of channel k and channel k + half, element by element."""

    def forward(self, values: Tensor) -> Tensor:
        """(batch, 2 * channels, ...) to (batch, channels, ...)."""
        left, right = values.chunk(2, dim=1)
        # The maximum, written so that its gradient costs a third of torch.maximum's on a CPU.
        return right + torch.relu(left - right)


class LightCnn(LatentNetwork):
    """Features to one score an utterance; 60,809 parameters at the default width.

    Coefficients are standardised by a batch norm first. A stride and three poolings halve both axes
    four times; what is left is described by its mean and standard deviation over time, so any
    number of frames from 16 on will do.
    """

    def __init__(self, num_coefficients: int = 60, width: int = 16) -> None:
        super().__init__()
        half = width // 2
        self.latent_size = 2 * width
        self.standardise = nn.BatchNorm1d(num_coefficients)
        self.layers = nn.Sequential(
            *_convolution(1, width, 5, stride=2),
            *_convolution(width, width, 1),
            nn.BatchNorm2d(width),
            *_convolution(width, width + half, 3),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(width + half),
            *_convolution(width + half, width + half, 1),
            nn.BatchNorm2d(width + half),
            *_convolution(width + half, 2 * width, 3),
            nn.MaxPool2d(2),
            *_convolution(2 * width, 2 * width, 1),
            nn.BatchNorm2d(2 * width),
            *_convolution(2 * width, width + half, 3),
            nn.BatchNorm2d(width + half),
            *_convolution(width + half, width + half, 1),
            nn.BatchNorm2d(width + half),
            *_convolution(width + half, width + half, 3),
            nn.MaxPool2d(2),
        )
        described = 2 * (width + half) * (num_coefficients // 16)
        self.head = nn.Sequential(
            nn.Dropout(0.3),
            nn.Linear(described, 4 * width),
            MaxFeatureMap(),
            nn.BatchNorm1d(2 * width),
            nn.Linear(2 * width, 1),
        )

    def embed(self, features: Tensor) -> Tensor:
        """Latent vectors (batch, 2 * width) of features (batch, num_coefficients, num_frames)."""
        maps = self.layers(self.standardise(features).unsqueeze(1)).flatten(1, 2)
        description = torch.cat([maps.mean(2), maps.std(2, correction=0)], dim=1)
        latents: Tensor = self.head[:-1](description)
        return latents

    def classify(self, latents: Tensor) -> Tensor:
        """Scores (batch,) of latent vectors."""
        scores: Tensor = self.head[-1](latents).squeeze(1)
        return scores


def _convolution(
    inputs: int, outputs: int, size: int, *, stride: int = 1
) -> tuple[nn.Module, nn.Module]:
    return (
        nn.Conv2d(inputs, 2 * outputs, size, stride=stride, padding=size // 2),
        MaxFeatureMap(),
    )
