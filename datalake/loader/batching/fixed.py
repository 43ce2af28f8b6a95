"""`Fixed`: batches of a fixed count. Closed form: any step costs the same, whatever came before.

The ranks move through the epoch together. A step that begins at position p covers the next
`world_size * batch_size` positions, of which rank r takes the r-th run of `batch_size`. So after s
steps exactly the positions below p + s * world_size * batch_size are consumed, whoever read them:
any other number of ranks, workers or examples a batch can go on from there.

What is left at the end of the epoch, less than one global batch, is shared out as evenly as it
goes, and all ranks make equally many steps, by one of three policies (`Tail`):

    drop   it is left out
    pad    batches are filled up with repeats from the epoch's beginning, marked `is_pad`
    short  batches have ceil(left / world_size) examples; at most one a rank is a marked repeat
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, get_args

import numpy as np

from datalake.loader.batching.batching import Place, Share, Tail
from datalake.loader.batching.checks import check_choice, check_rank, check_whole
from datalake.loader.batching.taken import folded, left_of, resumed
from datalake.loader.batching.windows import check_place
from datalake.loader.order.order import Indices
from datalake.loader.sampling.sampler import Sampler

__all__ = ["Fixed"]

_MOST: Final = 2**31 - 1


@dataclass(frozen=True)
class Fixed:
    """A `Batching` by count.

    Raises:
        InputError: the batch size is out of range, or `tail` is unknown.
    """

    batch_size: int = 64
    """Examples a rank and step."""
    tail: Tail = "pad"

    def __post_init__(self) -> None:
        check_whole("batch size", self.batch_size, 1, _MOST)
        check_choice("tail policy", self.tail, get_args(Tail))

    def num_steps(self, sampler: Sampler, place: Place, world_size: int) -> int | None:
        """Steps of every rank from a place to the epoch's end."""
        return self._stretch(sampler, place, world_size).num_steps

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
            InputError: as `Batching.shares`.
        """
        check_rank(rank, world_size)
        stretch = self._stretch(sampler, place, world_size)
        for step in range(worker, stretch.num_steps, num_workers):
            yield stretch.share(step, rank)

    def _stretch(self, sampler: Sampler, place: Place, world_size: int) -> _Stretch:
        check_place(place, sampler)
        own = {"by": "fixed", "batch_size": self.batch_size, "world_size": world_size}
        base, done = resumed(place, own) or (place, 0)
        left = left_of(sampler, base)
        return _Stretch(
            folded(base, left), own, left, done, sampler.num_examples, self.batch_size, self.tail
        )


@dataclass(frozen=True)
class _Stretch:
    """What is left of a window, and all that follows it, shared out by count."""

    base: Place
    own: dict[str, Any]
    """The record of this run, without `steps` and `stop`."""
    left: Indices
    """Of the window that batches by cost had begun; mostly none."""
    done: int
    """Steps that are done since `base`."""
    num_examples: int
    """An epoch."""
    batch_size: int
    tail: Tail

    @property
    def global_batch_size(self) -> int:
        """Positions that a full step of all ranks consumes."""
        return self.batch_size * int(self.own["world_size"])

    @property
    def total(self) -> int:
        """Positions from `base` on."""
        return len(self.left) + self.num_examples - self.base.frontier

    @property
    def num_steps(self) -> int:
        """Steps of every rank from where it stands to the epoch's end."""
        full, rest = divmod(
            max(self.total - self.done * self.global_batch_size, 0), self.global_batch_size
        )
        return full + (rest > 0 and self.tail != "drop")

    def share(self, step: int, rank: int) -> Share:
        """A rank's positions at a step, where step 0 is the first that is not done."""
        world_size = self.own["world_size"]
        begin = (self.done + step) * self.global_batch_size
        num_new = min(self.global_batch_size, self.total - begin)
        size = -(-num_new // world_size) if self.tail == "short" else self.batch_size
        # Contiguous, so that one rank's rows lie together in a sequential order.
        first = num_new * rank // world_size
        own = self._positions(begin + first, begin + num_new * (rank + 1) // world_size)
        after = self._after(step + 1, begin + num_new)
        if len(own) == size:
            return Share(own, np.zeros(size, np.bool_), after)
        # Repeats are numbered through all ranks, so that no two ranks repeat the same example as
        # long as there are others.
        first_repeat = rank * size - first
        repeats = np.arange(first_repeat, first_repeat + size - len(own)) % self.num_examples
        return Share(np.concatenate([own, repeats]), np.arange(size) >= len(own), after)

    def _positions(self, start: int, stop: int) -> Indices:
        """The start-th to the stop-th of all that is left from `base` on."""
        ahead = self.base.frontier - len(self.left)
        if start >= len(self.left):
            return np.arange(start + ahead, stop + ahead)
        fresh = np.arange(self.base.frontier, stop + ahead)
        return np.concatenate([self.left[start:stop], fresh])

    def _after(self, num_steps: int, consumed: int) -> Place:
        if consumed >= len(self.left):
            return Place(self.base.epoch, self.base.frontier + consumed - len(self.left))
        record = {**self.own, "steps": self.done + num_steps, "stop": self.base.frontier}
        return Place(self.base.epoch, self.base.position, (*self.base.taken, record))
