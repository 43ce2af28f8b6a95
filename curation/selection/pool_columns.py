"""Columns of the rows of pools as scratch files, in the order of the hash.

So an order may look at all rows of a domain again and again, and none need be in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from curation.domains import keys_of
from curation.neighbors.unit_vectors import dims_of, unit_batches
from datalake.errors import InputError, SchemaError
from datalake.tables import Table

__all__ = ["ColumnFile", "write_columns"]

_NUM_ROWS_NAMED: Final = 5

IntArray = npt.NDArray[np.int64]
_Batch = tuple[IntArray, npt.NDArray[Any], npt.NDArray[np.str_]]
"""Row indices, values, and what is wrong with each row; of most it is empty."""


@dataclass(frozen=True)
class ColumnFile:
    """A file of the values of a column, row after row. Picklable."""

    path: Path
    dtype: str
    num_rows: int
    row_shape: tuple[int, ...]

    def open(self, start: int, stop: int, *, writable: bool = False) -> npt.NDArray[Any]:
        """Map some rows, one at least."""
        dtype = np.dtype(self.dtype)
        row_bytes = dtype.itemsize * int(np.prod(self.row_shape, dtype=np.int64))
        return np.memmap(
            self.path,
            dtype,
            "r+" if writable else "r",
            offset=start * row_bytes,
            shape=(stop - start, *self.row_shape),
        )


def write_columns(
    table: Table,
    columns: Sequence[str],
    row_index: IntArray,
    places: IntArray,
    folder: Path,
    *,
    where: str | None,
) -> Mapping[str, ColumnFile]:
    """Write columns out for some rows, as `PoolRows` describes them.

    Memory: a batch, 24 bytes a row while it is written, and each distinct string once.

    Args:
        table: the version to read.
        columns: vectors, numbers or strings.
        row_index: the rows, ascending, (rows,).
        places: where each goes, from 0 without a gap, (rows,).
        folder: where the files are made.
        where: read only rows for which this holds.

    Raises:
        InputError: a row has no value, or a vector without a direction.
        SchemaError: a column is of another type.
    """
    files = {}
    for number, column in enumerate(columns):
        batches, dtype, row_shape = _reading(table, column, where)
        file = ColumnFile(folder / f"column-{number}", dtype, len(row_index), row_shape)
        with file.path.open("wb") as empty:
            empty.truncate(len(row_index) * np.dtype(dtype).itemsize * int(np.prod(row_shape)))
        _write(table, column, batches, row_index, places, file)
        files[column] = file
    return files


def _write(
    table: Table,
    column: str,
    batches: Iterator[_Batch],
    row_index: IntArray,
    places: IntArray,
    file: ColumnFile,
) -> None:
    faults: dict[str, int] = {}
    named: list[int] = []
    for index, values, fault in batches:
        found = np.minimum(np.searchsorted(row_index, index), len(row_index) - 1)
        wanted = row_index[found] == index
        bad = wanted & (fault != "")
        for reason in fault[bad].tolist():
            faults[reason] = faults.get(reason, 0) + 1
        named += index[bad][: _NUM_ROWS_NAMED - len(named)].tolist()
        if wanted.any():
            # Mapped for this batch alone, so that no more of the file counts as this process's.
            mapped = file.open(0, file.num_rows, writable=True)
            mapped[places[found[wanted]]] = values[wanted]
            del mapped
    if faults:
        _refuse(table, column, faults, named)


def _refuse(table: Table, column: str, faults: Mapping[str, int], named: Sequence[int]) -> None:
    id_column = keys_of(table.schema).id_column
    ids = table.take(named, [id_column])[id_column].to_pylist()
    rows = ", ".join(f"{name} (row {row})" for name, row in zip(ids, named, strict=True))
    count = sum(faults.values())
    metadata = table.schema.field(column).metadata or {}
    embedder = metadata.get(b"datalake.embedder", b"").decode()
    run = f"curate embed TABLE --with {embedder} --as {column} --replace"
    raise InputError(
        f"{count:,} rows of domains that are cut cannot be ordered by {column}",
        where=table.uri,
        expected="a value in every row of such a domain",
        found="; ".join(f"{number:,} {reason}" for reason, number in sorted(faults.items()))
        + f": {rows}"
        + (", …" if count > len(named) else ""),
        fix=(f"Run `{run}`, or leave" if embedder else "Fill the column, or leave")
        + f" them out with a `where` such as: {column} IS NOT NULL",
    )


def _reading(
    table: Table, column: str, where: str | None
) -> tuple[Iterator[_Batch], str, tuple[int, ...]]:
    kind = table.schema.field(column).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_nested(kind):
        dims = dims_of(table, column, where)
        return unit_batches(table, column, dims, where), "float32", (dims,)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return _numbers(table, column, where), "float64", ()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _numbered(table, column, where), "int64", ()
    raise SchemaError(
        f"Rows cannot be ordered by the column {column}",
        where=table.uri,
        expected="vectors, numbers or strings",
        found=str(kind),
    )


def _numbers(table: Table, column: str, where: str | None) -> Iterator[_Batch]:
    for batch in table.scan([column], where=where, with_row_index=True):
        values = batch[column].cast(pa.float64(), safe=False)
        yield _batch(batch, values.to_numpy(zero_copy_only=False), values)


def _numbered(table: Table, column: str, where: str | None) -> Iterator[_Batch]:
    numbers: dict[str, int] = {}
    for batch in table.scan([column], where=where, with_row_index=True):
        values = batch[column].cast(pa.string())
        encoded = values.dictionary_encode()
        own = [numbers.setdefault(name, len(numbers)) for name in encoded.dictionary.to_pylist()]
        codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
        yield _batch(batch, np.array(own or [0], np.int64)[codes], values)


def _batch(batch: pa.RecordBatch, values: npt.NDArray[Any], source: pa.Array) -> _Batch:
    fault = np.where(source.is_null().to_numpy(zero_copy_only=False), "null", "")
    return batch["row_index"].to_numpy().astype(np.int64), values, fault
