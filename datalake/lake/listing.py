"""Which tables a folder of a lake holds, told from the names of files: nothing is opened.

A table is there once it has a committed version; what a writer left behind before that is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from datalake.lake.names import is_name
from datalake.lake.storage import children
from datalake.tables import memory
from datalake.uri import Location

__all__ = ["STORED_FORMATS", "Entry", "entries", "find", "format_of", "names"]

# Where a format writes its commits, and what their files are called.
_COMMITS: Final = {
    "lance": ("_versions", re.compile(r"(\d+)\.manifest")),
    "delta": ("_delta_log", re.compile(r"(\d{20})\.json")),
}
# Lance counts down in 20 digits, so that the latest version is listed first.
_LANCE_DIGITS: Final = 20
_LANCE_TOP: Final = 2**64 - 1

STORED_FORMATS: Final = tuple(_COMMITS)
"""The formats that outlive a process."""


@dataclass(frozen=True, order=True)
class Entry:
    """A table, as far as names tell."""

    name: str
    format: str
    version: int
    """The latest."""


def names(folder: Location) -> list[str]:
    """The names of the tables in `folder`, sorted.

    Raises:
        StoreError: the store refused or did not answer.
    """
    return sorted({entry.name for entry in entries(folder)})


def entries(folder: Location) -> list[Entry]:
    """The tables in `folder`, sorted.

    Raises:
        StoreError: the store refused or did not answer.
    """
    if folder.scheme == "memory":
        places = [Location(uri) for uri in memory.known() if _is_in(uri, folder)]
    else:
        places = [folder.join(child) for child in children(folder)]
    found = [(place, _latest(place)) for place in places]
    return sorted(
        Entry(_name(place), format_of(place), version)
        for place, version in found
        if version is not None
    )


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
    return next((place for place in places if _latest(place) is not None), None)


def format_of(place: Location) -> str:
    """The format of the table at a place in a lake: the end of its name."""
    return place.name.rpartition(".")[2]


def _name(place: Location) -> str:
    return place.name.rpartition(".")[0]


def _is_in(uri: str, folder: Location) -> bool:
    return uri.rpartition("/")[0] == folder.uri


def _latest(place: Location) -> int | None:
    """The latest committed version of the table at a place; None if there is none."""
    if place.scheme == "memory":
        return memory.open_at(place, None).version
    if format_of(place) not in _COMMITS or not is_name(_name(place)):
        return None
    log, commit = _COMMITS[format_of(place)]
    numbers = [
        match[1] for child in children(place.join(log)) if (match := commit.fullmatch(child))
    ]
    if format_of(place) == "lance":
        return max(map(_lance_version, numbers), default=None)
    return max(map(int, numbers), default=None)


def _lance_version(number: str) -> int:
    return _LANCE_TOP - int(number) if len(number) == _LANCE_DIGITS else int(number)
