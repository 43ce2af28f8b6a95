"""Large values on a store, in pieces: each piece is a row, so that a reader brings in what is asked
for and caches it in blocks, as it does with rows of any table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.tables.mapped import Bytes
from datalake.tables.protocol import RowIndices, Table
from datalake.tables.ranged import Ranged

__all__ = ["PIECE_BYTES", "PieceReader"]

PIECE_BYTES: Final = 64 << 10
"""64 of them make a block of the cache; where they come one by one, a piece is what is read."""


class PieceReader:
    """Parts of the values of one column. Thread-safe and picklable; 8 bytes a value.

    Blocks of 4 MiB are cached on this node, unless values are scattered (`TableReader.scatter`).

    Args:
        table: on a store.
        column: binary.
        ranged: its values by ranges.
        sizes: bytes of each value, (num_rows,).
        cache: of this node; None for the one in the default place.
    """

    def __init__(
        self,
        table: Table,
        column: str,
        ranged: Ranged,
        sizes: npt.NDArray[np.int64],
        *,
        cache: BlockCache | None = None,
    ) -> None:
        self._pieces = _Pieces(table, column, ranged, sizes)
        self._column = self._pieces.column
        self.reader = TableReader(cast("Table", self._pieces), cache=cache)
        """Of the pieces: what counts, caches and scatters."""

    def view(self) -> PieceReader:
        """The same with a reader that counts and scatters for itself."""
        made = PieceReader.__new__(PieceReader)
        made._pieces, made._column = self._pieces, self._column
        made.reader = self.reader.view()
        return made

    def size(self, row: int) -> int:
        """Bytes of a value."""
        return int(self._pieces.sizes[row])

    def read(self, row: int, start: int, stop: int) -> Bytes:
        """The bytes of a value from `start` up to `stop`, or to its end; read-only.

        Raises:
            StoreError: they cannot be read.
        """
        stop = min(stop, self.size(row))
        if start >= stop:
            return np.empty(0, np.uint8)
        rows = self.rows(row, start, stop)
        views = [view for view in self.reader.views(self._column, rows) if view is not None]
        data = views[0] if len(views) == 1 else np.concatenate(views)
        begin = start // PIECE_BYTES * PIECE_BYTES
        return data[start - begin : stop - begin]

    def rows(self, row: int, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The pieces in which these bytes of a value lie, as rows of the reader."""
        first = int(self._pieces.starts[row])
        return np.arange(first + start // PIECE_BYTES, first - -stop // PIECE_BYTES)

    @property
    def columns(self) -> list[str]:
        """The one column of the reader."""
        return [self._column]


class _Pieces:
    """Pieces as the rows of a table: as much of one as a reader asks for."""

    def __init__(
        self, table: Table, column: str, ranged: Ranged, sizes: npt.NDArray[np.int64]
    ) -> None:
        self._table, self._ranged = table, ranged
        self.column = f"{column} in pieces of {PIECE_BYTES}"
        self.sizes = sizes
        self.starts = np.concatenate([[0], np.cumsum(-(-sizes // PIECE_BYTES))])
        """The first piece of each value, and the number of pieces, (num_rows + 1,)."""
        self.uri, self.version, self.format = table.uri, table.version, table.format
        self.capabilities = table.capabilities
        self.schema = pa.schema([pa.field(self.column, pa.large_binary())])
        # Whoever reads the one reads the other: from the same store, under the same budget.
        self._location = getattr(table, "_location", None) or table.uri

    def count_rows(self) -> int:
        return int(self.starts[-1])

    def num_bytes(self) -> int:
        return int(self.sizes.sum())

    def fingerprint(self) -> str:
        return self._table.fingerprint()

    def mapped(self, column: str) -> None:
        del column

    def read(self, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        return self.take(np.arange(start, stop), columns)

    def take(self, indices: RowIndices, columns: Sequence[str]) -> pa.Table:
        pieces = np.asarray(indices, np.int64)
        rows = np.searchsorted(self.starts, pieces, "right") - 1
        begins = (pieces - self.starts[rows]) * PIECE_BYTES
        ends = np.minimum(begins + PIECE_BYTES, self.sizes[rows])
        ranges = list(zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True))
        return pa.table(
            {name: pa.array(self._ranged.read(ranges), pa.large_binary()) for name in columns}
        )
