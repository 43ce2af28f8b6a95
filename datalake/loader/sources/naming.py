"""Which table and selection a name stands for; what rows are called, and why some are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from datalake.blocks.origin import NOT_OF_ROWS
from datalake.blocks.reader import TableReader
from datalake.episodes import EpisodeSet, open_episodes
from datalake.episodes.episode_set import require_set
from datalake.errors import InputError, SchemaError, StoreError, nearest
from datalake.lake import Lake, Selection
from datalake.loader.order.order import Indices
from datalake.loader.sources.source import BadRow
from datalake.quarantine import Refusal
from datalake.tables.protocol import Table

__all__ = [
    "bad_rows",
    "check_columns",
    "chosen",
    "chosen_set",
    "lost_rows",
    "row_domains",
    "row_names",
]


MISSING_BLOCK: Final = "missing_block"
"""The reason of rows that the table has lost."""


def chosen(lake: Lake, table: str, selection: str | None) -> tuple[Table, Selection | None]:
    """A table of a lake at its latest version, or a selection and the version it was made from.

    Raises:
        NotFoundError: there is no such table or selection.
        InputError: the selection was made from another table.
    """
    if selection is None:
        return lake[table], None
    found = lake.selection(selection)
    if found.table != table:
        raise InputError(
            f"The selection {selection!r} was made from another table",
            where=str(lake.location),
            expected=f"a selection of {table}",
            found=f"one of {found.table}",
        )
    return lake[table].at(found.table_version), found


def chosen_set(
    lake: Lake, name: str, version: int | None, selection: str | None
) -> tuple[EpisodeSet, Selection | None]:
    """An episode set of a lake, at the version that a selection of its episodes was made from.

    Raises:
        NotFoundError: there is no such set, version or selection.
        InputError: the selection was made from another table, or from another version than that.
    """
    if selection is None:
        return open_episodes(lake, name, version), None
    require_set(lake, name)
    table, found = chosen(lake, f"{name}.episodes", selection)
    if version is not None and version != table.version:
        raise InputError(
            f"The selection {selection!r} was made from another version of the episodes",
            where=str(lake.location),
            expected=f"version {table.version}, or none given",
            found=f"version {version}",
        )
    return open_episodes(lake, name, table.version), found


def check_columns(
    table: Table, columns: Sequence[str], taken: frozenset[str] = frozenset()
) -> None:
    """Refuse columns that the table lacks, and names that a batch gives to something else.

    Raises:
        SchemaError: a column is not there.
        InputError: a column has a name that is taken, or is asked for twice.
    """
    names = table.schema.names
    for name in columns:
        if name not in names:
            raise SchemaError(
                f"The table has no column {name!r}", where=table.uri, fix=nearest(name, names)
            )
    clashes = sorted(taken.intersection(columns))
    if clashes:
        raise InputError(
            "A column has the name of something every batch holds",
            where=table.uri,
            found=", ".join(clashes),
            fix="Leave it out of `columns`; " + ", ".join(sorted(taken)) + " are always there",
        )
    if len(set(columns)) < len(columns):
        raise InputError("A column is asked for twice", where=table.uri, found=", ".join(columns))


def row_names(reader: TableReader, rows: Indices) -> list[str]:
    """What a person calls each row: its utt_id, or its number where the table has none."""
    if "utt_id" not in reader.table.schema.names:
        return [f"row {row}" for row in rows.tolist()]
    return [str(name) for name in reader.texts("utt_id", rows)]


def row_domains(reader: TableReader, rows: Indices) -> list[str | None]:
    """The domain of each row; None where the table has none."""
    if "domain" not in reader.table.schema.names:
        return [None] * len(rows)
    return list(reader.texts("domain", rows))


def bad_rows(
    reader: TableReader, rows: Indices, refused: Mapping[int, Refusal | StoreError]
) -> list[BadRow]:
    """Where rows that make no example stand, and why, in the order of the batch.

    Args:
        reader: of the table.
        rows: (n,): the batch.
        refused: which of them, by their place in the batch.

    Raises:
        RefusedError, CredentialsError, DiskFullError: the store gives no ids at the moment, so that
            it is not known either whether other rows would come.
    """
    # Ids are read only now, since few ask for them.
    places = sorted(refused)
    try:
        names = row_names(reader, rows[places])
    except NOT_OF_ROWS:
        raise
    except StoreError:
        names = ["id unknown"] * len(places)
    table = reader.table
    bad = []
    for place, name in zip(places, names, strict=True):
        why, row = refused[place], int(rows[place])
        where = f"{table.uri}, version {table.version}, row {row}, {name}"
        if isinstance(why, StoreError):
            bad.append(BadRow(place, row, where, MISSING_BLOCK, str(why)))
        else:
            bad.append(BadRow(place, row, where, str(why.reason), why.detail))
    return bad


def lost_rows(
    reader: TableReader, columns: Sequence[str], rows: Indices, error: StoreError
) -> list[BadRow]:
    """Which rows of a batch the table has lost, after reading all of them has failed.

    Args:
        reader: of the table.
        columns: those that were read.
        rows: (n,): the batch.
        error: what reading them said.

    Raises:
        StoreError: all of several are lost, so that it is the store and not the rows; or none is,
            so that reading again may well succeed; or it refuses.
    """
    if isinstance(error, NOT_OF_ROWS):
        raise error
    lost = reader.lost(columns, rows)
    if not lost or len(lost) == len(np.unique(rows)) > 1:
        raise error
    places = {place: lost[row] for place, row in enumerate(rows.tolist()) if row in lost}
    return bad_rows(reader, rows, places)
