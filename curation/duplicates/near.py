"""Near-duplicates by an embedding: which rows to drop so that a kept one stands for each.

The plan for 100 million rows is this code on Ray, with a scratch folder that all nodes reach:
assigning and comparing are units; what the driver holds grows with the rows and not with their
vectors.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.duplicates.cells import Cells, build_cells
from curation.duplicates.cover import CutOff, Dropped, Rule, drop_duplicates
from curation.duplicates.drops import Duplicates, outcome
from curation.duplicates.near_pairs import Rechecker, cosines, near_pairs
from curation.duplicates.recall import measure_recall
from curation.duplicates.vectors import UnitVectors, write_vectors
from datalake.errors import InputError, LakeError
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.run import ProgressSink
from datalake.tables import Table

__all__ = ["near_duplicates"]

_ALL_PAIRS: Final = 4096
"""Up to so many rows all are compared with all."""
_MOST_CELLS: Final = 16_384
_MOST_ROWS: Final = 8192


def near_duplicates(
    table: Table,
    column: str,
    threshold: float = 0.97,
    *,
    rule: Rule = "cover",
    best_by: str | None = None,
    where: str | None = None,
    seed: int = 0,
    num_probes: int = 3,
    num_cells: int | None = None,
    num_sampled: int = 1000,
    executor: Executor | None = None,
    scratch: Path | None = None,
    progress: ProgressSink | None = None,
) -> Duplicates:
    """Search an embedding column for rows whose cosine reaches a threshold, and say which to drop.

    Vectors that are equal are collapsed first; the distinct ones are compared within cells (see
    `cells`). With the rule `cover` every dropped row has a kept one within the threshold, which is
    verified in float64. What cells miss is measured: rows of a sample are compared with all rows.
    Results hang on the rows, the seed and these numbers alone, not on the executor or on how the
    table is cut. Memory: some 150 bytes a row and 24 a pair listed (at most 5 a row and cell), the
    256 x dims bytes a cell that the fit takes, and tiles; disk: the vectors once, in `scratch`.

    Args:
        table: the version to search.
        column: `fixed_size_list` of floats; rows without a direction are kept, and counted.
        threshold: least cosine of duplicates.
        rule: which rows go; `semdedup` leaves some without a kept one.
        best_by: a numeric column: of duplicates the row of its largest value is kept; else the
            first by the hash of seed and id.
        where: consider only rows for which this holds.
        seed: of the hash.
        num_probes: cells of each vector.
        num_cells: None: sqrt(probes x rows) up to 16,384, or one for up to 4,096 rows.
        num_sampled: rows on which recall is measured; 0 for none.
        executor: where vectors are assigned and compared; None: this process.
        scratch: a folder for files, which go when it is done; all workers must reach it.
        progress: is told how far the comparing is.

    Returns:
        Drops with the cosine to the kept row and the reason `near_<column>`. `parameters` has
        `recall` (share of the sample's pairs that were compared), `still_duplicates` (share of the
        sample's kept rows that have a kept duplicate), `num_uncovered`, `num_copies`, `num_cells`
        and `largest_cell`.

    Raises:
        InputError: the threshold or a number cannot be.
        SchemaError: the table lacks a column, or it holds no vectors of one size.
        PredicateError: `where` cannot be evaluated.
    """
    if not 0 < threshold <= 1:
        raise InputError(
            "The threshold cannot be", expected="a cosine above 0, at most 1", found=str(threshold)
        )
    if num_probes < 1 or num_sampled < 0 or (num_cells is not None and num_cells < 1):
        raise InputError(
            "The search cannot be done so",
            expected="one probe and one cell at least, and no fewer than 0 sampled rows",
            found=f"{num_probes} probes, {num_cells} cells, {num_sampled} sampled",
        )
    with (
        tempfile.TemporaryDirectory(prefix="curate-near-", dir=scratch) as name,
        executor or LocalExecutor() as running,
    ):
        folder = Path(name)
        vectors = write_vectors(table, column, folder, seed=seed, best_by=best_by, where=where)
        facts: dict[str, object] = {
            "by": column,
            "threshold": threshold,
            "rule": rule,
            "best_by": best_by,
            "where": where,
            "seed": seed,
            "num_probes": num_probes,
            "num_copies": len(vectors.copies),
        }
        found = _Found.none()
        if vectors.file.num_rows:
            cells = build_cells(
                vectors.file,
                folder,
                running,
                num_cells=min(num_cells or _num_cells(vectors, num_probes), vectors.file.num_rows),
                num_probes=num_probes,
                most_rows=_MOST_ROWS,
            )
            found = _search(vectors, cells, threshold, rule, running, progress)
            facts |= {
                "num_cells": cells.num_cells,
                "largest_cell": int(np.bincount(cells.probes()[:, 0]).max()),
            }
            if num_sampled:
                kept = np.ones(vectors.file.num_rows, np.bool_)
                kept[found.positions] = False
                recall = measure_recall(vectors.file, cells, threshold, kept, num_sampled)
                facts |= {
                    "num_sampled": recall.num_sampled,
                    "num_pairs_sampled": recall.num_pairs,
                    "recall": recall.pairs,
                    "still_duplicates": recall.still_duplicates,
                }
        rows, kept_by, similarity = _with_copies(vectors, found)
    facts["num_uncovered"] = int((kept_by < 0).sum())
    return outcome(
        table, rows, kept_by, similarity,
        reason=f"near_{column}", parameters=facts, where=where, left_out=vectors.left_out,
    )  # fmt: skip


class _Found:
    """Distinct vectors that go, by their position in the file."""

    def __init__(
        self,
        positions: npt.NDArray[np.int64],
        kept_by: npt.NDArray[np.int64],
        similarity: npt.NDArray[np.float64],
    ) -> None:
        self.positions = positions
        self.kept_by = kept_by
        self.similarity = similarity

    @classmethod
    def none(cls) -> _Found:
        empty = np.empty(0, np.int64)
        return cls(empty, empty, np.empty(0))


def _num_cells(vectors: UnitVectors, num_probes: int) -> int:
    num_rows = vectors.file.num_rows
    if num_rows <= _ALL_PAIRS:
        return 1
    return min(round(math.sqrt(num_probes * num_rows)), _MOST_CELLS)


def _search(
    vectors: UnitVectors,
    cells: Cells,
    threshold: float,
    rule: Rule,
    executor: Executor,
    progress: ProgressSink | None,
) -> _Found:
    near = near_pairs(vectors.file, vectors.ranks, cells, threshold, executor, progress=progress)
    rechecker = Rechecker(vectors.file, vectors.ranks, cells, threshold)
    dropped = drop_duplicates(
        near.pairs,
        vectors.file.num_rows,
        rule=rule,
        cut_off=CutOff(near.cut_off, rechecker.first_kept),
    )
    positions = np.argsort(vectors.ranks)
    found = _Found(
        positions[dropped.rows],
        np.where(dropped.kept_by < 0, -1, positions[dropped.kept_by]),
        dropped.similarity,
    )
    _verify(vectors, dropped, found, threshold, rule)
    return found


def _verify(
    vectors: UnitVectors, dropped: Dropped, found: _Found, threshold: float, rule: Rule
) -> None:
    """See that each row that stands for another is kept, visited before it, and near enough."""
    covered = found.kept_by >= 0
    by = dropped.kept_by[covered]
    good = (
        not np.isin(by, dropped.rows).any()
        and (by < dropped.rows[covered]).all()
        and (covered.all() or rule != "cover")
        and (
            cosines(vectors.file, found.positions[covered], found.kept_by[covered]) >= threshold
        ).all()
    )
    if not good:
        raise LakeError(
            "A dropped row has no kept one within the threshold",
            expected="none, by construction",
            fix="This is a fault of the search: please report it",
        )


def _with_copies(
    vectors: UnitVectors, found: _Found
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Rows of the table that go. What stands for a vector stands for its copies too."""
    num_rows = vectors.file.num_rows
    stands = np.arange(num_rows)
    likeness = np.ones(num_rows)
    stands[found.positions], likeness[found.positions] = found.kept_by, found.similarity
    positions = np.concatenate([found.positions, vectors.copied_from])
    by = stands[positions]
    return (
        np.concatenate([vectors.row_index[found.positions], vectors.copies]),
        np.where(by < 0, -1, vectors.row_index[np.maximum(by, 0)] if num_rows else by),
        likeness[positions],
    )
