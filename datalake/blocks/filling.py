"""Filling a node's cache with a table's blocks before anybody asks for them.

Blocks that are cached already are skipped, so that a fill that was broken off goes on where it
stood. Memory: a block or two a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from datalake.blocks.cache import BlockCache
from datalake.blocks.layout import Layout
from datalake.blocks.reader import TableReader
from datalake.errors import InputError

__all__ = ["Filled", "fill"]

Stop: TypeAlias = Literal["budget", "room"]

_NOT_FILLED: Final = "tables in memory need no cache"


@dataclass(frozen=True)
class Filled:
    """What a fill did, or had done so far."""

    num_blocks: int
    """Of the columns asked for."""
    num_cached: int
    """Were there before."""
    num_fetched: int
    bytes_fetched: int
    """Arrow bytes of what was fetched."""
    bytes_in_all: int
    """About what all of the blocks take."""
    stopped: Stop | None = None
    """Why it ended early: the blocks are more than the `budget` of the cache, or it has no `room`
    left for them (the disk is full, or what it holds is in use)."""

    @property
    def num_there(self) -> int:
        """Blocks that are cached now."""
        return self.num_cached + self.num_fetched


def fill(
    reader: TableReader,
    columns: Sequence[str],
    *,
    num_threads: int = 2,
    progress: Callable[[Filled], None] | None = None,
) -> Filled:
    """Fetch the blocks of columns into the reader's cache, in order, narrow columns first.

    Args:
        reader: of the table; columns that it reads in place are left out.
        columns: names.
        num_threads: blocks fetched at a time.
        progress: called after each block, by one thread at a time.

    Raises:
        InputError: the table is in memory, or a column is not read by row.
        SchemaError: there is no such column.
        StoreError: blocks cannot be read; what was fetched stays.
        OSError: the cache cannot be used.
    """
    if reader.cache is None:
        raise InputError("There is nothing to fill", where=reader.table.uri, found=_NOT_FILLED)
    wanted = [reader.layout(name) for name in dict.fromkeys(columns) if not reader.is_mapped(name)]
    wanted.sort(key=lambda layout: layout.kind == "media")
    return _Fill(reader, reader.cache, wanted, progress).run(num_threads)


class _Fill:
    """One fill. The lock guards all counts and the iterator."""

    def __init__(
        self,
        reader: TableReader,
        cache: BlockCache,
        layouts: Sequence[Layout],
        progress: Callable[[Filled], None] | None,
    ) -> None:
        self._reader = reader
        self._progress = progress
        self._budget_bytes = cache.budget_bytes
        self._lock = threading.Lock()
        self._blocks = ((layout, n) for layout in layouts for n in range(layout.num_blocks))
        self._num_blocks = sum(layout.num_blocks for layout in layouts)
        self._bytes_in_all = sum(layout.num_rows * layout.row_bytes for layout in layouts)
        self._num_cached = self._num_fetched = self._bytes_fetched = 0
        self._bytes_there = 0
        self._stopped: Stop | None = None
        self._ended = False

    def run(self, num_threads: int) -> Filled:
        with ThreadPoolExecutor(num_threads, thread_name_prefix="fill the cache") as pool:
            workers = [pool.submit(self._work) for _ in range(num_threads)]
            try:
                wait(workers, return_when=FIRST_EXCEPTION)
            finally:
                self._ended = True
        for worker in workers:
            worker.result()
        return self._so_far()

    def _work(self) -> None:
        for layout, number in self._missing():
            num_bytes = self._reader.keep(layout.column, number)
            with self._lock:
                if num_bytes is None:
                    self._stopped = self._stopped or "room"
                    return
                self._num_fetched += 1
                self._bytes_fetched += num_bytes
                self._bytes_there += num_bytes - layout.bytes_of(number)
                if self._progress is not None:
                    self._progress(self._so_far())

    def _missing(self) -> Iterator[tuple[Layout, int]]:
        while True:
            with self._lock:
                found = self._next()
            if found is None:
                return
            yield found

    def _next(self) -> tuple[Layout, int] | None:
        for layout, number in self._blocks:
            if self._ended or self._stopped:
                return None
            size = layout.bytes_of(number)
            if self._bytes_there + size > self._budget_bytes:
                self._stopped = "budget"
                return None
            self._bytes_there += size
            # One that is there is not the next to be evicted from now on.
            if not self._reader.renew(layout.column, number):
                return layout, number
            self._num_cached += 1
        return None

    def _so_far(self) -> Filled:
        return Filled(
            self._num_blocks,
            self._num_cached,
            self._num_fetched,
            self._bytes_fetched,
            self._bytes_in_all,
            self._stopped,
        )
