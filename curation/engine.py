"""The engine that groups, sorts and joins more than memory holds: DuckDB, spilling to disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["spilling_engine"]

_MEMORY_LIMIT: Final = "2GB"


@contextmanager
def spilling_engine(
    memory_limit: str = _MEMORY_LIMIT, *, disabled_optimizers: str = ""
) -> Iterator[Any]:
    """A connection to a database of its own, gone with its files at the end.

    Args:
        memory_limit: what it may hold before it spills.
        disabled_optimizers: names, with commas.
    """
    import duckdb

    with (
        tempfile.TemporaryDirectory(prefix="curate-") as spill,
        duckdb.connect(
            config={
                "memory_limit": memory_limit,
                "preserve_insertion_order": False,
                "temp_directory": spill,
                "autoinstall_known_extensions": False,
                "disabled_optimizers": disabled_optimizers,
            }
        ) as engine,
    ):
        yield engine
