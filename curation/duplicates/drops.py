"""What a search for duplicates gives: the rows to drop, each with the row that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.domains import keys_of
from datalake.tables import Table

__all__ = ["DUPLICATES", "Duplicates", "num_conflicts", "outcome"]

DUPLICATES: Final = pa.schema(
    [
        pa.field("row_index", pa.uint64(), nullable=False),
        # The episode's id where the table holds episodes.
        pa.field("utt_id", pa.string()),
        # The index of the kept row that stands for it; null where none does (`semdedup` only).
        pa.field("kept_by", pa.uint64()),
        pa.field("kept_by_id", pa.string()),
        # To the kept row, in the measure of the search.
        pa.field("similarity", pa.float64()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""One row a dropped row, ascending by index."""

_KEPT: Final = pa.schema([("row_index", pa.uint64()), ("utt_id", pa.string())])
_ROWS_TAKEN: Final = 65_536


@dataclass(frozen=True)
class Duplicates:
    """What was found."""

    drops: pa.Table
    """`DUPLICATES`."""
    kept: pa.Table
    """`row_index` and `utt_id` of the rows that stay, ascending."""
    parameters: Mapping[str, object]
    """How it was searched, and what was measured of the search, as JSON values."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that could not be judged, by reason. They are kept."""

    @property
    def num_rows(self) -> int:
        """Rows that were considered."""
        return int(self.drops.num_rows + self.kept.num_rows)

    @property
    def num_uncovered(self) -> int:
        """Dropped rows that no kept row stands for."""
        return int(self.drops["kept_by"].null_count)


def outcome(
    table: Table,
    rows: npt.NDArray[np.int64],
    kept_by: npt.NDArray[np.int64],
    similarity: npt.NDArray[np.float64],
    *,
    reason: str,
    parameters: Mapping[str, object],
    where: str | None = None,
    left_out: Mapping[str, int] | None = None,
) -> Duplicates:
    """Drops and kept rows with their ids. Memory: some 60 bytes and the id for each row.

    Args:
        table: the version searched.
        rows: indices of the rows to drop, (drops,), in any order.
        kept_by: those of the rows that stand for them; -1 for none.
        similarity: NaN for none.
        reason: the code of all drops.
        parameters: how it was searched.
        where: which rows were considered.
        left_out: rows that could not be judged, by reason.

    Raises:
        PredicateError: `where` cannot be evaluated.
    """
    order = np.argsort(rows, kind="stable")
    rows, kept_by, similarity = rows[order], kept_by[order], similarity[order]
    covered = kept_by >= 0
    drops = pa.table(
        {
            "row_index": pa.array(rows, pa.uint64()),
            "utt_id": _ids(table, rows),
            "kept_by": pa.array(np.maximum(kept_by, 0).astype(np.uint64), mask=~covered),
            "kept_by_id": _ids(table, np.where(covered, kept_by, rows), covered),
            "similarity": pa.array(similarity, mask=~covered),
            "reason": pa.array([reason] * len(rows), pa.string()),
        },
        schema=DUPLICATES,
    )
    id_column = keys_of(table.schema).id_column
    kept = [_KEPT.empty_table()]
    for batch in table.scan([id_column], where=where, with_row_index=True):
        index = batch["row_index"].to_numpy()
        good = pa.array(~_within(index.astype(np.int64), rows))
        part = pa.Table.from_batches([batch.filter(good)]).select(["row_index", id_column])
        kept.append(part.rename_columns(_KEPT.names).cast(_KEPT))
    return Duplicates(drops, pa.concat_tables(kept), dict(parameters), dict(left_out or {}))


def num_conflicts(table: Table, drops: pa.Table, column: str = "label") -> int:
    """Drops whose value of a column is not that of the row that stands for them; nulls count.

    Raises:
        SchemaError: the table lacks the column.
    """
    covered = drops.filter(pc.is_valid(drops["kept_by"]))
    count = 0
    for start in range(0, covered.num_rows, _ROWS_TAKEN):
        some = covered.slice(start, _ROWS_TAKEN)
        own, other = (
            table.take(some[name].to_numpy(), [column])[column].to_pylist()
            for name in ("row_index", "kept_by")
        )
        count += sum(one != two for one, two in zip(own, other, strict=True))
    return count


def _within(some: npt.NDArray[np.int64], ascending: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of `some` are among `ascending`."""
    if not len(ascending):
        return np.zeros(len(some), np.bool_)
    at = np.minimum(np.searchsorted(ascending, some), len(ascending) - 1)
    return np.asarray(ascending[at] == some)


def _ids(
    table: Table, rows: npt.NDArray[np.int64], known: npt.NDArray[np.bool_] | None = None
) -> pa.ChunkedArray:
    """The ids of rows; null where not `known`."""
    id_column = keys_of(table.schema).id_column
    found = []
    for start in range(0, len(rows), _ROWS_TAKEN):
        some = slice(start, start + _ROWS_TAKEN)
        ids = table.take(rows[some], [id_column])[id_column].combine_chunks().cast(pa.string())
        if known is not None:
            positions = pa.array(np.arange(len(ids)), mask=~known[some])
            ids = ids.take(positions)
        found.append(ids)
    return pa.chunked_array(found, pa.string())
