"""Which global positions a rank gets at each step, and which steps a worker makes.

The ranks move through the epoch together. A step that begins at global position p covers the next
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

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.loader.order.order import Indices

__all__ = ["Share", "Split", "Tail", "worker_steps"]

Tail: TypeAlias = Literal["drop", "pad", "short"]


@dataclass(frozen=True)
class Share:
    """What one rank reads at one step."""

    positions: Indices
    """Global positions, shape (examples,)."""
    is_pad: npt.NDArray[np.bool_]
    """Which of them repeat an example of this epoch, shape (examples,)."""
    end: int
    """The global position that all ranks together have reached after the step."""


@dataclass(frozen=True)
class Split:
    """How the positions of an epoch are shared out. Pure, picklable, constant memory.

    Batches are a fixed count of examples. Batches by seconds or tokens would be another class with
    `num_steps` and `share`.

    Raises:
        InputError: a number is out of range, or `tail` is unknown.
    """

    num_examples: int
    batch_size: int
    """Examples a rank and step."""
    rank: int = 0
    world_size: int = 1
    tail: Tail = "pad"

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(
                "The batch size is too small", expected="1 or more", found=str(self.batch_size)
            )
        if not 0 <= self.rank < self.world_size:
            raise InputError(
                "The rank lies outside of the world",
                expected="0 <= rank < world_size",
                found=f"rank {self.rank}, world_size {self.world_size}",
            )
        if self.tail not in get_args(Tail):
            raise InputError(
                "The tail policy is unknown", expected="drop, pad or short", found=self.tail
            )

    @property
    def global_batch_size(self) -> int:
        """Positions that a full step of all ranks consumes."""
        return self.batch_size * self.world_size

    def num_steps(self, start: int = 0) -> int:
        """Steps of every rank from a global position to the end of the epoch."""
        left = max(self.num_examples - start, 0)
        full, rest = divmod(left, self.global_batch_size)
        return full + (rest > 0 and self.tail != "drop")

    def share(self, step: int, start: int = 0) -> Share:
        """This rank's positions at a step, where step 0 begins at global position `start`."""
        begin = start + step * self.global_batch_size
        num_new = min(self.global_batch_size, self.num_examples - begin)
        size = -(-num_new // self.world_size) if self.tail == "short" else self.batch_size
        # Contiguous, so that one rank's rows lie together in a sequential order.
        first = num_new * self.rank // self.world_size
        own = np.arange(first, num_new * (self.rank + 1) // self.world_size) + begin
        # Repeats are numbered through all ranks, so that no two ranks repeat the same example as
        # long as there are others.
        first_repeat = self.rank * size - first
        repeats = np.arange(first_repeat, first_repeat + size - len(own)) % self.num_examples
        return Share(
            positions=np.concatenate([own, repeats]),
            is_pad=np.arange(size) >= len(own),
            end=begin + num_new,
        )


def worker_steps(num_steps: int, worker: int, num_workers: int) -> range:
    """The steps worker `worker` makes: every `num_workers`-th.

    A torch DataLoader asks its workers in turn, so that the batches arrive in the order of steps.
    """
    return range(worker, num_steps, num_workers)
