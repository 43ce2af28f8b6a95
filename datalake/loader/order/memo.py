"""Positions are asked for a few at a time; numpy wants thousands: the last chunks are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from datalake.loader.order.order import Indices

__all__ = ["CHUNK", "Memo"]

CHUNK: Final = 4096
"""Positions a chunk: 32 KB."""
NUM_KEPT: Final = 4


class Memo:
    """The last chunks of a pure function of the position. Thread-safe; a copy starts empty.

    A call of numpy costs as much as some thousand elements of it, and an index map takes hundreds
    of calls, so that a batch of 64 costs no less than a chunk.
    """

    def __init__(self) -> None:
        # Replaced as a whole and never changed, so that threads need no lock.
        self._kept: tuple[tuple[int, Indices], ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Memo, ()

    def __call__(
        self, positions: Indices, stop: int, compute: Callable[[Indices], Indices]
    ) -> Indices:
        """What `compute` gives for positions in range(stop), of any shape.

        `compute` takes positions (n,) and gives (n,) or (k, n).
        """
        first = int(positions.min()) // CHUNK if positions.size else 0
        last = int(positions.max()) // CHUNK if positions.size else 2
        if positions.size >= CHUNK or last > first + 1:
            found = compute(positions.ravel())
            return found.reshape(*found.shape[:-1], *positions.shape)
        chunk = self._chunk(first, stop, compute)
        if last > first:
            chunk = np.concatenate([chunk, self._chunk(last, stop, compute)], axis=-1)
        return chunk[..., positions - first * CHUNK]

    def _chunk(self, index: int, stop: int, compute: Callable[[Indices], Indices]) -> Indices:
        for number, chunk in self._kept:
            if number == index:
                return chunk
        chunk = compute(np.arange(index * CHUNK, min((index + 1) * CHUNK, stop)))
        self._kept = ((index, chunk), *self._kept[: NUM_KEPT - 1])
        return chunk
