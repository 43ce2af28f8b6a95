"""What a detector is, and how a design of one becomes trainable.

A `Design` names a front end (fixed, its features are kept) and a network (trained). Designs are
found by the entry point group `datalake.detectors`, the built-in one included. Anything that scores
waveforms is a `Detector` and can be evaluated, however it came about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from curation.probe.lcnn import LightCnn
from curation.probe.lfcc import Lfcc
from datalake import plugins
from datalake.errors import ConfigError

__all__ = ["LFCC_LCNN", "Design", "Detector", "NeuralDetector", "choose_device", "load_design"]

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

    def build(self) -> NeuralDetector:
        """A detector with fresh weights, drawn from torch's global generator."""
        return NeuralDetector(self.name, self.sample_rate_hz, self.front_end(), self.network())


class NeuralDetector(nn.Module):
    """A front end followed by a network; the `Detector` that training makes."""

    def __init__(
        self, name: str, sample_rate_hz: int, front_end: nn.Module, network: nn.Module
    ) -> None:
        super().__init__()
        self.name = name
        self.sample_rate_hz = sample_rate_hz
        self.front_end = front_end
        self.network = network

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
"""The built-in design: LFCC with differences, and a light CNN."""


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
