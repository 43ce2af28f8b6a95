"""Cells: which vectors are compared with which.

Each vector has a home, the cell of its nearest centroid, and is a guest in the cells of its next
nearest. Two vectors meet if one of them is at home where the other is at home or a guest: so pairs
astride a border are found from either side. Assigning is a job of blocks of rows, on any executor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.duplicates.vectors import VectorFile
from curation.neighbors import fit_kmeans
from datalake.pipelines.executors import Executor

__all__ = ["Cells", "build_cells", "write_whole"]

_ROWS: Final = 4096
_UNIT_ROWS: Final = 65_536
_POINTS: Final = 64
"""Vectors that a centroid is fitted on, about; 65,536 in all at least."""
_ROUNDS: Final = 3

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Homes and guests, as files in a folder. Picklable."""

    folder: Path
    num_cells: int
    num_probes: int
    num_rows: int

    def probes(self) -> npt.NDArray[np.int32]:
        """The cells of each vector, its home first, (rows, probes); mapped."""
        return np.asarray(np.load(self.folder / "probes.npy", mmap_mode="r"))

    def ends(self) -> IntArray:
        """Where each cell's members end in the file of members, (cells + 1,)."""
        return np.asarray(np.load(self.folder / "ends.npy"))

    def members(self, cell: int, ends: IntArray) -> tuple[IntArray, IntArray]:
        """The vectors at home in a cell, and its guests; ascending."""
        entries = np.load(self.folder / "members.npy", mmap_mode="r")[ends[cell] : ends[cell + 1]]
        rows, probe = np.divmod(np.asarray(entries), self.num_probes)
        return rows[probe == 0], rows[probe > 0]

    def meets(self, left: IntArray, right: IntArray) -> npt.NDArray[np.bool_]:
        """Which pairs share a cell that one of them is at home in, (pairs,)."""
        probes = self.probes()
        one, other = probes[left], probes[right]
        found = (one == other[:, :1]).any(axis=1) | (other == one[:, :1]).any(axis=1)
        return np.asarray(found, np.bool_)


def build_cells(
    vectors: VectorFile,
    folder: Path,
    executor: Executor,
    *,
    num_cells: int,
    num_probes: int,
    most_rows: int,
) -> Cells:
    """Fit cells and find the members of each.

    A cell that has more than `most_rows` at home is cut into several, up to three times; vectors
    that lie too near each other for that stay together. Memory: 64 vectors a cell for the fit
    (65,536 at least), and 24 bytes a vector and probe.

    Args:
        vectors: in the order of a hash: the first are the sample that is fitted on.
        folder: for files; all workers of the executor must reach it.
        executor: where vectors are assigned; entered.
        num_cells: at most the number of vectors.
        num_probes: the cells of each vector, at most `num_cells`.
        most_rows: of a cell.
    """
    num_fitted = max(_UNIT_ROWS, _POINTS * num_cells)
    centroids = fit_kmeans(np.array(vectors.open()[:num_fitted]), num_cells).centroids
    for last in (False,) * _ROUNDS + (True,):
        probes = _assigned(vectors, centroids, num_probes, folder, executor)
        sizes = np.bincount(probes[:, 0], minlength=len(centroids))
        large = np.flatnonzero(sizes > most_rows)
        if last or not len(large):
            break
        parts = [np.delete(centroids, large, axis=0)]
        parts += [_cut(vectors, np.flatnonzero(probes[:, 0] == cell), most_rows) for cell in large]
        centroids = np.concatenate(parts)
    flat = probes.ravel()
    order = np.argsort(flat, kind="stable")
    np.save(folder / "members.npy", order)
    np.save(folder / "ends.npy", np.searchsorted(flat[order], np.arange(len(centroids) + 1)))
    np.save(folder / "probes.npy", probes)
    return Cells(folder, len(centroids), num_probes, vectors.num_rows)


def _cut(vectors: VectorFile, rows: IntArray, most_rows: int) -> npt.NDArray[np.float32]:
    """Centroids for the rows of a cell that is too large, in cells of half of what is allowed."""
    num_parts = -(-len(rows) * 2 // most_rows)
    return fit_kmeans(vectors.open()[rows[: _POINTS * num_parts]], num_parts).centroids


def _assigned(
    vectors: VectorFile,
    centroids: npt.NDArray[np.float32],
    num_probes: int,
    folder: Path,
    executor: Executor,
) -> npt.NDArray[np.int32]:
    np.save(folder / "centroids.npy", centroids)
    job = _Assign(vectors, folder, num_probes)
    num_units = -(-vectors.num_rows // _UNIT_ROWS)
    for _ in executor.run(job, num_units):
        pass
    return np.concatenate([np.load(job.path(index)) for index in range(num_units)])


@dataclass
class _Assigned:
    index: int


@dataclass(frozen=True)
class _Assign:
    """Finds the nearest centroids of blocks of rows."""

    vectors: VectorFile
    folder: Path
    num_probes: int

    def path(self, index: int) -> Path:
        return self.folder / f"probes-{index}.npy"

    def stage(self, index: int) -> _Assigned:
        centroids = np.load(self.folder / "centroids.npy")
        stop = min((index + 1) * _UNIT_ROWS, self.vectors.num_rows)
        found = [
            _nearest(block @ centroids.T, self.num_probes)
            for block in _blocks(self.vectors, index * _UNIT_ROWS, stop)
        ]
        write_whole(self.path(index), np.concatenate(found))
        return _Assigned(index)


def _blocks(vectors: VectorFile, start: int, stop: int) -> Iterator[npt.NDArray[np.float32]]:
    for first in range(start, stop, _ROWS):
        yield np.array(vectors.open()[first : min(first + _ROWS, stop)])


def _nearest(scores: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int32]:
    """The columns of the largest scores of each row, the largest first; writes into `scores`."""
    lines = np.arange(len(scores))
    found = np.empty((len(scores), count), np.int32)
    for number in range(count):
        found[:, number] = scores.argmax(axis=1)
        scores[lines, found[:, number]] = -np.inf
    return found


def write_whole(path: Path, values: npt.NDArray[np.generic]) -> None:
    """Write a file that appears whole or not at all: two workers may be at one unit."""
    making = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.npy")
    np.save(making, values)
    making.replace(path)
