"""What a detector is, and how a design of one becomes trainable.

A `Design` names a front end (fixed, its features are kept) and a network (trained). Designs are
found by the entry point group `datalake.detectors`, the built-in ones included. Anything that
scores waveforms is a `Detector` and can be evaluated, however it came about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from curation.embed.lfcc import Lfcc
from curation.probe.aasist import AASIST_PAPER, Aasist
from curation.probe.embedding_mlp import EmbeddingMlp
from curation.probe.lcnn import LightCnn
from curation.probe.prototypes import PrototypeNetwork
from datalake import plugins
from datalake.errors import ConfigError

__all__ = [
    "AASIST",
    "AASIST_LARGE",
    "EMBEDDING_MLP",
    "LFCC_LCNN",
    "Design",
    "Detector",
    "NeuralDetector",
    "choose_device",
    "load_design",
]

_GROUP: Final = "datalake.detectors"


@runtime_checkable
class Detector(Protocol):
    """Scores utterances; high is bona fide. Deterministic, and a row's score is its own affair."""

    name: str
    sample_rate_hz: int

    def score(self, waveforms: Tensor) -> Tensor:
        """Scores (batch,) of mono waveforms (batch, num_samples), full scale 1."""
        ...


@dataclass(frozen=True)
class Design:
    """How to build a detector. Stateless; `name` is its entry point's name."""

    name: str
    front_end: Callable[[], nn.Module]
    """Makes the module from waveforms (batch, num_samples) to features (batch, ...). It has nothing
    to learn and treats every row alone."""
    network: Callable[[], nn.Module]
    """Makes the module from features to scores (batch,)."""
    sample_rate_hz: int = 16_000
    column: str | None = None
    """The column of vectors that is read instead of audio. The front end gets those."""
    num_spoof_prototypes: int = 0
    """Above 0 so many prototypes of spoofs, and one of bona fide speech, take the classifier's
    place; the network must be a `LatentNetwork`."""

    def reading(self, column: str) -> Design:
        """The same on the vectors of another column.

        Raises:
            ConfigError: the design hears audio.
        """
        if self.column is None:
            raise ConfigError(
                f"The detector {self.name} hears audio and reads no embedding",
                found=f"the column {column}",
                fix="Use --detector embedding_mlp, or leave --embedding out",
            )
        return replace(self, column=column)

    def build(self) -> NeuralDetector:
        """A detector with fresh weights, drawn from torch's global generator.

        Raises:
            InputError: prototypes are asked of a network without latent vectors.
        """
        network = self.network()
        if self.num_spoof_prototypes:
            network = PrototypeNetwork(network, self.num_spoof_prototypes)
        return NeuralDetector(
            self.name,
            self.sample_rate_hz,
            self.front_end(),
            network,
            column=self.column,
            num_spoof_prototypes=self.num_spoof_prototypes,
        )


class NeuralDetector(nn.Module):
    """A front end followed by a network; the `Detector` that training makes.

    One whose design reads a column takes the column's vectors (batch, size) for waveforms.
    """

    def __init__(
        self,
        name: str,
        sample_rate_hz: int,
        front_end: nn.Module,
        network: nn.Module,
        *,
        column: str | None = None,
        num_spoof_prototypes: int = 0,
    ) -> None:
        super().__init__()
        self.name = name
        self.sample_rate_hz = sample_rate_hz
        self.front_end = front_end
        self.network = network
        self.column = column
        self.num_spoof_prototypes = num_spoof_prototypes

    @property
    def num_parameters(self) -> int:
        """Learned numbers of the network."""
        return sum(each.numel() for each in self.network.parameters())

    def forward(self, waveforms: Tensor) -> Tensor:
        """Scores (batch,) of waveforms (batch, num_samples)."""
        scores: Tensor = self.network(self.front_end(waveforms))
        return scores

    @torch.no_grad()
    def score(self, waveforms: Tensor) -> Tensor:
        """Scores (batch,) of waveforms (batch, num_samples), in evaluation mode."""
        self.eval()
        scores: Tensor = self(waveforms)
        return scores


LFCC_LCNN: Final = Design("lfcc_lcnn", Lfcc, LightCnn)
"""LFCC with differences, and a light CNN: the default."""

EMBEDDING_MLP: Final = Design("embedding_mlp", nn.Identity, EmbeddingMlp, column="lfcc_stats")
"""A multilayer perceptron on an embedding; `reading` names another column than `lfcc_stats`."""

AASIST: Final = Design("aasist", nn.Identity, Aasist)
"""Spectro-temporal graph attention on the raw waveform, in a size that a CPU trains."""

AASIST_LARGE: Final = Design("aasist_large", nn.Identity, partial(Aasist, AASIST_PAPER))
"""The same in the paper's size, for a GPU."""


def load_design(name: str) -> Design:
    """The design of that name.

    Raises:
        NotFoundError: no installed package has it.
        ConfigError: what the entry point names is no design.
    """
    found = plugins.load(_GROUP, name)
    if not isinstance(found, Design):
        raise ConfigError(
            f"The plug-in {name} is no detector design",
            where=_GROUP,
            expected="an instance of curation.probe.Design",
            found=type(found).__name__,
        )
    return found


def choose_device(name: str) -> torch.device:
    """The device for `auto` (CUDA where there is one), `cpu`, `cuda` or `cuda:N`.

    Raises:
        ConfigError: there is no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(
            f"The device {name} is not known", expected="auto, cpu, cuda or cuda:N"
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"There is no device {name} here",
            found=f"{torch.cuda.device_count()} CUDA devices",
            fix="Use --device auto or --device cpu",
        )
    return device
