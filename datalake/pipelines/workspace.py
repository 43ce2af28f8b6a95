"""Folders for what a run needs and nobody keeps: one on this machine, one that workers reach."""

from __future__ import annotations

import datetime as dt
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from datalake.lake import Lake, storage
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["local_folder", "shared_folder"]

_PLANS: Final = "plans"
_ABANDONED_AFTER: Final = dt.timedelta(days=3)


@contextmanager
def local_folder() -> Iterator[Path]:
    """A folder on this machine's disk, for DuckDB."""
    with tempfile.TemporaryDirectory(prefix="datalake-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def shared_folder(lake: Lake, run_id: str) -> Iterator[Location]:
    """A folder that every worker of the run reaches: in the lake, or here if that is in memory.

    Folders that killed runs left behind go after some days; running ones are not touched.
    """
    if lake.location.scheme == "memory":
        with local_folder() as here:
            yield Location(str(here))
        return
    # A run that is killed before it makes its first table must find the lake again.
    storage.mark(lake.location)
    parent = lake.location.join(_PLANS)
    filesystem, path = parent.join(run_id).filesystem()
    with translated(parent, "Writing the plan"):
        filesystem.makedirs(path, exist_ok=True)
    try:
        yield parent.join(run_id)
    finally:
        # What cannot be removed now goes with the abandoned ones later.
        with suppress(OSError):
            filesystem.rm(path, recursive=True)
            _remove_abandoned(parent)


def _remove_abandoned(parent: Location) -> None:
    filesystem, path = parent.filesystem()
    for entry in filesystem.ls(path, detail=False):
        started = re.match(r"\d{8}T\d{6}", entry.rstrip("/").rpartition("/")[2])
        if started is None:
            continue
        at = dt.datetime.strptime(started[0], "%Y%m%dT%H%M%S").replace(tzinfo=dt.UTC)
        if dt.datetime.now(dt.UTC) - at > _ABANDONED_AFTER:
            filesystem.rm(entry, recursive=True)
