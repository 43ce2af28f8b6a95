"""An embedding column as a scratch file of distinct unit vectors in the order of a hash.

The first rows of such a file are a random sample, whatever the order of the table.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128_intdigest

from curation.duplicates.visits import Visits, require_columns, visits_of
from curation.neighbors.unit_vectors import dims_of, rows_at_once, unit_batches
from datalake.tables import Table

__all__ = ["UnitVectors", "VectorFile", "write_vectors"]


@dataclass(frozen=True)
class VectorFile:
    """A file of float32 vectors of length 1, row after row. Picklable."""

    path: Path
    num_rows: int
    dims: int

    def open(self) -> npt.NDArray[np.float32]:
        """Map it, (num_rows, dims); read only."""
        if not self.num_rows:
            return np.empty((0, self.dims), np.float32)
        return np.memmap(self.path, np.float32, "r", shape=(self.num_rows, self.dims))


@dataclass(frozen=True)
class UnitVectors:
    """The distinct vectors of a column, and what became of the other rows."""

    file: VectorFile
    row_index: npt.NDArray[np.int64]
    """Of each vector, the row that is visited first, (vectors,)."""
    ranks: npt.NDArray[np.int64]
    """When each vector is visited, from 0 without a gap, (vectors,)."""
    copies: npt.NDArray[np.int64]
    """Rows with the very vector of a row visited before, (copies,)."""
    copied_from: npt.NDArray[np.int64]
    """The position in the file of the vector of each copy."""
    left_out: dict[str, int]
    """Rows without a direction, by reason: `null`, `not_finite`, `zero`."""


def write_vectors(
    table: Table,
    column: str,
    folder: Path,
    *,
    seed: int = 0,
    best_by: str | None = None,
    where: str | None = None,
) -> UnitVectors:
    """Write the vectors out. Memory: some 70 bytes a row, and 20 MB; disk: the vectors once.

    Args:
        table: the version to read.
        column: `fixed_size_list` (or lists of one size) of floats.
        folder: where the file is made.
        seed: of the hash that orders rows.
        best_by: as of `visits_of`.
        where: take only rows for which this holds.

    Raises:
        SchemaError: the table lacks a column, or it holds no vectors of one size.
        PredicateError: `where` cannot be evaluated.
    """
    require_columns(table, [column])
    dims = dims_of(table, column, where)
    visits = visits_of(table, seed=seed, best_by=best_by, where=where)
    num_rows = len(visits.row_index)
    by_index = np.argsort(visits.row_index)
    path = folder / "vectors.f32"
    with path.open("wb") as file:
        file.truncate(num_rows * dims * 4)
    digests = np.zeros((num_rows, 2), np.uint64)
    good = np.zeros(num_rows, np.bool_)
    left_out = {"null": 0, "not_finite": 0, "zero": 0}
    for index, units, fault in unit_batches(table, column, dims, where):
        places = by_index[np.searchsorted(visits.row_index, index, sorter=by_index)]
        good[places] = fault == ""
        for reason in left_out:
            left_out[reason] += int((fault == reason).sum())
        for place, unit in zip(places.tolist(), units, strict=True):
            number = xxh3_128_intdigest(unit.data)
            digests[place] = number >> 64, number & 0xFFFF_FFFF_FFFF_FFFF
        if len(places):
            # Mapped for this batch alone, so that no more of the file counts as this process's.
            mapped = np.memmap(path, np.float32, "r+", shape=(num_rows, dims))
            mapped[places] = units
            del mapped
    return _distinct(path, dims, visits, good, digests, left_out)


def _distinct(
    path: Path,
    dims: int,
    visits: Visits,
    good: npt.NDArray[np.bool_],
    digests: npt.NDArray[np.uint64],
    left_out: dict[str, int],
) -> UnitVectors:
    """Keep of equal vectors the one visited first, and close up the file."""
    places = np.flatnonzero(good)
    order = places[np.lexsort((visits.ranks[places], digests[places, 1], digests[places, 0]))]
    of_group = digests[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (of_group[1:] != of_group[:-1]).any(axis=1)
    first = order[np.flatnonzero(begins)[np.cumsum(begins) - 1]] if len(order) else order
    kept = np.sort(order[begins])
    copies = order[~begins]
    _close_up(path, dims, len(good), kept)
    ranks = np.empty(len(kept), np.int64)
    ranks[np.argsort(visits.ranks[kept], kind="stable")] = np.arange(len(kept))
    return UnitVectors(
        file=VectorFile(path, len(kept), dims),
        row_index=visits.row_index[kept],
        ranks=ranks,
        copies=visits.row_index[copies],
        copied_from=np.searchsorted(kept, first[~begins]),
        left_out={reason: count for reason, count in left_out.items() if count},
    )


def _close_up(path: Path, dims: int, num_rows: int, kept: npt.NDArray[np.int64]) -> None:
    """Move the rows kept to the front, in order, and cut the rest off."""
    if len(kept) < num_rows:
        step = rows_at_once(dims)
        for start in range(0, len(kept), step):
            some = kept[start : start + step]
            mapped = np.memmap(path, np.float32, "r+", shape=(num_rows, dims))
            # No row moves behind its place, so none that is still to be moved is overwritten.
            mapped[start : start + len(some)] = mapped[some]
            del mapped
    os.truncate(path, len(kept) * dims * 4)
