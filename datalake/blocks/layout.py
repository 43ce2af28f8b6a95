"""How the rows of a column are cut into blocks: a pure rule over a version of a table.

Orders are built on it and saved states hold it, so that it must give the same on every machine and
in every release (`tests/blocks/test_layout.py` pins it). A block is a power of two of rows, from
row 0 on; the last one may be shorter.

- Numbers of fixed width: 65,536 rows, or the most that stay within 16 MiB.
- Texts: 65,536 rows. In a table without a binary column, where texts could be long, the most rows
  that are at most 64 MiB by the version's average row.
- Media and other binary columns: the most rows whose average size is at most 16/3 MiB, so that a
  block has 8/3 to 16/3 MiB: the version's bytes, shared equally by its binary columns, over its
  rows. At most 65,536 rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from datalake.errors import InputError

__all__ = ["NARROW_ROWS", "Kind", "Layout", "layout_of"]

Kind: TypeAlias = Literal["numbers", "texts", "media"]

NARROW_ROWS: Final = 1 << 16
_NUMBER_BYTES: Final = 16 << 20
_TEXT_BYTES: Final = 64 << 20
_MEDIA_BYTES: Final = 4 << 20


@dataclass(frozen=True)
class Layout:
    """How one column is read and cut."""

    column: str
    kind: Kind
    block_rows: int
    """A power of two."""
    num_rows: int
    """Rows of the table."""
    row_bytes: int
    """About so many bytes a row takes in a block."""
    dtype: np.dtype[np.generic] | None = None
    """Of numbers."""
    width: int | None = None
    """Numbers a row, for fixed-size lists."""

    @property
    def num_blocks(self) -> int:
        """Blocks of the column."""
        return -(-self.num_rows // self.block_rows)

    def span(self, block: int) -> tuple[int, int]:
        """The first row of a block, and the row after its last."""
        first = block * self.block_rows
        return first, min(first + self.block_rows, self.num_rows)

    def bytes_of(self, block: int) -> int:
        """About how many bytes a block has."""
        first, stop = self.span(block)
        return (stop - first) * self.row_bytes


def layout_of(schema: pa.Schema, column: str, *, num_rows: int, num_bytes: int) -> Layout:
    """The layout of a column of a version.

    Args:
        schema: of the table.
        column: one of its columns.
        num_rows: of the version.
        num_bytes: of the version's data files, all columns together.

    Raises:
        InputError: values of such a type are not read by row.
    """
    stored = schema.field(column).type
    num_binary = sum(_is_binary(field.type) for field in schema)
    if _is_binary(stored):
        row_bytes = -(-num_bytes // max(num_rows * num_binary, 1))
        # 3 * rows * bytes a row <= 4 * 4 MiB, in whole numbers.
        rows = _most_rows(3 * num_bytes, 4 * _MEDIA_BYTES * num_rows * num_binary)
        return Layout(column, "media", rows, num_rows, max(row_bytes, 1))
    if pa.types.is_string(stored) or pa.types.is_large_string(stored):
        rows = NARROW_ROWS if num_binary else _most_rows(num_bytes, _TEXT_BYTES * num_rows)
        return Layout(column, "texts", rows, num_rows, 16)
    width: int | None = None
    if pa.types.is_fixed_size_list(stored):
        stored, width = stored.value_type, stored.list_size
    if not (pa.types.is_integer(stored) or pa.types.is_floating(stored)) and stored != pa.bool_():
        raise InputError(
            f"The column {column} is not read by row",
            expected="numbers, fixed-size lists of numbers, texts or binary",
            found=str(schema.field(column).type),
            fix="Read it with Table.take",
        )
    dtype = np.dtype(np.bool_ if stored == pa.bool_() else stored.to_pandas_dtype())
    row_bytes = max(dtype.itemsize * (1 if width is None else width), 1)
    rows = _most_rows(row_bytes, _NUMBER_BYTES)
    return Layout(column, "numbers", rows, num_rows, row_bytes, dtype, width)


def _most_rows(cost: int, budget: int) -> int:
    """The largest power of two up to 65,536 of which each costs `cost`, within `budget`."""
    rows = NARROW_ROWS
    while rows > 1 and rows * cost > budget:
        rows //= 2
    return rows


def _is_binary(stored: pa.DataType) -> bool:
    return bool(pa.types.is_binary(stored) or pa.types.is_large_binary(stored))
