"""Binary values of Arrow arrays, read where they lie."""

from __future__ import annotations

from bisect import bisect_right
from operator import methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.tables.batches import as_positions
from datalake.tables.mapped import Bytes
from datalake.tables.protocol import Table

__all__ = ["ArrowMapped", "views_of"]


class ArrowMapped:
    """A binary column of a table in memory. See `datalake.tables.mapped.Mapped`."""

    def __init__(self, table: Table, column: str, values: pa.ChunkedArray) -> None:
        self._table, self._column, self._values = table, column, values

    def __reduce__(self) -> Any:
        # Values do not travel: the table's copy has them, or knows why not.
        return methodcaller("mapped", self._column), (self._table,)

    def views(self, rows: npt.NDArray[np.int64]) -> list[Bytes | None]:
        """Each row's bytes, read-only; None for null."""
        return views_of(self._values, as_positions(rows, len(self._values)))

    def sizes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Each row's number of bytes; 0 for null."""
        return np.array([0 if v is None else v.size for v in self.views(rows)], np.int64)

    def advise(self, rows: npt.NDArray[np.int64]) -> int:
        """The number of bytes; they are in memory already."""
        return int(self.sizes(rows).sum())

    def prepare(self) -> None:
        """Nothing is to be looked up."""


def views_of(values: pa.ChunkedArray, rows: npt.NDArray[np.int64]) -> list[Bytes | None]:
    """The bytes of rows of a binary or large_binary column, without a copy; None for null."""
    chunks = [_Chunk(chunk) for chunk in values.chunks]
    firsts = np.cumsum([0, *(len(chunk) for chunk in values.chunks)]).tolist()
    found: list[Bytes | None] = []
    for row in rows.tolist():
        place = bisect_right(firsts, row) - 1
        found.append(chunks[place].view(row - firsts[place]))
    return found


class _Chunk:
    def __init__(self, array: pa.Array) -> None:
        valid, offsets, data = array.buffers()
        self._first = array.offset
        self._valid = memoryview(valid) if array.null_count else None
        starts = memoryview(offsets if offsets is not None else b"").cast("B")
        large = pa.types.is_large_binary(array.type)
        self._offsets = starts.cast("q") if large else starts.cast("i")
        self._data: Bytes = np.frombuffer(data if data is not None else b"", np.uint8)
        # What Arrow itself computed it would let others write to.
        self._data.flags.writeable = False

    def view(self, row: int) -> Bytes | None:
        row += self._first
        if self._valid is not None and not self._valid[row >> 3] >> (row & 7) & 1:
            return None
        view: Bytes = self._data[self._offsets[row] : self._offsets[row + 1]]
        return view
