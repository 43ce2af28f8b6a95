"""Which row of a table an example is: in the whole table, or in a selection of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.lake import Selection
from datalake.loader.order.order import Indices
from datalake.tables.protocol import Table

__all__ = ["Examples"]


@dataclass(frozen=True)
class Examples:
    """What an epoch consists of. A whole table costs no memory, a selection 12 bytes an example."""

    num_examples: int
    selection_digest: str | None = None
    _rows: Indices | None = None
    _weights: npt.NDArray[np.float32] | None = None

    @classmethod
    def of(cls, table: Table, selection: Selection | None = None) -> Examples:
        """The rows of a table at its version, or the selected ones in the selection's order.

        Raises:
            InputError: there are none, or the selection was made from another version or table.
        """
        if selection is None:
            examples = cls(table.count_rows())
        else:
            _check_origin(table, selection)
            examples = cls(
                num_examples=len(selection),
                selection_digest=selection.digest,
                _rows=selection.rows["row_index"].to_numpy().astype(np.int64),
                _weights=selection.rows["weight"].to_numpy().astype(np.float32),
            )
        if examples.num_examples == 0:
            raise InputError(
                "There is nothing to stream",
                where=_place(table),
                expected="one row or more",
                found="an empty table"
                if selection is None
                else f"the empty selection {selection.name}",
            )
        return examples

    def rows(self, examples: Indices) -> Indices:
        """The row index of each example."""
        return examples if self._rows is None else self._rows[examples]

    def weights(self, examples: Indices) -> npt.NDArray[np.float32]:
        """The weight of each example; 1 without a selection."""
        if self._weights is None:
            return np.ones(examples.shape, np.float32)
        return self._weights[examples]


def _check_origin(table: Table, selection: Selection) -> None:
    if selection.table_version != table.version:
        raise InputError(
            f"The selection {selection.name!r} was made from another version of the table",
            where=table.uri,
            expected=f"{selection.table} at version {selection.table_version}",
            found=f"version {table.version}",
            fix=f"Open the table with .at({selection.table_version}), or select again",
        )
    if len(selection) == 0:
        return
    ends = selection.rows.take([0, len(selection) - 1])
    rows, expected = ends["row_index"].to_pylist(), ends["utt_id"].to_pylist()
    num_rows = table.count_rows()
    found = (
        table.take(rows, ["utt_id"])["utt_id"].to_pylist()
        if max(rows) < num_rows
        else f"{num_rows} rows"
    )
    if found != expected:
        raise InputError(
            f"The selection {selection.name!r} was made from another table",
            where=_place(table),
            expected=f"{selection.table} with {expected} at rows {rows}",
            found=str(found),
        )


def _place(table: Table) -> str:
    return f"{table.uri}, version {table.version}"
