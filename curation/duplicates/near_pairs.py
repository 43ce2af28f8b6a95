"""Pairs of vectors whose cosine reaches a threshold, searched within cells.

Of each vector only its first few duplicates are listed, first in the order of visits: so a dense
group of n vectors gives a few n pairs, and not n squared. Whoever needs to know of the others asks
`Rechecker`. What pairs are listed hangs on neither the cells' layout nor the executor.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.duplicates.cells import Cells, write_whole
from curation.duplicates.cover import Pairs
from curation.duplicates.vectors import VectorFile
from datalake.pipelines.executors import Executor
from datalake.pipelines.run import ProgressSink

__all__ = ["SLACK", "NearPairs", "Rechecker", "cosines", "near_pairs"]

SLACK: Final = 1e-4
"""Products are float32; what comes so near the threshold is computed again in float64."""

_TILE: Final = 1024
_MOST_UNITS: Final = 256
_CHUNK: Final = 2048

_PAIR: Final = np.dtype([("later", "<i8"), ("earlier", "<i8"), ("similarity", "<f8")])

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class NearPairs:
    """Pairs, rows numbered by when they are visited."""

    pairs: Pairs
    """Of each row its first duplicates."""
    cut_off: BoolArray
    """Rows that have more earlier duplicates than are listed, (rows,)."""


def near_pairs(
    vectors: VectorFile,
    ranks: IntArray,
    cells: Cells,
    threshold: float,
    executor: Executor,
    *,
    most: int = 4,
    progress: ProgressSink | None = None,
) -> NearPairs:
    """Find pairs. Memory: 24 bytes a pair, of which a row has `most` a cell, and tiles of 30 MB.

    Args:
        vectors: of length 1.
        ranks: when each is visited, (vectors,).
        cells: which vectors are compared.
        threshold: least cosine of a pair.
        executor: where cells are searched; entered.
        most: earlier duplicates listed of a row.
        progress: is told how far the search is.
    """
    np.save(cells.folder / "ranks.npy", ranks)
    job = _Search(vectors, cells, threshold, most, _units(cells))
    for done, _ in enumerate(executor.run(job, len(job.starts) - 1), start=1):
        if progress is not None:
            progress.update(done, total=len(job.starts) - 1, unit="units", note="comparing")
    found = np.concatenate([np.load(job.path(index)) for index in range(len(job.starts) - 1)])
    found = found[np.lexsort((found["earlier"], found["later"]))]
    again = np.zeros(len(found), np.bool_)  # a pair is met in up to two cells
    again[1:] = (found["later"][1:] == found["later"][:-1]) & (
        found["earlier"][1:] == found["earlier"][:-1]
    )
    found = found[~again]
    number = np.arange(len(found)) - np.searchsorted(found["later"], found["later"])
    cut_off = np.zeros(vectors.num_rows, np.bool_)
    cut_off[found["later"][number == most]] = True
    found = found[number < most]
    return NearPairs(Pairs(found["earlier"], found["later"], found["similarity"]), cut_off)


def _units(cells: Cells) -> tuple[int, ...]:
    """Where units of about equal work begin among the cells, and the end."""
    work = np.cumsum(np.diff(cells.ends()).astype(np.float64) ** 2)
    cuts = np.searchsorted(work, work[-1] * np.arange(1, _MOST_UNITS) / _MOST_UNITS) + 1
    inner = {int(cut) for cut in cuts if cut < cells.num_cells}
    return (0, *sorted(inner), cells.num_cells)


@dataclass
class _Searched:
    index: int


@dataclass(frozen=True)
class _Search:
    """Finds the pairs of runs of cells, and keeps them in files."""

    vectors: VectorFile
    cells: Cells
    threshold: float
    most: int
    starts: tuple[int, ...]

    def path(self, index: int) -> Path:
        return self.cells.folder / f"pairs-{index}.npy"

    def stage(self, index: int) -> _Searched:
        ranks = np.load(self.cells.folder / "ranks.npy", mmap_mode="r")
        ends = self.cells.ends()
        found = [np.empty(0, _PAIR)]
        for cell in range(self.starts[index], self.starts[index + 1]):
            home, guests = self.cells.members(cell, ends)
            home, guests = home[np.argsort(ranks[home])], guests[np.argsort(ranks[guests])]
            found += self._first_pairs(home, home, ranks, both_ways=False)
            found += self._first_pairs(guests, home, ranks, both_ways=True)
        write_whole(self.path(index), np.concatenate(found))
        return _Searched(index)

    def _first_pairs(
        self, left: IntArray, right: IntArray, ranks: IntArray, *, both_ways: bool
    ) -> list[npt.NDArray[np.void]]:
        """Of each of `left` its first duplicates among `right`; `both_ways` the reverse too.

        Both ascend by rank. One more than `most` is given where there are more, which tells.
        """
        vectors = self.vectors.open()
        found = []
        seen_right = np.zeros(len(right), np.int64)
        for a in range(0, len(left), _TILE):
            rows = left[a : a + _TILE]
            block = vectors[rows]
            seen = np.zeros(len(rows), np.int64)
            # Among themselves, what stands behind the block is visited later.
            for b in range(0, len(right) if both_ways else a + len(rows), _TILE):
                others = right[b : b + _TILE]
                one, other = self._near(block, vectors[others], rows, others)
                earlier = ranks[others[other]] < ranks[rows[one]]
                # In the order of `right`, so of visits.
                found.append(self._listed(rows, others, one[earlier], other[earlier], seen, ranks))
                if both_ways:
                    later = ranks[others[other]] > ranks[rows[one]]
                    one, other = one[later], other[later]
                    order = np.argsort(other, kind="stable")
                    counts = seen_right[b : b + _TILE]
                    found.append(
                        self._listed(others, rows, other[order], one[order], counts, ranks)
                    )
        return found

    def _near(
        self,
        block: npt.NDArray[np.float32],
        other_block: npt.NDArray[np.float32],
        rows: IntArray,
        others: IntArray,
    ) -> tuple[IntArray, IntArray]:
        """Places in two blocks whose vectors are duplicates, by the first block's order."""
        products = block @ other_block.T
        one, other = np.nonzero(products >= self.threshold - SLACK)
        unsure = np.flatnonzero(products[one, other] < self.threshold + SLACK)
        exact = cosines(self.vectors, rows[one[unsure]], others[other[unsure]])
        is_pair = np.ones(len(one), np.bool_)
        is_pair[unsure] = exact >= self.threshold
        return one[is_pair], other[is_pair]

    def _listed(
        self,
        later_rows: IntArray,
        earlier_rows: IntArray,
        later: IntArray,
        earlier: IntArray,
        seen: IntArray,
        ranks: IntArray,
    ) -> npt.NDArray[np.void]:
        """The pairs that are among the first of their later row, which `seen` counts."""
        number = np.arange(len(later)) - np.searchsorted(later, later) + seen[later]
        first = number <= self.most
        seen += np.bincount(later, minlength=len(seen))
        rows, others = later_rows[later[first]], earlier_rows[earlier[first]]
        pairs = np.empty(len(rows), _PAIR)
        pairs["later"], pairs["earlier"] = ranks[rows], ranks[others]
        pairs["similarity"] = cosines(self.vectors, rows, others)
        return pairs


