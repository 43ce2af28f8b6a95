"""Results on stdout: tables for people, plain columns for pipes, JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import typer

from datalake.schema import MEDIA_KEY, is_media

__all__ = ["Rows", "media_kind", "print_json", "print_pairs", "print_table", "size"]

Rows: TypeAlias = pa.Table | Sequence[Mapping[str, object]]

# A text is folded to no fewer columns.
_FOLDED_WIDTH: Final = 18
# Of a longer list a cell shows the beginning and the end; JSON has all of it.
_LIST_SHOWN: Final = 12
_LIST_ENDS: Final = (5, 2)
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


def size(num_bytes: int) -> str:
    """A number of bytes for a person: `48.2 kB`."""
    value, unit = float(num_bytes), 0
    # 999.95 would print as 1000.0.
    while value >= 999.95 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit else f"{num_bytes} B"


def print_json(value: object) -> None:
    """Print a value as JSON. Times become ISO 8601, media what they weigh, tables lists of rows."""
    typer.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(rows: Rows, *, columns: Sequence[str] | None = None) -> None:
    """Print rows under their column names.

    A pipe gets aligned columns that are never cut. A terminal gets a table, texts folded if need
    be, or where that would still be too wide, a block of names and values for each row.

    Args:
        rows: a table, or mappings.
        columns: the columns in order; needed only if there may be no rows.
    """
    names, records = _records(rows, columns)
    cells = [[_cell(record.get(name)) for name in names] for record in records]
    numeric = [any(_is_number(record.get(name)) for record in records) for name in names]
    if not sys.stdout.isatty():
        _print_plain(names, cells, numeric)
    elif _least_width(names, cells, numeric) <= shutil.get_terminal_size().columns:
        _print_rich(names, cells, numeric)
    else:
        for line in cells:
            print_pairs(dict(zip(names, line, strict=True)))
            typer.echo()


def print_pairs(pairs: Mapping[str, object]) -> None:
    """Print names and values, one pair a line."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        typer.echo(f"{name:<{width}}  {_cell(value)}")


def _records(
    rows: Rows, columns: Sequence[str] | None
) -> tuple[list[str], Sequence[Mapping[str, object]]]:
    if isinstance(rows, pa.Table):
        return list(columns or rows.column_names), _weighed(rows)
    return list(columns or dict.fromkeys(name for row in rows for name in row)), rows


def media_kind(field: pa.Field) -> str | None:
    """`audio`, `image` or `video` for a column of encoded media."""
    return field.metadata[MEDIA_KEY].decode() if is_media(field) else None


class _Media:
    """Encoded media as a cell: what they are and what they weigh, not their bytes."""

    def __init__(self, kind: str, num_bytes: int) -> None:
        self.kind = kind
        self.num_bytes = num_bytes

    def __str__(self) -> str:
        return f"<{size(self.num_bytes)} {self.kind}>"


def _weighed(table: pa.Table) -> Sequence[Mapping[str, object]]:
    """The rows of a table, media by their weight."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for field in table.schema:
        if kind := media_kind(field):
            for row in rows:
                if row[field.name] is not None:
                    row[field.name] = _Media(kind, len(row[field.name]))
    return rows


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dt.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}" + ("Z" if value.tzinfo == dt.UTC else "")
    if isinstance(value, bytes):
        return str(_Media("bytes", len(value)))
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_cell(item)}" for key, item in value.items()) or "-"
    if isinstance(value, list | tuple):
        if len(value) <= _LIST_SHOWN:
            return ", ".join(map(_cell, value)) or "-"
        first, last = _LIST_ENDS
        shown = [*map(_cell, value[:first]), "…", *map(_cell, value[-last:])]
        return f"{', '.join(shown)} ({len(value):,})"
    # A cell is one line.
    return " ".join(str(value).split()) or "-"


def _plain(value: object) -> object:
    """`value` in the types JSON knows."""
    if isinstance(value, pa.Table):
        return [_plain(row) for row in _weighed(value)]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dt.datetime | dt.date):
        return value.isoformat()
    if isinstance(value, bytes):
        return {"kind": "bytes", "num_bytes": len(value)}
    if isinstance(value, _Media):
        return {"kind": value.kind, "num_bytes": value.num_bytes}
    if isinstance(value, str | int | None):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    return str(value)


def _widths(names: list[str], cells: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(names, *cells, strict=True)]


def _least_width(names: list[str], cells: list[list[str]], numeric: list[bool]) -> int:
    """How wide a table is with its texts folded and two spaces between its columns."""
    widths = [
        width if right else min(width, max(len(name), _FOLDED_WIDTH))
        for name, width, right in zip(names, _widths(names, cells), numeric, strict=True)
    ]
    return sum(widths) + 2 * (len(widths) - 1)


def _print_plain(names: list[str], cells: list[list[str]], numeric: list[bool]) -> None:
    widths = _widths(names, cells)
    for line in [names, *cells]:
        padded = (
            f"{cell:>{width}}" if right else f"{cell:<{width}}"
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        typer.echo("  ".join(padded).rstrip())


def _print_rich(names: list[str], cells: list[list[str]], numeric: list[bool]) -> None:
    # rich is dear to import and wanted on terminals only.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for name, right in zip(names, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold", no_wrap=right)
    for line in cells:
        table.add_row(*map(Text, line))
    Console().print(table)
