"""The vectors of an embedding column, each of length 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import SchemaError
from datalake.tables import Table

__all__ = ["dims_of", "rows_at_once", "unit_batches", "unit_vectors"]

_NUMBERS_AT_ONCE: Final = 1 << 19
_FLOATS: Final = (pa.float16(), pa.float32(), pa.float64())


def dims_of(table: Table, column: str, where: str | None) -> int:
    """The size of the vectors of a column.

    Raises:
        SchemaError: it holds no vectors of one size.
    """
    kind = table.schema.field(column).type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if pa.types.is_fixed_size_list(kind) and kind.value_type in _FLOATS:
        return int(kind.list_size)
    if is_list and kind.value_type in _FLOATS:
        for batch in table.scan([column], where=where):
            first = batch[column].drop_null()
            if len(first):
                return len(first[0])
        return 1
    raise SchemaError(
        f"The column {column} holds no embeddings",
        where=table.uri,
        expected="a list of floats, the same number in every row",
        found=str(kind),
    )


def unit_batches(
    table: Table, column: str, dims: int, where: str | None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32], npt.NDArray[np.str_]]]:
    """Row indices, unit vectors (of zeros where there is none) and what is wrong with each.

    Of the rows for which `where` holds, in the table's order, half a million numbers at once. What
    can be wrong is `null`, `not_finite` and `zero`; of most it is empty.

    Raises:
        SchemaError: vectors differ in size.
    """
    rows = table.scan([column], where=where, with_row_index=True, batch_size=rows_at_once(dims))
    for batch in rows:
        units, fault = unit_vectors(batch[column], dims, f"{column} of {table.uri}")
        yield batch["row_index"].to_numpy().astype(np.int64), units, fault


def unit_vectors(
    lists: pa.Array, dims: int, where: str
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.str_]]:
    """The vectors of a batch, (n, dims), and what is wrong with each, (n,); see `unit_batches`.

    Raises:
        SchemaError: vectors differ in size; names `where`.
    """
    null = lists.is_null().to_numpy(zero_copy_only=False)
    try:
        lists = lists.cast(pa.list_(pa.float32(), dims))
    except pa.ArrowInvalid as error:
        raise SchemaError(
            "The vectors of a column differ in size",
            where=where,
            expected=f"{dims} numbers, as the first has",
            found=str(error),
        ) from error
    values = lists.values.slice(lists.offset * dims, len(lists) * dims)
    raw = values.to_numpy(zero_copy_only=False).reshape(-1, dims).astype(np.float64)
    raw[null] = 0
    finite = np.isfinite(raw).all(axis=1)
    raw[~finite] = 0
    lengths = np.sqrt(np.einsum("ij,ij->i", raw, raw))
    # What is near zero has no direction in float32 either.
    has_direction = lengths > np.finfo(np.float32).tiny
    fault = np.where(
        null, "null", np.where(~finite, "not_finite", np.where(has_direction, "", "zero"))
    )
    # Adding 0 makes -0 the 0 that it equals.
    units = raw / np.where(has_direction, lengths, 1)[:, None] + 0.0
    units[~has_direction] = 0
    return units.astype(np.float32), fault


def rows_at_once(dims: int) -> int:
    """How many vectors are half a million numbers."""
    return max(1, _NUMBERS_AT_ONCE // max(dims, 1))
