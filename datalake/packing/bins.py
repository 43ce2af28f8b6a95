"""Bins: which items lie together in one sequence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Bins", "Segment"]


@dataclass(frozen=True)
class Segment:
    """A piece of an item in a bin."""

    item: int
    """The item's number in the order in which items came, from 0."""
    start: int
    """Where in the item the piece begins; 0 unless an overlong item was split."""
    length: int


@dataclass(frozen=True)
class Bins:
    """Bins one after the other, the pieces of each by item and start. 16 bytes a piece.

    A bin without pieces is padding; only rounding to a number of ranks makes such bins.
    """

    capacity: int
    items: npt.NDArray[np.int64]
    """The item that each piece is of, (pieces,)."""
    starts: npt.NDArray[np.int32]
    """Where in its item each piece begins, (pieces,)."""
    lengths: npt.NDArray[np.int32]
    """The length of each piece, (pieces,)."""
    offsets: npt.NDArray[np.int64]
    """The pieces of bin b are `offsets[b]` to `offsets[b + 1]`; (bins + 1,), from 0."""
    cut_items: npt.NDArray[np.int64]
    """Items that lost their end (`overlong="truncate"`), in order."""
    cut_lengths: npt.NDArray[np.int64]
    """How much each of them lost."""

    @classmethod
    def empty(cls, capacity: int) -> Bins:
        """No bins."""
        none = np.empty(0, np.int64)
        return cls(
            capacity,
            none,
            np.empty(0, np.int32),
            np.empty(0, np.int32),
            np.zeros(1, np.int64),
            none,
            none,
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Bins]) -> Bins:
        """The bins of all parts, in order; there must be a part."""
        if len(parts) == 1:
            return parts[0]
        ends = np.cumsum([0, *(part.num_pieces for part in parts)])
        offsets = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
        return cls(
            parts[0].capacity,
            np.concatenate([part.items for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *offsets]),
            np.concatenate([part.cut_items for part in parts]),
            np.concatenate([part.cut_lengths for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> list[Segment]:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        start, stop = self.offsets[index % len(self)], self.offsets[index % len(self) + 1]
        columns = (array[start:stop].tolist() for array in (self.items, self.starts, self.lengths))
        return [Segment(*values) for values in zip(*columns, strict=True)]

    def __iter__(self) -> Iterator[list[Segment]]:
        return (self[index] for index in range(len(self)))

    @property
    def num_pieces(self) -> int:
        """Pieces in all bins."""
        return len(self.items)

    @property
    def total(self) -> int:
        """The lengths of all pieces together."""
        return int(self.lengths.sum(dtype=np.int64))

    @property
    def fills(self) -> npt.NDArray[np.int64]:
        """How full each bin is, (bins,)."""
        ends = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        filled: npt.NDArray[np.int64] = np.diff(ends[self.offsets])
        return filled

    @property
    def num_empty(self) -> int:
        """Bins that are nothing but padding."""
        return int(np.count_nonzero(np.diff(self.offsets) == 0))

    @property
    def utilisation(self) -> float:
        """The mean fill over the capacity; 0 without bins. Higher is better."""
        return self.total / (len(self) * self.capacity) if len(self) else 0.0
