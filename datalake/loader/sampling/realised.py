"""The mix that a stream really gave, beside the one asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Picks

__all__ = ["Labelled", "Realised", "Share"]


@runtime_checkable
class Labelled(Protocol):
    """A sampler that knows which shares it aims at; all of this package do."""

    def shares(self) -> Mapping[str, float]:
        """The share that each part or domain is to have."""
        ...

    def label_of(self, picks: Picks) -> Indices:
        """Which of `shares` each pick counts to, (n,)."""
        ...


@dataclass(frozen=True)
class Share:
    """What a part or domain was to have and had."""

    asked: float
    realised: float
    num_examples: int


class Realised:
    """Counts picks by part or domain. One thread uses it."""

    def __init__(self, sampler: Labelled) -> None:
        self._sampler = sampler
        self._asked = dict(sampler.shares())
        self._counts = np.zeros(len(self._asked), np.int64)

    def observe(self, picks: Picks) -> None:
        """Count some picks."""
        labels = self._sampler.label_of(picks)
        self._counts += np.bincount(labels, minlength=len(self._counts))

    def shares(self) -> dict[str, Share]:
        """All parts or domains."""
        total = max(int(self._counts.sum()), 1)
        return {
            name: Share(asked, count / total, count)
            for (name, asked), count in zip(self._asked.items(), self._counts.tolist(), strict=True)
        }
