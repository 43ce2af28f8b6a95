"""Columns of a table as they are: arrays of numbers, lists of texts, bytes or other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.blocks.reader import TableReader
from datalake.errors import InputError
from datalake.loader.order.order import Indices

__all__ = ["NullNumbersError", "check_fork", "column_kind", "read_column", "read_list", "readable"]


class NullNumbersError(Exception):
    """Rows whose number is null, of a type that has no NaN. Never leaves the sources."""

    def __init__(self, places: Sequence[int]) -> None:
        super().__init__(list(places))
        self.places = tuple(places)


def column_kind(reader: TableReader, column: str) -> str:
    """`numbers`, `texts`, `media` (any bytes), or `other`: what only the table itself can read."""
    try:
        return reader.layout(column).kind
    except InputError:
        return "other"


def readable(reader: TableReader, columns: Sequence[str]) -> list[str]:
    """Those of the columns that the reader reads, each once."""
    return [name for name in dict.fromkeys(columns) if column_kind(reader, name) != "other"]


def check_fork(reader: TableReader, columns: Sequence[str]) -> None:
    """Refuse columns that a forked process could not read.

    Raises:
        InputError: there is one.
    """
    table = reader.table
    others = [name for name in columns if column_kind(reader, name) == "other"]
    if others and not table.capabilities.survives_fork:
        raise InputError(
            f"Forked processes cannot read {', '.join(others)}",
            where=table.uri,
            found=f"a {table.format} table, and values other than numbers, texts and bytes",
            fix="Leave these columns out, or use threads or spawned processes",
        )


def read_column(
    reader: TableReader,
    column: str,
    rows: Indices,
    fill: float | None = None,
) -> npt.NDArray[Any] | list[Any]:
    """One value a row: numbers as an array (n,) or (n, k), all else as a list.

    Texts are `str`, bytes `bytes`, other values (lists, structs, times) what `to_pylist` makes of
    them, each None for null. A float that is null is NaN.

    Args:
        reader: of the table.
        column: which.
        rows: (n,).
        fill: instead of a number that is null.

    Raises:
        NullNumbersError: numbers that cannot be NaN are null, and nothing is to be put there.
        StoreError: rows cannot be read.
    """
    kind = column_kind(reader, column)
    if kind == "numbers":
        try:
            return reader.numbers(column, rows, fill=fill)
        except InputError as error:
            nulls = _nulls(reader, column, rows)
            if not nulls:
                raise
            raise NullNumbersError(nulls) from error
    if kind == "texts":
        return list(reader.texts(column, rows))
    if kind == "media":
        return [None if view is None else view.tobytes() for view in reader.views(column, rows)]
    ascending, places = np.unique(rows, return_inverse=True)
    values = reader.table.take(ascending, [column])[column].to_pylist()
    return [values[place] for place in places.tolist()]


def read_list(reader: TableReader, column: str, rows: Indices) -> list[Any]:
    """One value a row as a list, numbers too: None for null, but NaN for a float.

    Raises:
        StoreError: rows cannot be read.
    """
    try:
        values = read_column(reader, column, rows)
    except NullNumbersError as error:
        filled: list[Any] = reader.numbers(column, rows, fill=0).tolist()
        for place in error.places:
            filled[place] = None
        return filled
    return values.tolist() if isinstance(values, np.ndarray) else values


def _nulls(reader: TableReader, column: str, rows: Indices) -> list[int]:
    """Which of the rows are null: those that become whatever is put in the place of null."""
    zeros, ones = (reader.numbers(column, rows, fill=fill) for fill in (0, 1))
    differ = (zeros != ones).reshape(len(rows), -1).any(1)
    return [int(place) for place in np.flatnonzero(differ)]
