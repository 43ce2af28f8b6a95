"""Rows of any table: columns as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.errors import InputError, SchemaError, StoreError, nearest
from datalake.lake import Lake, Selection
from datalake.loader.order.hashing import Words
from datalake.loader.order.order import Indices
from datalake.loader.sources.columns import (
    NullNumbersError,
    check_fork,
    column_kind,
    read_column,
    readable,
)
from datalake.loader.sources.naming import (
    bad_rows,
    check_columns,
    chosen,
    lost_rows,
    row_domains,
    row_names,
)
from datalake.loader.sources.source import Allocate, BadRowsError, Columns, Prefetch
from datalake.quarantine import Reason, Refusal
from datalake.tables.mapped import Bytes
from datalake.tables.protocol import Table
from datalake.telemetry import Meter

__all__ = ["Rows"]

_TAKEN: Final = frozenset({"row_index"})
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_FILL: Final[Mapping[str, float]] = MappingProxyType({})


class Rows:
    """Columns of a table, undecoded.

    Gives a batch

        row_index    int64 (batch,): the row in this version of the table
        <column>     numbers: an array (batch,), or (batch, k) for lists of a fixed size;
                     records named in `as_array`: an array (batch, k);
                     texts: a list of str; bytes: a list of bytes; all else: a list of values

    Args:
        table: a table at the version to stream.
        columns: which; None for all.
        selection: which rows a loader takes, in which order, with which weights.
        as_array: binary columns whose values all hold equally many numbers, and their type:
            `{"pcm": "int16"}` (little-endian).
        fill: by column, the number to put in the place of null. Elsewhere a float that is null is
            NaN, and a row whose integer or truth value is null makes no example.
        cache: where blocks of tables that cannot be mapped in place are kept; None for the default.

    Raises:
        InputError: no such type, or the values do not hold a whole number of it.
        SchemaError: a column is not there, or is no binary one.
    """

    def __init__(
        self,
        table: Table,
        columns: Sequence[str] | None = None,
        *,
        selection: Selection | None = None,
        as_array: Mapping[str, str] = _NOTHING,
        fill: Mapping[str, float] = _NO_FILL,
        cache: BlockCache | Path | str | None = None,
    ) -> None:
        self.table = table
        self.selection = selection
        self.columns = tuple(table.schema.names if columns is None else columns)
        check_columns(table, self.columns, _TAKEN)
        for name in (*as_array, *fill):
            if name not in self.columns:
                raise SchemaError(
                    f"as_array or fill names a column that is not read: {name!r}",
                    where=table.uri,
                    fix=nearest(name, self.columns),
                )
        store = BlockCache.shared(cache) if isinstance(cache, str | Path) else cache
        self._reader = TableReader(table, cache=store)
        self._types = {name: _type_of(self._reader, name, text) for name, text in as_array.items()}
        self._fill = dict(fill)
        self._columns_read = readable(self._reader, self.columns)
        self._meter = Meter()
        self._record_bytes = {name: self._size_of_first(name) for name in self._types}

    @classmethod
    def from_lake(
        cls,
        lake: Lake,
        name: str,
        columns: Sequence[str] | None = None,
        *,
        selection: str | None = None,
        as_array: Mapping[str, str] = _NOTHING,
        fill: Mapping[str, float] = _NO_FILL,
        cache: BlockCache | Path | str | None = None,
    ) -> Rows:
        """A table of a lake by name: all of its latest version, or a saved selection of it.

        Raises:
            NotFoundError: there is no such table or selection.
            InputError: the selection was made from another table.
        """
        table, found = chosen(lake, name, selection)
        return cls(table, columns, selection=found, as_array=as_array, fill=fill, cache=cache)

    @property
    def tables(self) -> tuple[Table, ...]:
        """What it reads."""
        return (self.table,)

    @property
    def num_rows(self) -> int:
        """Rows of the version."""
        return self._reader.num_rows

    @property
    def kind(self) -> str:
        """Sources of one kind have the same columns, of the same types and sizes."""
        types = [
            f"{name}:{self._types.get(name) or self.table.schema.field(name).type}"
            f":{self._record_bytes.get(name, '')}"
            for name in self.columns
        ]
        return "/".join(("rows", *types))

    @property
    def block_rows(self) -> int:
        """Consecutive rows that come from the store together, in the widest column."""
        return min((self._reader.block_rows(name) for name in self._columns_read), default=1)

    def identity(self) -> Mapping[str, str | int]:
        """The table's uri and version."""
        return {"table": self.table.uri, "table_version": self.table.version}

    def view(self) -> Rows:
        """The same rows for another stream; see `Source.view`."""
        made = copy(self)
        made._reader = self._reader.view()
        made.attach(Meter())
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._meter = meter
        self._reader.attach(meter)

    def scatter(self, is_scattered: bool) -> None:
        """Whether rows come one here and one there; see `TableReader.scatter`."""
        self._reader.scatter(is_scattered, self._columns_read)

    def read(self, rows: Indices, words: Words, allocate: Allocate) -> Columns:  # noqa: ARG002
        """The columns of rows.

        Raises:
            BadRowsError: some have a record of another size than the table's first, lack a number,
                or are lost; names all of them.
            StoreError: nothing can be read.
        """
        try:
            return self._read(rows, allocate)
        except StoreError as error:
            raise BadRowsError(lost_rows(self._reader, self._columns_read, rows, error)) from error

    def _read(self, rows: Indices, allocate: Allocate) -> Columns:
        refused: dict[int, Refusal] = {}
        columns: Columns = {"row_index": rows.copy()}
        for name in self.columns:
            if name in self._types:
                views = self._reader.views(name, rows)
                with self._meter.during("collate"):
                    columns[name] = self._stacked(name, views, allocate, refused)
                continue
            try:
                columns[name] = read_column(self._reader, name, rows, self._fill.get(name))
            except NullNumbersError as error:
                why = Refusal(Reason.BAD_ROW, f"{name} is null, and not to be filled (fill)")
                refused |= dict.fromkeys(error.places, why)
        if refused:
            raise BadRowsError(bad_rows(self._reader, rows, refused))
        return columns

    def prefetch(self, rows: Indices) -> Prefetch:
        """Begin to bring the rows near; returns at once."""
        return self._reader.prefetch(self._columns_read, rows)

    def expect(self, rows: Indices, in_s: float) -> None:
        """The blocks of these rows are done with, and wanted again in about so many seconds."""
        self._reader.expect(self._columns_read, rows, in_s)

    def costs(self, rows: Indices, unit: str) -> npt.NDArray[np.float64]:
        """How much each row counts for, (n,).

        Args:
            rows: (n,).
            unit: `examples`: 1 each; or a column of numbers (of tokens, say), read or not: NaN
                where it is null.

        Raises:
            InputError: another unit.
        """
        if unit == "examples":
            return np.ones(len(rows))
        names = self.table.schema.names
        units = ["examples", *(n for n in names if column_kind(self._reader, n) == "numbers")]
        if unit not in units:
            raise InputError(
                "A unit is unknown",
                where=self.table.uri,
                expected="examples, or a column of numbers",
                found=repr(unit),
                fix=nearest(unit, units),
            )
        try:
            return np.array(read_column(self._reader, unit, rows), np.float64)
        except NullNumbersError as error:
            costs = self._reader.numbers(unit, rows, fill=0).astype(np.float64)
            costs[list(error.places)] = np.nan
            return costs

    def domains(self, rows: Indices) -> list[str | None]:
        """The domain of each row; None where the table has none."""
        return row_domains(self._reader, rows)

    def ids(self, rows: Indices) -> list[str]:
        """The utt_id of each row, or its number where the table has none."""
        return row_names(self._reader, rows)

    def prepare_fork(self) -> None:
        """Read what a forked process could not.

        Raises:
            InputError: a forked process cannot read this table.
        """
        check_fork(self._reader, self.columns)
        self._reader.prepare_fork(self._columns_read)

    def _size_of_first(self, column: str) -> int:
        """Bytes of the table's first record, which all others must have."""
        if not self._reader.num_rows:
            return 0
        (size,) = self._reader.sizes(column, np.zeros(1, np.int64)).tolist()
        if size == 0 or size % self._types[column].itemsize:
            raise InputError(
                f"The records of {column!r} are no {self._types[column]}",
                where=f"{self.table.uri}, version {self.table.version}, row 0",
                expected=f"a multiple of {self._types[column].itemsize} bytes, and not 0",
                found=f"{size} bytes",
            )
        return int(size)

    def _stacked(
        self,
        column: str,
        views: Sequence[Bytes | None],
        allocate: Allocate,
        refused: dict[int, Refusal],
    ) -> npt.NDArray[Any]:
        kind, size = self._types[column], self._record_bytes[column]
        out = allocate((len(views), size // kind.itemsize), kind)
        whole: list[Bytes] = [view for view in views if view is not None and view.size == size]
        if len(whole) == len(views):
            # All in one call: it lets go of the interpreter's lock once and not for every record.
            if whole:
                np.concatenate(whole, out=out.view(np.uint8).reshape(-1))
            return out
        for index, view in enumerate(views):
            if view is None or view.size != size:
                found = "null" if view is None else f"{view.size} bytes"
                refused[index] = Refusal(
                    Reason.EMPTY if view is None else Reason.SHAPE_CHANGED,
                    f"{column} is {found}, the table's first is {size} bytes",
                )
        return out


def _type_of(reader: TableReader, column: str, text: str) -> np.dtype[Any]:
    if column_kind(reader, column) != "media":
        raise SchemaError(
            f"as_array names a column that is not binary: {column!r}",
            where=reader.table.uri,
            found=str(reader.table.schema.field(column).type),
        )
    try:
        kind = np.dtype(text)
    except TypeError as error:
        raise InputError("A type is unknown", expected="int16, float32, …", found=text) from error
    if kind.kind not in "iufb":
        raise InputError("A type is no number", expected="int16, float32, …", found=text)
    return kind.newbyteorder("<")