class Rechecker:
    """Finds the first kept duplicate of a row whose list of duplicates was cut off."""

    def __init__(
        self, vectors: VectorFile, ranks: IntArray, cells: Cells, threshold: float
    ) -> None:
        self._file = vectors
        self._vectors = vectors.open()
        self._ranks = ranks
        self._positions = np.argsort(ranks)
        self._cells = cells
        self._ends = cells.ends()
        self._probes = cells.probes()
        self._threshold = threshold

    def first_kept(self, row: int, keeps: BoolArray) -> tuple[int, float] | None:
        """The first of the kept rows before this one that is its duplicate, and the cosine.

        Args:
            row: numbered by when it is visited.
            keeps: which rows are kept, up to this one; numbered alike.
        """
        position = int(self._positions[row])
        cells = self._probes[position].tolist()
        home, guests = self._cells.members(cells[0], self._ends)
        near = [home, guests, *(self._cells.members(cell, self._ends)[0] for cell in cells[1:])]
        ranks = np.unique(self._ranks[np.concatenate(near)])
        ranks = ranks[ranks < row]
        ranks = ranks[keeps[ranks]]
        for start in range(0, len(ranks), _CHUNK):
            some = ranks[start : start + _CHUNK]
            others = self._positions[some]
            rough = self._vectors[others] @ self._vectors[position]
            for place in np.flatnonzero(rough >= self._threshold - SLACK):
                exact = cosines(self._file, np.array([position]), others[place : place + 1])[0]
                if exact >= self._threshold:
                    return int(some[place]), float(exact)
        return None


def cosines(vectors: VectorFile, left: IntArray, right: IntArray) -> npt.NDArray[np.float64]:
    """In float64, a pair's value the same whatever else is asked for and whichever comes first."""
    found = np.empty(len(left))
    mapped = vectors.open()
    for start in range(0, len(left), _CHUNK):
        some = slice(start, start + _CHUNK)
        one, other = mapped[left[some]].astype(np.float64), mapped[right[some]]
        found[some] = (one * other).sum(axis=1)
    return found
