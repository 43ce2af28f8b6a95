"""A corpus's folder, wherever it lies: local disk, object store or memory.

Names are compared without regard to case where a corpus is looked for, since releases differ in
it. Hidden names (`.DS_Store`, `._a.wav`) and `__MACOSX` are no part of any corpus.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any, Final, TypeAlias

import pyarrow as pa

from datalake.connector import AUDIO_SUFFIXES, FILES
from datalake.errors import CredentialsError, NotFoundError, StoreError
from datalake.uri import Location

__all__ = ["BATCH_ROWS", "LFS_MARK", "Tree", "find_root", "is_audio", "stem"]

BATCH_ROWS: Final = 4096
"""Rows of a batch of files or of a protocol."""

LFS_MARK: Final = b"version https://git-lfs"
"""How a pointer of Git-LFS begins, which lies where a large file was not downloaded."""

_STAMP_KEYS: Final = (
    "ETag",
    "etag",
    "md5Hash",
    "LastModified",
    "last_modified",
    "mtime",
    "created",
)


# A name, whether it is a folder, and size and stamp where the listing tells them. A bare tuple, as
# a folder may hold hundreds of thousands.
_Entry: TypeAlias = tuple[str, bool, int | None, str]


def is_audio(path: str) -> bool:
    """Whether the name ends like an audio file's."""
    return posixpath.splitext(path)[1].lower() in AUDIO_SUFFIXES


def stem(path: str) -> str:
    """The path without the file's suffix."""
    return posixpath.splitext(path)[0]


