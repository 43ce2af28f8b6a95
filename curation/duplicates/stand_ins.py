"""Which kept row stands for a dropped one, found anew for a few rows.

A search keeps no table of what it dropped: that would be as long as the table. For a few rows it is
one pass over the column that was searched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.domains import keys_of
from curation.duplicates.visits import require_columns
from curation.neighbors.unit_vectors import dims_of, unit_batches, unit_vectors
from curation.order import place
from datalake.tables import Table

__all__ = ["StandIn", "reason_of_search", "stand_ins"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class StandIn:
    """A kept row that is the duplicate of a dropped one."""

    row_index: int
    utt_id: str | None
    similarity: float


def reason_of_search(parameters: Mapping[str, object]) -> str:
    """The code of all drops of a search, by its parameters."""
    by = str(parameters.get("by"))
    if by == "audio":
        return "same_audio"
    # What compares exactly has no threshold.
    return f"near_{by}" if "threshold" in parameters else f"equal_{by}"


def stand_ins(
    table: Table, parameters: Mapping[str, object], kept: pa.ChunkedArray, rows: Sequence[int]
) -> dict[int, StandIn]:
    """The kept row that was visited first of those that are duplicates of a dropped one.

    Memory: a batch, the kept rows' indices, and a few numbers for each pair found.

    Args:
        table: the version that was searched.
        parameters: of the search.
        kept: indices of the rows that were kept, uint64.
        rows: indices of dropped rows.

    Returns:
        By row index. None for a row that no kept row stands for (rule `semdedup`), and for any row
        if what was compared is in no column (decoded samples, audio, movements).

    Raises:
        SchemaError: the table lacks the column.
    """
    column = str(parameters.get("by"))
    if column not in table.schema.names or not rows:
        return {}
    where = parameters.get("where")
    predicate = None if where is None else str(where)
    asked = np.array(sorted(rows), np.int64)
    if "threshold" in parameters:
        limit = float(str(parameters["threshold"]))
        left, right, likeness = _near(table, column, predicate, kept, asked, limit)
    else:
        left, right = _equal(table, column, predicate, kept, asked)
        likeness = np.ones(len(left))
    best_by = parameters.get("best_by")
    order = _visits(table, right, int(str(parameters.get("seed", 0))), best_by)
    found: dict[int, StandIn] = {}
    id_column = keys_of(table.schema).id_column
    for at in order.tolist():
        row = int(asked[left[at]])
        if row not in found:
            utt_id = table.take(right[at : at + 1], [id_column])[id_column][0].as_py()
            found[row] = StandIn(int(right[at]), utt_id, float(likeness[at]))
    return found


def _near(
    table: Table,
    column: str,
    where: str | None,
    kept: pa.ChunkedArray,
    asked: IntArray,
    threshold: float,
) -> tuple[IntArray, IntArray, npt.NDArray[np.float64]]:
    dims = dims_of(table, column, where)
    own, _ = unit_vectors(
        table.take(asked, [column])[column].combine_chunks(), dims, f"{column} of {table.uri}"
    )
    lefts, rights, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    for index, units, _ in unit_batches(table, column, dims, where):
        stays = pc.is_in(pa.array(index, pa.uint64()), value_set=kept)
        stays = stays.to_numpy(zero_copy_only=False)
        cosines = own.astype(np.float64) @ units[stays].astype(np.float64).T
        left, right = np.nonzero(cosines >= threshold)
        lefts.append(left)
        rights.append(index[stays][right])
        values.append(cosines[left, right])
    return np.concatenate(lefts), np.concatenate(rights), np.concatenate(values)


def _equal(
    table: Table, column: str, where: str | None, kept: pa.ChunkedArray, asked: IntArray
) -> tuple[IntArray, IntArray]:
    values = table.take(asked, [column])[column].combine_chunks()
    distinct = values.unique()
    of_value: dict[int, IntArray] = {
        number: np.flatnonzero(pc.index_in(values, value_set=distinct).to_numpy() == number)
        for number in range(len(distinct))
    }
    lefts, rights = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for batch in table.scan([column], where=where, with_row_index=True):
        stays = pc.is_in(batch["row_index"], value_set=kept)
        some = batch.filter(pc.and_(stays, pc.is_in(batch[column], value_set=distinct)))
        numbers = pc.index_in(some[column], value_set=distinct).to_pylist()
        for row, number in zip(some["row_index"].to_pylist(), numbers, strict=True):
            lefts.append(of_value[number])
            rights.append(np.full(len(of_value[number]), row, np.int64))
    return np.concatenate(lefts), np.concatenate(rights)


def _visits(table: Table, rows: IntArray, seed: int, best_by: object) -> IntArray:
    """The order in which rows were visited: positions in `rows`, as `visits_of` has it."""
    id_column = keys_of(table.schema).id_column
    columns = [id_column, *([str(best_by)] if best_by else [])]
    require_columns(table, columns)
    taken = table.take(rows, list(dict.fromkeys(columns)))
    ids = [each or "" for each in taken[id_column].to_pylist()]
    values = taken[str(best_by)].to_pylist() if best_by else [None] * len(ids)
    # Rows without a value come last.
    quality = [-math.inf if each is None or math.isnan(each) else float(each) for each in values]

    def visit(at: int) -> tuple[float, str, str, int]:
        return -quality[at], place(seed, ids[at]), ids[at], int(rows[at])

    return np.array(sorted(range(len(ids)), key=visit), np.int64)
