"""Tables in the Delta Lake format."""

from __future__ import annotations

import pyarrow as pa

from datalake.tables.protocol import Table
from datalake.uri import Location


def exists(location: Location) -> bool:
    """Whether a Delta table is there."""
    return False


def create(location: Location, schema: pa.Schema, properties: dict[str, str]) -> Table:
    """Make an empty table."""
    raise NotImplementedError


def open_at(location: Location, version: int | None) -> Table:
    """Open a version."""
    raise NotImplementedError


def drop(location: Location) -> None:
    """Remove a table."""
    raise NotImplementedError
