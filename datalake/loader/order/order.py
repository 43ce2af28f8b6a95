"""Which example stands at which global position of an epoch.

An order is a bijection of range(num_examples) that needs no array as long as the table and no
stream of random numbers: any position can be asked for at any time, so that resuming is nothing
but going on to count. It depends on neither ranks nor workers nor the batch size.

Every strategy has a name of its own, with its revision; the name is part of every saved state.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["Indices", "Order", "inside"]

Indices: TypeAlias = npt.NDArray[np.int64]


class Order(Protocol):
    """A bijection of range(num_examples). Stateless, thread-safe, picklable."""

    @property
    def name(self) -> str:
        """The strategy, its revision and its parameters. Two orders of one name, size, seed and
        epoch are equal."""
        ...

    @property
    def num_examples(self) -> int:
        """Examples an epoch."""
        ...

    def examples(self, positions: Indices) -> Indices:
        """The example at each position; same shape.

        Raises:
            InputError: a position is not in range(num_examples).
        """
        ...

    def positions(self, examples: Indices) -> Indices:
        """Where each example stands: the inverse of `examples`; same shape.

        Raises:
            InputError: an example is not in range(num_examples).
        """
        ...


def inside(numbers: Indices, stop: int, what: str = "position") -> Indices:
    """The numbers as int64, all of them in range(stop).

    Raises:
        InputError: one is not.
    """
    array = np.asarray(numbers, dtype=np.int64)
    if array.size and (array.min() < 0 or array.max() >= stop):
        raise InputError(
            f"{'An' if what[0] in 'aeiou' else 'A'} {what} lies outside of the epoch",
            expected=f"{what}s from 0 to {stop - 1}",
            found=f"{array.min()} to {array.max()}",
        )
    return array
