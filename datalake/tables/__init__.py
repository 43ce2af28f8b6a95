"""Tables: one protocol over Lance (the default), Delta and memory.

table = create_table("data/corpus.lance", schema)
table = table.append(rows, properties={"why": "first rows"})
table.take([5, 3], ["utt_id"])
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, cast

import pyarrow as pa

from datalake.errors import (
    InputError,
    MissingPackageError,
    NotFoundError,
    SchemaError,
    StoreError,
)
from datalake.tables.protocol import (
    Batches,
    Capabilities,
    CleanupReport,
    CommitMode,
    Piece,
    RowIndices,
    Stager,
    Table,
    VersionInfo,
)
from datalake.uri import Location, locate

__all__ = [
    "FORMATS",
    "Batches",
    "Capabilities",
    "CleanupReport",
    "CommitMode",
    "Piece",
    "RowIndices",
    "Stager",
    "Table",
    "VersionInfo",
    "create_table",
    "drop_table",
    "open_table",
]

FORMATS: Final = ("lance", "delta", "memory")

Place = str | os.PathLike[str] | Location


class _Format(Protocol):
    """What the module of a format offers."""

    def create(
        self, location: Location, schema: pa.Schema, properties: dict[str, str]
    ) -> Table: ...

    def open_at(self, location: Location, version: int | None) -> Table: ...

    def drop(self, location: Location) -> None: ...


def create_table(
    location: Place,
    schema: pa.Schema,
    *,
    format: str = "lance",  # noqa: A002 - the word everybody uses
    properties: Mapping[str, str] | None = None,
) -> Table:
    """Make an empty table.

    Args:
        location: a path, a uri or a `Location`. Tables under memory:// are of the format memory.
        schema: the columns; media columns are made by `datalake.schema.media_field`.
        format: `lance`, `delta` or `memory`.
        properties: recorded with the first version.

    Raises:
        ExistsError: there is a table already.
        SchemaError: the format cannot hold a column.
        StoreError: the store refused, or the path is a file.
    """
    location = _usable(locate(location))
    if len(set(schema.names)) < len(schema.names) or not all(schema.names) or not schema.names:
        raise SchemaError(
            "The schema cannot be used",
            where=location.uri,
            expected="one column or more, each with a name of its own",
            found=", ".join(schema.names) or "no column",
        )
    return _module(location, format).create(location, schema, dict(properties or {}))


def open_table(
    location: Place,
    *,
    format: str | None = None,  # noqa: A002
    version: int | None = None,
) -> Table:
    """Open a table at a version, or the latest.

    Args:
        location: a path, a uri or a `Location`.
        format: `lance`, `delta` or `memory`; None looks at the store.
        version: None for the latest.

    Raises:
        NotFoundError: there is no table, or no such version.
        StoreError: the store refused, or the path is a file.
    """
    location = _usable(locate(location))
    if format is not None:
        return _module(location, format).open_at(location, version)
    table = _found(location)
    return table if version is None else table.at(version)


def drop_table(location: Place) -> None:
    """Remove a table and all its versions.

    Raises:
        NotFoundError: there is no table.
    """
    location = _usable(locate(location))
    _module(location, _found(location).format).drop(location)


def _module(location: Location, name: str) -> _Format:
    if name not in FORMATS:
        raise InputError(f"The table format {name} is not known", expected=" or ".join(FORMATS))
    if location.scheme == "memory":
        name = "memory"
    elif name == "memory":
        raise InputError(
            "A table in memory needs an address in memory",
            where=location.uri,
            expected="memory://name",
        )
    return cast("_Format", importlib.import_module(f"datalake.tables.{name}"))


def _usable(location: Location) -> Location:
    if location.is_local and Path(location.uri).is_file():
        raise StoreError(
            "A table cannot be here",
            where=location.uri,
            expected="a folder, or nothing yet",
            found="a file",
            fix="Choose another path",
        )
    return location


def _found(location: Location) -> Table:
    """The latest version of the table at a location, whatever its format: the suffix's first."""
    if location.scheme == "memory":
        return _module(location, "memory").open_at(location, None)
    suffix, found = Path(location.name).suffix, ""
    for name in sorted(("lance", "delta"), key=lambda name: suffix != f".{name}"):
        try:
            return _module(location, name).open_at(location, None)
        except NotFoundError as error:
            found = found or error.found
        except MissingPackageError:
            if suffix == f".{name}":
                raise
    raise NotFoundError(
        "There is no table",
        where=location.uri,
        expected="a Lance or a Delta table",
        found=found,
        fix="Check the address, or create the table first",
    )
