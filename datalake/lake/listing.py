"""Which tables a folder of a lake holds, told from the names of files: nothing is opened.

A table is there once it has a committed version; what a writer left behind before that is not.
"""

from __future__ import annotations

from typing import Final

from datalake.lake.names import is_name
from datalake.lake.storage import children
from datalake.tables import memory
from datalake.uri import Location

__all__ = ["STORED_FORMATS", "find", "format_of", "names"]

# Where a format writes its commits, and how their files end.
_COMMITS: Final = {"lance": ("_versions", ".manifest"), "delta": ("_delta_log", ".json")}

STORED_FORMATS: Final = tuple(_COMMITS)
"""The formats that outlive a process."""


def names(folder: Location) -> list[str]:
    """The names of the tables in `folder`, sorted.

    Raises:
        StoreError: the store refused or did not answer.
    """
    if folder.scheme == "memory":
        below = [uri.removeprefix(f"{folder}/") for uri in memory.known() if _is_in(uri, folder)]
        return sorted(name.removesuffix(".memory") for name in below)
    places = [folder.join(child) for child in children(folder)]
    return sorted({_name(place) for place in places if _is_committed(place)})


def find(folder: Location, name: str) -> Location | None:
    """Where the table of that name lies in `folder`, if it is there.

    Raises:
        StoreError: the store refused or did not answer.
    """
    if not is_name(name):
        return None
    if folder.scheme == "memory":
        place = folder.join(f"{name}.memory")
        return place if place.uri in memory.known() else None
    places = (folder.join(f"{name}.{suffix}") for suffix in STORED_FORMATS)
    return next((place for place in places if _is_committed(place)), None)


def format_of(place: Location) -> str:
    """The format of the table at a place in a lake: the end of its name."""
    return place.name.rpartition(".")[2]


def _name(place: Location) -> str:
    return place.name.rpartition(".")[0]


def _is_in(uri: str, folder: Location) -> bool:
    return uri.rpartition("/")[0] == folder.uri


def _is_committed(place: Location) -> bool:
    if format_of(place) not in _COMMITS or not is_name(_name(place)):
        return False
    log, suffix = _COMMITS[format_of(place)]
    return any(child.endswith(suffix) for child in children(place.join(log)))
