"""Writing a dataset's files so that a part of it is never taken for the whole.

On a local disk the files go to a hidden folder beside the destination, which is moved into place at
the end. An object store moves nothing: there the file by which the dataset is known, the marker, is
written last, and removed first where an old dataset is replaced.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self, cast

from datalake.errors import ExistsError
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["Destination"]

_WRITING: Final = "Writing the export"


class Destination:
    """A folder that a dataset is written to. Use as a context manager; leaving it publishes.

    Args:
        place: the dataset's folder.
        marker: the path of the file without which the dataset is none.
        overwrite: replace what is there, if it is empty or a dataset with that marker.

    Raises:
        ExistsError: something is there that may not be replaced.
        StoreError: the disk or the store refused.
    """

    def __init__(self, place: Location, *, marker: str, overwrite: bool) -> None:
        if place.is_local:
            # Of a link, what it leads to is written.
            place = replace(place, uri=os.path.realpath(place.uri))
        self.place = place
        self.num_bytes = 0
        """Of the files written so far."""
        self._marker = marker
        self._marker_content = b""
        self._lock: int | None = None
        with translated(place, "Looking at the export's destination"):
            self._is_taken = self._check_free(overwrite)
        self._root = place
        if place.is_local:
            path = Path(place.uri)
            self._root = Location(str(path.parent / f".{path.name}.export-{secrets.token_hex(4)}"))

    def __enter__(self) -> Self:
        if self._root is not self.place:
            with translated(self.place, _WRITING):
                self._claim()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            with translated(self.place, _WRITING):
                self._publish()
        elif self._root is not self.place:
            shutil.rmtree(self._root.uri, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)

    def open(self, path: str) -> IO[bytes]:
        """Open a file below the destination for writing."""
        place = self._root.join(path)
        with translated(self.place, _WRITING):
            if place.is_local:
                Path(place.uri).parent.mkdir(parents=True, exist_ok=True)
                return cast("IO[bytes]", _Counted(open(place.uri, "wb"), self))
            self._clear()
            filesystem, address = place.filesystem()
            return cast("IO[bytes]", _Counted(filesystem.open(address, "wb"), self))

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write a whole file. That of the marker is kept until the end."""
        if path == self._marker:
            self._marker_content = bytes(content)
            return
        with translated(self.place, _WRITING), self.open(path) as file:
            file.write(content)

    def _check_free(self, overwrite: bool) -> bool:
        """Whether something is there, which is to be replaced."""
        if self.place.is_local:
            path = Path(self.place.uri)
            is_taken = path.exists() and not _is_empty_folder(path)
            is_dataset = path.is_dir() and (path / self._marker).exists()
        else:
            filesystem, address = self.place.filesystem()
            filesystem.invalidate_cache(address)
            is_taken = filesystem.exists(address) and bool(filesystem.find(address))
            is_dataset = filesystem.exists(f"{address}/{self._marker}")
        if not is_taken:
            return False
        if not overwrite:
            fix = "Name another folder, or pass --overwrite to replace the dataset"
            if not is_dataset:
                fix = "Name another folder"
            raise ExistsError("The export's destination is there", where=str(self.place), fix=fix)
        if not is_dataset:
            raise ExistsError(
                "The export's destination is no dataset, and is not replaced",
                where=str(self.place),
                expected=f"a folder with {self._marker} in it, an empty one or none",
                fix="Name another folder, or remove it yourself",
            )
        return True

    def _claim(self) -> None:
        """Make the folder that is written to, and remove those that killed exports left beside it.

        A folder is locked as long as its process lives.
        """
        own = Path(self._root.uri)
        own.mkdir(parents=True)
        self._lock = os.open(own, os.O_RDONLY)
        with suppress(OSError):  # Some network file systems have no locks: then none is removed.
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        place = Path(self.place.uri)
        for other in own.parent.iterdir():
            if other == own or not other.name.startswith(f".{place.name}.export-"):
                continue
            # Of an export that was killed while it put the new in the old one's place.
            is_only_copy = other.name.endswith(".old") and not place.exists()
            if not is_only_copy and _is_abandoned(other):
                shutil.rmtree(other, ignore_errors=True)

    def _clear(self) -> None:
        """Remove the old dataset of a store before the first new file is written."""
        if self._is_taken and not self.place.is_local:
            filesystem, address = self.place.filesystem()
            filesystem.rm(f"{address}/{self._marker}")
            filesystem.rm(address, recursive=True)
            self._is_taken = False

    def _publish(self) -> None:
        with self.open(self._marker) as file:
            file.write(self._marker_content)
        if self._root is self.place:
            return
        path = Path(self.place.uri)
        if self._is_taken:
            old = path.with_name(f"{self._root.name}.old")
            os.replace(path, old)
            os.replace(self._root.uri, path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            # An empty folder may be there; a rename replaces it.
            os.replace(self._root.uri, path)


class _Counted:
    """A file for writing that adds what it is given to a destination's count."""

    def __init__(self, file: IO[bytes], destination: Destination) -> None:
        self._file = file
        self._destination = destination

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: Any) -> int:
        """Write bytes; a full disk is an error that says so."""
        with translated(self._destination.place, _WRITING):
            return self._file.write(content)

    def close(self) -> None:
        """Count the file's bytes and close it."""
        if not self._file.closed:
            self._destination.num_bytes += self._file.tell()
            with translated(self._destination.place, _WRITING):
                self._file.close()


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None
