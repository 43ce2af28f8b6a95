"""The few things a lake asks of a store itself: its marker, and what folders hold."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

from datalake.errors import InputError
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["children", "mark", "marked"]

_MARKER: Final = "lake.json"
_FORMAT_VERSION: Final = 1


def children(folder: Location) -> list[str]:
    """The names directly below `folder`, sorted; none if it is not there.

    Raises:
        StoreError: the store refused or did not answer.
    """
    with translated(folder, "Listing the folder"):
        try:
            if folder.is_local:
                return sorted(os.listdir(folder.uri))
            filesystem, path = folder.filesystem()
            filesystem.invalidate_cache(path)
            entries = filesystem.ls(path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
    # Object stores list a placeholder of the folder itself.
    return sorted({entry.rstrip("/").rpartition("/")[2] for entry in entries} - {folder.name})


def marked(lake: Location) -> bool:
    """Whether the folder has the marker of a lake.

    Raises:
        InputError: it is a file, or a lake of a later format.
        StoreError: the store refused or did not answer.
    """
    marker = lake.join(_MARKER)
    with translated(lake, "Opening the lake"):
        try:
            content = _read(marker)
        except NotADirectoryError as error:
            raise InputError(
                "The path of the lake is a file", where=str(lake), expected="a folder"
            ) from error
        except FileNotFoundError:
            return False
    # An empty marker is one whose writer was interrupted: the lake is there all the same.
    if content:
        _check_version(marker, content)
    return True


def _check_version(marker: Location, content: bytes) -> None:
    try:
        found = json.loads(content)["format_version"]
    except (ValueError, TypeError, KeyError):
        raise InputError(
            "The folder is no lake: its lake.json is something else's",
            where=str(marker),
            expected="an object with format_version",
            found=repr(content[:80]),
        ) from None
    if found != _FORMAT_VERSION:
        raise InputError(
            "The lake has a format this version does not know",
            where=str(marker),
            expected=f"format_version {_FORMAT_VERSION}",
            found=str(found),
            fix="Upgrade datalake",
        )


def mark(lake: Location) -> None:
    """Make the folder a lake, unless it is one: the marker is never written over.

    Raises:
        StoreError: the store refused or did not answer.
    """
    if marked(lake):
        return
    content = json.dumps({"format": "datalake", "format_version": _FORMAT_VERSION}).encode() + b"\n"
    with translated(lake, "Creating the lake"):
        try:
            _create(lake.join(_MARKER), content)
        except OSError:
            # Each store has its own words for: somebody else was first.
            if not marked(lake):
                raise


def _read(file: Location) -> bytes:
    if file.is_local:
        return Path(file.uri).read_bytes()
    filesystem, path = file.filesystem()
    content: bytes = filesystem.cat_file(path)
    return content


def _create(file: Location, content: bytes) -> None:
    """Write a file that must not be there."""
    if file.is_local:
        path = Path(file.uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.write(content)
        return
    filesystem, remote_path = file.filesystem()
    filesystem.pipe_file(remote_path, content, mode="create")