@dataclass(frozen=True)
class Tree:
    """Reads names and files below `root`. Paths are relative to it, with forward slashes."""

    root: Location

    def names(self, folder: str = "") -> dict[str, bool]:
        """The names in a folder, sorted, and whether each is a folder; empty if there is none."""
        return dict(sorted((name, is_folder) for name, is_folder, *_ in self._entries(folder)))

    def folders(self, folder: str = "") -> list[str]:
        """The names of the folders in a folder, sorted."""
        return sorted(name for name, is_folder, *_ in self._entries(folder) if is_folder)

    def file_names(self, keep: Callable[[str], object], folder: str = "") -> list[str]:
        """The names of the files in a folder for which `keep` holds, sorted."""
        entries = self._entries(folder)
        return sorted(name for name, is_folder, *_ in entries if not is_folder and keep(name))

    def stamps(self, folder: str = "") -> dict[str, tuple[int | None, str]]:
        """Size and stamp of each file in a folder, by name; see `FILES` for what they mean."""
        found = {}
        for entry in self._entries(folder):
            name, is_folder, *_ = entry
            if not is_folder:
                found[name] = self._facts(posixpath.join(folder, name), entry)[1:]
        return found

    def above(self) -> Tree | None:
        """The tree of the folder that holds this one; None at the top of a store."""
        parent = posixpath.dirname(self.root.uri)
        if parent.endswith((":", ":/")) or parent == self.root.uri:
            return None
        return Tree(Location(parent, self.root.options))

    def find(self, path: str) -> str | None:
        """The path of what is there under that name in any case; None if nothing is."""
        found = ""
        for part in path.split("/"):
            lower = part.lower()
            names = [name for name, *_ in self._entries(found) if name.lower() == lower]
            if not names:
                return None
            found = posixpath.join(found, part if part in names else min(names))
        return found

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading.

        Raises:
            NotFoundError: it is not there.
            StoreError: the store does not give it.
        """
        place = self.root.join(path)
        try:
            if place.is_local:
                return open(place.uri, "rb")
            filesystem, address = place.filesystem()
            handle: IO[bytes] = filesystem.open(address, "rb")
        except FileNotFoundError as error:
            raise NotFoundError("A protocol file is not there", where=str(place)) from error
        except OSError as error:
            raise _store_error(error, str(place)) from error
        return handle

    def open_text(self, path: str) -> io.TextIOWrapper:
        """Open a text file: UTF-8 with or without BOM, or UTF-16 with one.

        Bytes that do not decode arrive as U+FFFD, so that one bad line does not end the file.
        """
        handle = self.open(path)
        mark = handle.read(2)
        handle.seek(0)
        encoding = "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        return io.TextIOWrapper(handle, encoding=encoding, errors="replace", newline="")

    def first_lines(self, path: str, count: int = 1) -> list[str]:
        """The first lines of a text file, without their ends; what is longer than 64 KiB is cut."""
        with self.open(path) as handle:
            head = handle.read(1 << 16)
        encoding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        return head.decode(encoding, "replace").splitlines()[:count]

    def audio_paths(self, folders: Sequence[str] = ("",)) -> Iterator[str]:
        """The paths of all audio files below the folders, in a stable order."""
        return (_in_utf8(path) for folder in folders for path, _ in self._walk(folder))

    def files(self, folders: Sequence[str] = ("",)) -> Iterator[pa.RecordBatch]:
        """All audio files below the folders, as batches of `FILES` in a stable order.

        Memory holds the names of the folders on the way to a file and one batch.
        """
        found = (
            self._facts(path, entry) for folder in folders for path, entry in self._walk(folder)
        )
        while chunk := list(islice(found, BATCH_ROWS)):
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(zip(*chunk, strict=True), FILES, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=FILES)

    def _walk(
        self, folder: str, above: tuple[tuple[int, int], ...] = ()
    ) -> Iterator[tuple[str, _Entry]]:
        if self.root.is_local:
            # A link to a folder above it would never end.
            try:
                status = os.stat(posixpath.join(self.root.uri, folder))
            except OSError:
                return
            if (status.st_dev, status.st_ino) in above:
                return
            above = (*above, (status.st_dev, status.st_ino))
        for entry in sorted(self._entries(folder, fresh=True)):
            path = posixpath.join(folder, entry[0])
            if entry[1]:
                yield from self._walk(path, above)
            elif is_audio(path):
                yield path, entry

    def _facts(self, path: str, entry: _Entry) -> tuple[str, int | None, str]:
        _, _, size_bytes, stamp = entry
        if size_bytes is not None:
            return path, size_bytes, stamp
        if (readable := _in_utf8(path)) != path:
            return readable, None, "its name is not UTF-8"
        try:
            status = os.stat(f"{self.root.uri}/{path}")
        except FileNotFoundError:
            return path, None, "a link to what is not there"
        except OSError as error:
            return path, None, error.strerror or str(error)
        if not stat.S_ISREG(status.st_mode):
            return path, None, "neither a file nor a folder"
        return path, status.st_size, str(status.st_mtime_ns)

    def _entries(self, folder: str, *, fresh: bool = False) -> Iterator[_Entry]:
        """What lies in a folder, in no order; nothing if it is not there."""
        place = self.root.join(folder) if folder else self.root
        try:
            entries = _local_entries(place.uri) if place.is_local else _remote_entries(place, fresh)
            for entry in entries:
                if not entry[0].startswith(".") and entry[0] != "__MACOSX":
                    yield entry
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise _store_error(error, str(place)) from error


def find_root(location: Location, is_root: Callable[[Tree], bool]) -> Tree | None:
    """The corpus's root: `location`, or the first folder within it that is one; None if none is."""
    here = Tree(location)
    if is_root(here):
        return here
    below = (Tree(location.join(name)) for name in here.folders()[:100])
    return next((tree for tree in below if is_root(tree)), None)


def _local_entries(folder: str) -> Iterator[_Entry]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir(), None, ""


def _remote_entries(place: Location, fresh: bool) -> Iterator[_Entry]:
    filesystem, address = place.filesystem()
    if fresh:
        filesystem.invalidate_cache(address)
    for info in filesystem.ls(address, detail=True):
        name = posixpath.basename(info["name"].rstrip("/"))
        # An object store lists a folder's own marker object within it.
        if name and info["name"].strip("/") != address.strip("/"):
            yield name, info["type"] == "directory", info["size"] or 0, _stamp(info)


def _stamp(info: dict[str, Any]) -> str:
    return next((str(info[key]).strip('"') for key in _STAMP_KEYS if info.get(key)), "")


def _in_utf8(path: str) -> str:
    """The path, with escapes for bytes that are no UTF-8, which no table could hold."""
    if path.isascii():
        return path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _store_error(error: OSError, where: str) -> StoreError:
    kind = CredentialsError if isinstance(error, PermissionError) else StoreError
    return kind(
        "A corpus cannot be read",
        where=where,
        found=str(error),
        fix="Check the permissions, the credentials and the address",
    )
