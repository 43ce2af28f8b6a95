"""Which example of which source stands at a position: a pure function, whatever is mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.loader.order.order import Indices
from datalake.loader.sources.source import Source

__all__ = ["Picks", "Plain", "Sampler"]

Plain: TypeAlias = Mapping[str, Any]
"""Plain data that JSON can hold."""


@dataclass(frozen=True)
class Picks:
    """What stands at some positions. All arrays are (n,)."""

    sources: npt.NDArray[np.int64]
    """Which source of `Sampler.sources`."""
    rows: Indices
    """The row in that source."""
    visits: Indices
    """How often that example had come before in the stream's life: the epoch, without mixtures.
    Seeds crops and augmentation, so that a repeat within an epoch is cropped elsewhere."""
    weights: npt.NDArray[np.float32]
    """The selection's weight, for the loss; 1 without one."""


class Sampler(Protocol):
    """Positions to examples, over one source or many. Stateless, thread-safe, picklable.

    Positions of an epoch run from 0 to `num_examples`. Nothing of it depends on ranks, workers or
    batches.
    """

    @property
    def sources(self) -> Sequence[Source]:
        """What is read."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """What each source is called; of the same length."""
        ...

    @property
    def num_examples(self) -> int:
        """Positions an epoch."""
        ...

    def reach(self) -> Sequence[tuple[Source, Indices | None]]:
        """Of each source, the rows that may ever come, in any order; None for all of them."""
        ...

    def view(self) -> Sampler:
        """The same stream with views of its sources; see `Source.view`."""
        ...

    def identity(self) -> Plain:
        """What gives a position its meaning. Equal identities, equal streams."""
        ...

    def picks(self, epoch: int, positions: Indices) -> Picks:
        """What stands at positions of an epoch; about a microsecond each or less."""
        ...

    def progress(self, epoch: int, position: int) -> Plain:
        """What a state must keep beside the position so that weights may change at a resume."""
        ...

    def resumed(self, epoch: int, position: int, progress: Plain) -> Sampler:
        """This sampler, going on at a position where one with other weights stood."""
        ...
