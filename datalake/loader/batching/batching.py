"""How an epoch's positions become batches on ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler

__all__ = ["Batching", "Place", "Share", "Tail"]

Tail: TypeAlias = Literal["drop", "pad", "short"]


@dataclass(frozen=True)
class Place:
    """Where all ranks together stand in an epoch: all before `position` is consumed, and of the
    window that begins there what `taken` says. Plain data, the same on every rank."""

    epoch: int
    position: int
    taken: tuple[Mapping[str, Any], ...] = ()
    """For batches by cost: how the window was cut up and how many steps of it are done, one entry
    a run of the trainer that worked on it; see `datalake.loader.batching.taken`."""

    @property
    def frontier(self) -> int:
        """From this position on nothing is consumed or cut up yet: the window's end."""
        return int(self.taken[-1]["stop"]) if self.taken else self.position


@dataclass(frozen=True)
class Share:
    """What one rank reads at one step."""

    positions: Indices
    """Positions of the epoch, (examples,)."""
    is_pad: npt.NDArray[np.bool_]
    """Which of them repeat an example of this epoch, (examples,)."""
    after: Place
    """Where all ranks stand after the step."""
    sequences: Indices | None = None
    """For packed batches: which sequence of the batch each example goes to, (examples,)."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """More for the batch; see `Packed`."""
    capacity: int = 0
    """For packed batches: what all its sequences together can hold."""


class Batching(Protocol):
    """A way to make batches. Stateless, thread-safe, picklable."""

    def num_steps(self, sampler: Sampler, place: Place, world_size: int) -> int | None:
        """Steps of every rank from a place to the epoch's end; None if it takes a pass to know."""
        ...

    def shares(
        self,
        sampler: Sampler,
        place: Place,
        rank: int,
        world_size: int,
        *,
        worker: int = 0,
        num_workers: int = 1,
    ) -> Iterator[Share]:
        """This rank's steps from a place to the epoch's end, in order. All ranks make equally many.

        Args:
            sampler: what stands at the positions.
            place: where to begin; any batching goes on from a place that any other left.
            rank: which of the ranks.
            world_size: how many ranks there are.
            worker: of this rank's steps only every `num_workers`-th, from this one on; those left
                out cost next to nothing.
            num_workers: how many workers share the rank's steps.

        Raises:
            InputError: the rank lies outside of the world, or the place fits no epoch of this
                sampler.
        """
        ...
