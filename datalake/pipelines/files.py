"""Whole files by path, in order; remote ones are fetched ahead by threads."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from datalake.errors import StoreError
from datalake.quarantine import Reason, Refusal
from datalake.uri import Location

if TYPE_CHECKING:
    import fsspec

__all__ = ["read_files"]

_AHEAD_BYTES: Final = 32 << 20
_AHEAD_FILES: Final = 16


def read_files(root: Location, files: Iterable[tuple[str, int]]) -> Iterator[bytes | Refusal]:
    """The bytes of each of `files` (path below `root`, size), or why there are none.

    Holds one file in memory; of a remote corpus also up to 32 MiB that are fetched ahead.

    Raises:
        StoreError: the store did not answer.
    """
    if root.is_local:
        for path, _ in files:
            yield _read_local(posixpath.join(root.uri, path))
    else:
        yield from _read_ahead(root, files)


def _read_local(path: str) -> bytes | Refusal:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall()
    except OSError as error:
        return _refusal(error)


def _read_ahead(root: Location, files: Iterable[tuple[str, int]]) -> Iterator[bytes | Refusal]:
    filesystem, base = root.filesystem()
    waiting: deque[tuple[int, Future[bytes | Refusal]]] = deque()
    num_bytes = 0
    with ThreadPoolExecutor(_AHEAD_FILES) as threads:
        for path, size in files:
            while waiting and (len(waiting) >= _AHEAD_FILES or num_bytes + size > _AHEAD_BYTES):
                done, future = waiting.popleft()
                num_bytes -= done
                yield future.result()
            waiting.append((size, threads.submit(_fetch, filesystem, posixpath.join(base, path))))
            num_bytes += size
        while waiting:
            yield waiting.popleft()[1].result()


def _fetch(filesystem: fsspec.AbstractFileSystem, path: str) -> bytes | Refusal:
    try:
        data: bytes = filesystem.cat_file(path)
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        return _refusal(error)
    except Exception as error:
        # Drivers raise many kinds; none of them says that this one file is bad.
        raise StoreError(
            "A file cannot be fetched",
            where=path,
            found=f"{type(error).__name__}: {error}",
            fix="Run the same command again once the store answers: it goes on where it stopped",
        ) from error
    return data


def _refusal(error: OSError) -> Refusal:
    if isinstance(error, FileNotFoundError):
        return Refusal(Reason.NO_FILE, "the file was there when the ingest began and is gone")
    return Refusal(Reason.UNREADABLE, error.strerror or str(error) or type(error).__name__)
