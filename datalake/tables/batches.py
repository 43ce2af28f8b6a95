"""Rows on their way into a table: any Arrow input as a stream of batches of the table's schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import InputError, SchemaError, nearest
from datalake.tables.protocol import Batches, RowIndices

__all__ = [
    "Source",
    "Splitter",
    "as_positions",
    "as_reader",
    "conform",
    "conforms",
    "described",
    "with_types",
]


def as_reader(data: Batches, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Any of `Batches` as a reader. `schema` stands in for an iterable that has no batch.

    Raises:
        InputError: it is no Arrow data, or an iterable without a batch and no schema is given.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.Table):
        return data.to_reader()
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    batches = _record_batches(data if isinstance(data, Iterable) else [data])
    first = next(batches, None)
    if first is None:
        if schema is None:
            raise InputError("There are no rows, and so no schema", expected="at least one batch")
        return pa.RecordBatchReader.from_batches(schema, [])
    return pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))


def _record_batches(items: Iterable[object]) -> Iterator[pa.RecordBatch]:
    for item in items:
        if not isinstance(item, pa.RecordBatch):
            raise InputError(
                "Rows cannot be read",
                expected="a pyarrow Table, RecordBatch, RecordBatchReader or iterable of batches",
                found=type(item).__name__,
            )
        yield item


def conforms(given: pa.Schema, schema: pa.Schema) -> bool:
    """Whether rows of `given` can be stored under `schema` as they are."""
    return set(given.names) == set(schema.names) and all(
        _storable(given.field(field.name).type, field.type) for field in schema
    )


def described(schema: pa.Schema) -> str:
    """The columns as text, without metadata: equal for schemas under which pieces are equal."""
    return ", ".join(
        f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )


def conform(
    reader: pa.RecordBatchReader, schema: pa.Schema, *, where: str
) -> Iterator[pa.RecordBatch]:
    """The batches with the columns in the order and types of `schema`; empty ones are left out.

    Types may differ in the width of offsets and in dictionary encoding only.

    Raises:
        SchemaError: columns are missing, unknown or of another type, or a value is null where the
            schema forbids it.
    """
    _check(reader.schema, schema, where)
    for batch in reader:
        if not batch.schema.equals(reader.schema):  # Arrow lets a reader's batches differ.
            _check(batch.schema, schema, where)
        if batch.num_rows:
            yield _fit(batch, schema, where)


def _check(given: pa.Schema, schema: pa.Schema, where: str) -> None:
    for name in given.names:
        if name not in schema.names:
            raise SchemaError(
                f"The rows have a column that the table has not: {name}",
                where=where,
                fix=nearest(name, schema.names),
            )
    if len(set(given.names)) < len(given.names):
        raise SchemaError("The rows have two columns of one name", where=where)
    for field in schema:
        if field.name not in given.names:
            raise SchemaError(
                f"The rows lack the column {field.name}",
                where=where,
                expected=f"columns {', '.join(schema.names)}",
                found=f"columns {', '.join(given.names)}",
            )
        if not _storable(given.field(field.name).type, field.type):
            raise SchemaError(
                f"The column {field.name} has another type",
                where=where,
                expected=str(field.type),
                found=str(given.field(field.name).type),
                fix="Cast it before writing",
            )


def _fit(batch: pa.RecordBatch, schema: pa.Schema, where: str) -> pa.RecordBatch:
    columns = []
    for field in schema:
        column = batch.column(field.name)
        if not field.nullable and column.null_count:
            raise SchemaError(
                f"The column {field.name} may not be null",
                where=where,
                found=f"{column.null_count} nulls in a batch of {batch.num_rows} rows",
            )
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _storable(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(given == wanted or _bare(given) == _bare(wanted))


def _bare(data_type: pa.DataType) -> pa.DataType:
    """The type without its offset width and dictionary encoding."""
    if pa.types.is_dictionary(data_type):
        return _bare(data_type.value_type)
    if pa.types.is_large_string(data_type):
        return pa.string()
    if pa.types.is_large_binary(data_type):
        return pa.binary()
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(_bare(data_type.value_type))
    return data_type


def with_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch under `schema`, column by column; casts where a format stores another type."""
    return pa.RecordBatch.from_arrays(
        [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ],
        schema=schema,
    )


def as_positions(indices: RowIndices, num_rows: int) -> npt.NDArray[np.int64]:
    """Row indices as an int64 array.

    Raises:
        InputError: they are no integers, or one is out of range.
    """
    if isinstance(indices, pa.Array | pa.ChunkedArray):
        if indices.null_count:
            raise InputError("A row index is null", found=f"{indices.null_count} nulls")
        indices = indices.to_numpy(zero_copy_only=False)
    positions = np.asarray(indices)
    if not positions.size:
        return np.empty(0, np.int64)
    if positions.ndim != 1 or not np.issubdtype(positions.dtype, np.integer):
        raise InputError(
            "Row indices cannot be used",
            expected="a flat sequence of integers",
            found=f"{positions.dtype} of shape {positions.shape}",
        )
    low, high = int(positions.min()), int(positions.max())
    if low < 0 or high >= num_rows:
        raise InputError(
            "A row index is out of range",
            expected=f"0 to {num_rows - 1}" if num_rows else "none, as the table is empty",
            found=str(low if low < 0 else high),
        )
    return positions.astype(np.int64, copy=False)


class Splitter:
    """Cuts one stream of rows into runs of given lengths."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def next_rows(self, num_rows: int) -> Iterator[pa.RecordBatch]:
        """The next `num_rows` rows, or fewer where the stream ends."""
        while num_rows:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            self._rest = None
            if batch is None:
                return
            if batch.num_rows > num_rows:
                self._rest = batch.slice(num_rows)
                batch = batch.slice(0, num_rows)
            num_rows -= batch.num_rows
            yield batch

    def finish(self) -> None:
        """Read to the end, so that a stream that checks its length gets to do so."""
        for _ in self._batches:
            pass


class Source:
    """A caller's batches, whose errors stay the caller's even where a library wraps them."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except Exception as error:
            self._error = error
            raise

    @contextmanager
    def unmasked(self) -> Iterator[None]:
        """Raise the source's own error instead of what a library made of it."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise
