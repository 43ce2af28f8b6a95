"""The engine that groups and joins more than memory holds: DuckDB, spilling to disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["spilling_engine"]

MEMORY_LIMIT: Final = "2GB"
"""What it may hold before it spills."""


@contextmanager
def spilling_engine() -> Iterator[Any]:
    """A connection to a database of its own, gone with its files at the end."""
    import duckdb

    with (
        tempfile.TemporaryDirectory(prefix="curate-") as spill,
        duckdb.connect(
            config={
                "memory_limit": MEMORY_LIMIT,
                "preserve_insertion_order": False,
                "temp_directory": spill,
                "autoinstall_known_extensions": False,
            }
        ) as engine,
    ):
        yield engine
