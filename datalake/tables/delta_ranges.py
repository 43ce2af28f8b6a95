"""Byte ranges of a Delta table's files, side by side.

S3 is read by Arrow's own client: it opens a file once and reads ranges of it in any number of
threads. delta-rs, by which other stores are read and all are written, reads a file in one thread at
a time, and holds the interpreter's lock while it waits for some answers. Neither survives a fork.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow.fs as pafs

from datalake.uri import Location

__all__ = ["Ranges", "Span", "s3_files", "side_by_side"]

Span: TypeAlias = tuple[str, int, int]
"""A file, relative to the table; the first byte, and the one after the last."""

_T = TypeVar("_T")
_R = TypeVar("_R")

_NUM_THREADS: Final = 16
_MOST_FILES: Final = 1024


class Ranges:
    """Reads ranges of files. Thread-safe, not picklable. Holds up to 1,024 files of a store open,
    which takes no handle.

    Args:
        location: of the table.
        filesystem: rooted at the table.
    """

    def __init__(self, location: Location, filesystem: pafs.FileSystem) -> None:
        self._location = location
        self._filesystem = filesystem
        # What Python code reads keeps one place for all threads.
        self._keeps_files = not isinstance(filesystem, pafs.PyFileSystem)
        self._lock = threading.Lock()
        self._files: OrderedDict[str, Any] = OrderedDict()

    def read(self, spans: Sequence[Span]) -> list[memoryview]:
        """The bytes of each, in order; fewer where a file ends.

        Raises:
            OSError: what the store says.
        """
        if self._location.is_local:
            return [self._read_local(span) for span in spans]
        return side_by_side(self._read_remote, spans)

    def _read_local(self, span: Span) -> memoryview:
        path, start, stop = span
        descriptor = os.open(os.path.join(self._location.uri, path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return memoryview(os.pread(descriptor, stop - start, start))
        finally:
            os.close(descriptor)

    def _read_remote(self, span: Span) -> memoryview:
        path, start, stop = span
        if not self._keeps_files:
            with self._filesystem.open_input_file(path) as file:
                return memoryview(file.read_at(stop - start, start))
        with self._lock:
            file = self._files.get(path)
            if file is not None:
                self._files.move_to_end(path)
        if file is None:
            file = self._filesystem.open_input_file(path)
            with self._lock:
                file = self._files.setdefault(path, file)
                while len(self._files) > _MOST_FILES:
                    self._files.popitem(last=False)
        return memoryview(file.read_at(stop - start, start))

    def after_fork(self) -> None:
        """In a forked child: a thread of the parent may have held the lock."""
        self._lock = threading.Lock()


def s3_files(location: Location) -> pafs.FileSystem:
    """The files below a place on S3, by Arrow's client.

    Raises:
        ConfigError, NotFoundError: as `StorageOptions.resolved`.
    """
    options = location.options.resolved()
    given: dict[str, Any] = {}
    if options.endpoint:
        given = {
            "endpoint_override": options.endpoint,
            "scheme": options.endpoint.partition("://")[0],
            "force_virtual_addressing": not options.path_style,
        }
    client = pafs.S3FileSystem(
        access_key=options.access_key,
        secret_key=options.secret_key,
        session_token=options.session_token,
        # Self-hosted stores have no regions, and the library insists on one.
        region=options.region or ("us-east-1" if options.endpoint else None),
        connect_timeout=3,
        request_timeout=60,
        # The other strategy waits seconds; who reads tries again by himself (`blocks.origin`).
        retry_strategy=pafs.AwsDefaultS3RetryStrategy(max_attempts=4),
        **given,
    )
    return pafs.SubTreeFileSystem(location.uri.partition("://")[2], client)


def side_by_side(work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """`work` of each item, by up to 16 threads, this one among them; in order.

    Raises:
        Exception: the first that `work` raised; nothing more is begun then.
    """
    found: list[Any] = [None] * len(items)
    numbers = iter(range(len(items)))
    failures: list[BaseException] = []
    lock = threading.Lock()

    def run() -> None:
        while not failures:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                found[number] = work(items[number])
            except BaseException as error:
                failures.append(error)

    # They live as long as this call, which is a round trip to a store or more.
    threads = [
        threading.Thread(target=run, name="read ranges", daemon=True)
        for _ in range(min(len(items), _NUM_THREADS) - 1)
    ]
    for thread in threads:
        thread.start()
    run()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return found
