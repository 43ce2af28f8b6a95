"""Windows of an epoch, one after the other, each planned and shared out to the ranks.

A window begins where the one before ended and is some `window` positions long, cut where its
batches fill whole steps of all ranks. A run that goes on in the midst of another's window first
makes its own plan of what is left of it, filled up to a multiple of its ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from datalake.errors import InputError
from datalake.loader.batching.batching import Place, Share
from datalake.loader.batching.checks import LARGEST_WINDOW, check_rank
from datalake.loader.batching.costs import costs_of
from datalake.loader.batching.cutter import Cutter
from datalake.loader.batching.plan import Plan, plan, whole_steps
from datalake.loader.batching.taken import (
    Record,
    checked_steps,
    folded,
    left_of,
    planned,
    resumed,
)
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler

__all__ = ["Windowed", "check_place", "windowed_shares"]

# A step of all ranks that takes more than that gets smaller batches instead.
_FURTHEST: Final = 4 * LARGEST_WINDOW


@dataclass(frozen=True)
class _Window:
    base: Place
    """What earlier runs took."""
    own: Record
    """The record of this run, without `steps` and `stop`."""
    plan: Plan
    stop: int
    begin: int = 0
    """Steps that are done."""

    def after(self, num_steps: int) -> Place:
        """Where all ranks stand after so many steps."""
        if num_steps == self.plan.num_steps and not len(self.plan.dropped):
            return Place(self.base.epoch, self.stop)
        record = {**self.own, "steps": num_steps, "stop": self.stop}
        return replace(self.base, taken=(*self.base.taken, record))


def windowed_shares(
    cutter: Cutter,
    window: int,
    sampler: Sampler,
    place: Place,
    rank: int,
    world_size: int,
    *,
    worker: int,
    num_workers: int,
) -> Iterator[Share]:
    """The steps of a rank (of them a worker's) from a place to the epoch's end."""
    check_rank(rank, world_size)
    check_place(place, sampler)
    turn = 0
    while place.position < sampler.num_examples:
        opened = _open(cutter, window, sampler, place, world_size)
        for step in range(opened.begin, opened.plan.num_steps):
            if turn % num_workers == worker:
                yield opened.plan.share(step, rank, opened.after(step + 1))
            turn += 1
        if len(opened.plan.dropped):
            return
        place = Place(place.epoch, opened.stop)


class Windowed(ABC):
    """A `Batching` that cuts windows of positions up: all of it but the cutter."""

    window: int

    @abstractmethod
    def _cutter(self) -> Cutter:
        """What cuts a window; made of the fields."""

    def num_steps(self, sampler: Sampler, place: Place, world_size: int) -> int | None:  # noqa: ARG002
        """None: it takes a pass over all lengths to know."""
        return None

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
        """This rank's steps; see `Batching`.

        Raises:
            InputError: as `Batching.shares`, or a cost is not known or refused.
        """
        return windowed_shares(
            self._cutter(),
            self.window,
            sampler,
            place,
            rank,
            world_size,
            worker=worker,
            num_workers=num_workers,
        )


def check_place(place: Place, sampler: Sampler) -> None:
    """See that a place lies in an epoch of this sampler.

    Raises:
        InputError: it does not.
    """
    if not 0 <= place.position <= place.frontier <= sampler.num_examples:
        raise InputError(
            "The place lies outside of the epoch",
            expected=f"positions from 0 to {sampler.num_examples:,}",
            found=f"{place.position:,}, and a window that ends at {place.frontier:,}",
        )


def _open(cutter: Cutter, window: int, sampler: Sampler, place: Place, world_size: int) -> _Window:
    own = {**cutter.record(), "world_size": world_size}
    continued = resumed(place, own)
    if continued is not None:
        base, begin = continued
        left, stop = left_of(sampler, base), place.frontier
        positions = np.concatenate([left, np.arange(base.frontier, stop)])
        made = planned(cutter, sampler, place.epoch, positions, world_size)
        return _Window(base, own, made, stop, checked_steps(made, begin))
    left = left_of(sampler, place)
    if not len(left):
        return _fresh(cutter, window, sampler, Place(place.epoch, place.frontier), own, world_size)
    # Every rank needs an example at each step.
    stop = min(place.frontier + -len(left) % world_size, sampler.num_examples)
    positions = np.concatenate([left, np.arange(place.frontier, stop)])
    made = planned(cutter, sampler, place.epoch, positions, world_size)
    return _Window(folded(place, left), own, made, stop)


def _fresh(
    cutter: Cutter, window: int, sampler: Sampler, base: Place, own: Record, world_size: int
) -> _Window:
    """A window that nobody has worked on."""

    def weigh(positions: Indices) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return costs_of(
            sampler, base.epoch, positions, cutter.unit, cutter.most, cutter.unknown_cost
        )

    begin, stop, costs = base.position, base.position, np.empty(0, np.float64)
    wanted = window
    while True:
        further = min(begin + wanted, sampler.num_examples)
        costs = np.concatenate([costs, weigh(np.arange(stop, further))])
        stop = further
        if stop == sampler.num_examples:
            break
        if length := whole_steps(cutter, costs, world_size):
            stop = begin + length
            break
        if wanted >= _FURTHEST:
            stop = begin + len(costs) // world_size * world_size
            break
        # Less than a step of all ranks: look further.
        wanted *= 2
    positions = np.arange(begin, stop)
    costs = costs[: stop - begin]
    made = plan(cutter, positions, costs, world_size, epoch=base.epoch, weigh=weigh)
    return _Window(base, own, made, stop)
