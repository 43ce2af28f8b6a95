"""Pairs of rows of different sides whose embeddings point the same way: the same thing recorded,
spoken or made twice, where neither names nor fingerprints say so.

A part of the rows, all where they are few, is held in memory; every row is compared with those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from curation.order import place, place_below

__all__ = ["Near", "NearVectors", "SidedVectors"]

_MOST_NUMBERS: Final = 1 << 25
"""Held: 128 MB."""
_TILE: Final = 4096
_EXAMPLES: Final = 5

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


class SidedVectors(NamedTuple):
    """Rows that have a vector."""

    ids: list[str]
    sides: IntArray
    """Numbers of sides, (n,)."""
    units: FloatArray
    """(n, dims), of length 1."""


@dataclass
class Near:
    """What two sides have near each other."""

    num_pairs: int = 0
    left: set[int] = field(default_factory=set)
    """Numbers of the rows of the one side."""
    right: set[int] = field(default_factory=set)
    examples: list[tuple[float, str, str]] = field(default_factory=list)
    """The nearest pairs: cosine and both ids."""


class NearVectors:
    """Rows that others are compared with: all, or as many as 128 MB hold.

    Args:
        num_rows: rows that will be added.
        dims: numbers a vector.
    """

    def __init__(self, num_rows: int, dims: int) -> None:
        self.share_held = min(1.0, _MOST_NUMBERS / max(dims * num_rows, 1))
        self._held: list[SidedVectors] = []

    def add(self, rows: SidedVectors) -> None:
        """Hold rows; of more than there is room for, those that come first in the order of a
        hash of their ids."""
        end = place_below(self.share_held)
        kept = [at for at, utt_id in enumerate(rows.ids) if place(0, utt_id) < end]
        if kept:
            self._held.append(
                SidedVectors([rows.ids[at] for at in kept], rows.sides[kept], rows.units[kept])
            )

    def near(
        self, batches: Iterable[SidedVectors], least_cosine: float
    ) -> dict[tuple[int, int], Near]:
        """What stands near what, by pairs of sides, the smaller number first.

        A pair is counted if its row of the smaller side is held. Memory: a number for each row that
        has a near one, for each pair of sides.
        """
        found: dict[tuple[int, int], Near] = {}
        num_before = 0
        for rows in batches:
            first = 0
            for held in self._held:
                for start in range(0, len(held.ids), _TILE):
                    some = slice(start, start + _TILE)
                    tile = SidedVectors(held.ids[some], held.sides[some], held.units[some])
                    _tally(tile, first + start, rows, num_before, least_cosine, found)
                first += len(held.ids)
            num_before += len(rows.ids)
        return found


def _tally(
    held: SidedVectors,
    first_held: int,
    rows: SidedVectors,
    first_row: int,
    least_cosine: float,
    found: dict[tuple[int, int], Near],
) -> None:
    cosines = held.units @ rows.units.T
    near = cosines >= least_cosine
    near &= held.sides[:, np.newaxis] < rows.sides
    one, other = np.nonzero(near)
    sides = np.stack([held.sides[one], rows.sides[other]], axis=1)
    for left, right in np.unique(sides, axis=0).tolist():
        of_pair = np.flatnonzero((sides[:, 0] == left) & (sides[:, 1] == right))
        some, others = one[of_pair], other[of_pair]
        at = found.setdefault((left, right), Near())
        at.num_pairs += len(of_pair)
        at.left.update((first_held + np.unique(some)).tolist())
        at.right.update((first_row + np.unique(others)).tolist())
        best = np.argsort(-cosines[some, others], kind="stable")[:_EXAMPLES]
        at.examples += [
            (float(cosines[i, j]), held.ids[i], rows.ids[j])
            for i, j in zip(some[best].tolist(), others[best].tolist(), strict=True)
        ]
        at.examples = sorted(at.examples, key=lambda each: (-each[0], *each[1:]))[:_EXAMPLES]
