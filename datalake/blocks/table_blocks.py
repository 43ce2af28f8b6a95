"""The blocks of one version of a table: open, cached on this node, or fetched from the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from datalake.blocks.ahead import Fetch, ReadAhead
from datalake.blocks.cache import BlockCache, Key
from datalake.blocks.layout import Layout
from datalake.blocks.loose import LooseRows
from datalake.blocks.open_blocks import OpenBlocks
from datalake.blocks.opened import (
    RECIPES,
    Block,
    MediaBlock,
    NumberBlock,
    Rows,
    TextBlock,
    encoded,
    opened,
)
from datalake.blocks.origin import Origin, RefusedError, num_runs
from datalake.errors import StoreError
from datalake.tables.protocol import Table
from datalake.telemetry import Meter

__all__ = ["Part", "TableBlocks"]

_MOST_OPEN_BYTES: Final = 1 << 30
_MOST_MEMORY_BYTES: Final = 64 << 20
# Of a local block that is not cached yet fewer rows than one in so many are taken alone, while the
# block is fetched behind their back.
_FEW: Final = 16
_MOST_REMEMBERED: Final = 4096
# How long: what was in the way of a block may be gone (a cache all in use, a store that lost a file
# for a moment), and rows taken alone cost a request each.
_GIVEN_UP_S: Final = 30.0
_QUIET_S: Final = 0.2

_Place: TypeAlias = tuple[str, int]


class Part(NamedTuple):
    """Rows of one block."""

    block: Block
    which: Rows | None
    """Which of the rows asked for; None for all, in order."""
    local: Rows
    """Where they are in the block."""


class TableBlocks:
    """Blocks by column and number. Thread-safe; not picklable.

    Args:
        table: the version.
        origin: its store.
        cache: of the node; None for none.
        meter: gives the meter of the moment.
        num_threads: most fetches in the background at a time.
        ahead_bytes: most bytes under way in the background.
    """

    def __init__(
        self,
        table: Table,
        origin: Origin,
        cache: BlockCache | None,
        meter: Callable[[], Meter],
        *,
        num_threads: int,
        ahead_bytes: int,
    ) -> None:
        self._table = table
        self._origin = origin
        self._cache = cache
        self._meter_now = meter
        self._num_threads = num_threads
        self._ahead_bytes = ahead_bytes
        self._in_memory = not table.capabilities.survives_process
        self._identity = _identity(table, origin)
        self._interned: dict[str, str] = {}
        self._open = OpenBlocks(
            most_mapped=lambda: _MOST_OPEN_BYTES if cache is None else _open_bytes(cache),
            most_memory=_MOST_MEMORY_BYTES,
        )
        self._loose = LooseRows()
        self._fetching: dict[_Place, Fetch] = {}
        self._fetching_lock = threading.Lock()
        # Blocks that failed or that the cache does not keep, and until when: not fetched again
        # behind the back.
        self._given_up: dict[_Place, float] = {}
        self._start()

    def _start(self) -> None:
        name = f"read ahead {self._table.uri}"
        self._ahead = ReadAhead(
            num_threads=self._num_threads, most_bytes=self._ahead_bytes, name=name
        )
        # For what nobody waits for: one at a time, after the first batch.
        self._quiet = ReadAhead(
            num_threads=1, most_bytes=self._ahead_bytes, name=name, delay_s=_QUIET_S
        )

    @property
    def _meter(self) -> Meter:
        return self._meter_now()

    def parts(self, layout: Layout, rows: Rows, sparse: bool) -> list[Part]:
        """The rows by block, each block open."""
        if rows.size == 0:
            return []
        column = layout.column
        if rows.size == 1 or layout.num_blocks == 1:
            number = int(rows[0]) // layout.block_rows
            block = self._open.get(column, number)
            local = rows - number * layout.block_rows if number else rows
            if block is not None:
                self._meter.count("cache_hits")
                return [Part(block, None, local)]
            everything = np.arange(rows.size)
            parts = self._bring(layout, [(number, everything, local)], rows, sparse)
            return [parts[0]._replace(which=None)] if len(parts) == 1 else parts
        shift = layout.block_rows.bit_length() - 1
        numbers = rows >> shift
        order = np.argsort(numbers, kind="stable")
        numbers = numbers[order]
        local = rows[order] & (layout.block_rows - 1)
        ends = [*(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), rows.size]
        parts, missing, begin = [], [], 0
        for end, number in zip(ends, numbers[np.array(ends) - 1].tolist(), strict=True):
            block = self._open.get(column, number)
            if block is None:
                missing.append((number, order[begin:end], local[begin:end]))
            else:
                parts.append(Part(block, order[begin:end], local[begin:end]))
            begin = end
        if parts:
            self._meter.count("cache_hits", len(parts))
        return parts + self._bring(layout, missing, rows, sparse) if missing else parts

    def _bring(
        self,
        layout: Layout,
        missing: list[tuple[int, Rows, Rows]],
        rows: Rows,
        sparse: bool,
    ) -> list[Part]:
        """Rows of blocks that are not open: from the cache, else from the store."""
        parts, alone, fetches = [], [], []
        for number, index, local in missing:
            if self.is_cached(layout, number):
                block = self.block(layout, number, None)
                parts.append(Part(block, index, local))
            elif sparse or self.is_given_up(layout, number):
                alone.append(index)
            elif self.is_few(layout, len(local)):
                alone.append(index)
                self.begin_quietly(layout, number)
            else:
                fetch, _ = self.begin(layout, number, urgent=True)
                fetches.append((fetch, number, index, local))
        if fetches:
            what = f"{len(fetches)} blocks of {layout.column} of {self._origin.where}"
            with self._meter.during("store", f"waiting for {what}"):
                self._ahead.finish([fetch for fetch, *_ in fetches])
        for fetch, number, index, local in fetches:
            if isinstance(fetch.result, NumberBlock | TextBlock | MediaBlock):
                parts.append(Part(fetch.result, index, local))
            elif fetch.error is None:  # Dropped by `close`.
                parts.append(Part(self.block(layout, number, None), index, local))
            elif isinstance(fetch.error, StoreError) and not isinstance(fetch.error, RefusedError):
                # Other rows of the block may be readable still.
                self._give_up((layout.column, number))
                alone.append(index)
            else:
                raise fetch.error
        if alone:
            index = np.concatenate(alone)
            parts.append(self._alone(layout, rows[index], index))
        return parts

    def _alone(self, layout: Layout, rows: Rows, index: Rows) -> Part:
        """Rows without their blocks, in one set of requests."""
        if layout.kind == "media":
            self._finish_rows(layout, rows)
            kept = self._loose.take(layout.column, rows)
            if kept is not None:
                return Part(kept[0], index, kept[1])
        block = self._taken(layout, rows, None)
        return Part(block, index, np.arange(rows.size))

    def _taken(self, layout: Layout, rows: Rows, stop: threading.Event | None) -> Block:
        found = self._origin.read(
            rows, [layout.column], self._meter, num_requests=num_runs(rows), stop=stop
        )
        return opened(encoded(found[layout.column], layout), layout, self._interned)

    def is_few(self, layout: Layout, num_rows: int) -> bool:
        """Whether so many rows of a block had better be taken alone while it is not cached."""
        return (
            layout.kind != "media"
            and not self._origin.is_remote
            and not self._in_memory
            and num_rows * _FEW < layout.block_rows
        )

    def is_open(self, layout: Layout, number: int) -> bool:
        """Whether a block is open."""
        return self._open.get(layout.column, number) is not None

    def is_given_up(self, layout: Layout, number: int) -> bool:
        """Whether a block could not be read or kept lately, so that its rows are taken alone."""
        place = (layout.column, number)
        until = self._given_up.get(place)
        if until is None:
            return False
        if time.monotonic() < until:
            return True
        self._given_up.pop(place, None)
        return False

    def is_cached(self, layout: Layout, number: int) -> bool:
        """Whether a block is cached on this node."""
        return self._cache is not None and self._cache.has(self.key(layout, number))

    def key(self, layout: Layout, number: int) -> Key:
        """What the cache calls a block."""
        first, stop = layout.span(number)
        recipe = f"{RECIPES[layout.kind]}{self._identity}"
        return Key(self._table.uri, self._table.version, layout.column, first, stop, recipe)

    def begin_quietly(self, layout: Layout, number: int) -> None:
        """Fetch a block when there is time for it, if it was not tried in vain."""
        if self.is_given_up(layout, number):
            return
        place = (layout.column, number)

        def run(stop: threading.Event) -> Block:
            try:
                return self.block(layout, number, stop)
            except RefusedError:
                raise
            except StoreError:
                self._give_up(place)
                raise

        self._quiet.submit(place, layout.bytes_of(number), run)

    def begin(self, layout: Layout, number: int, *, urgent: bool = False) -> tuple[Fetch, bool]:
        """Begin to fetch a block, unless that is under way; and whether it was not."""

        def run(stop: threading.Event) -> Block:
            return self.block(layout, number, stop)

        place = (layout.column, number)
        return self._ahead.submit(place, layout.bytes_of(number), run, urgent=urgent)

    def block(self, layout: Layout, number: int, stop: threading.Event | None) -> Block:
        """Open a block, from the cache or by fetching it."""
        known = self._open.get(layout.column, number)
        if known is not None:
            return known
        if self._cache is None:
            batch, kept = self._fetched(layout, number, stop), False
        else:
            key = self.key(layout, number)
            batch = self._cache.get(
                key, lambda: self._fetched(layout, number, stop), meter=self._meter
            )
            kept = self._cache.has(key)
            if not kept and layout.kind != "media":
                self._give_up((layout.column, number))
        block = opened(batch, layout, self._interned)
        self._open.put(layout.column, number, block, batch.nbytes, is_mapped=kept)
        return block

    def expect(self, layout: Layout, number: int, in_s: float) -> None:
        """Close a block, which is wanted again in so many seconds."""
        self._open.drop(layout.column, number)
        if self._cache is not None:
            self._cache.expect(self.key(layout, number), in_s)

    def keep(self, layout: Layout, number: int) -> int | None:
        """Fetch a block into the cache and leave it closed: its bytes, None if it found no room."""
        if self._cache is None:
            return None
        key = self.key(layout, number)
        batch = self._cache.get(key, lambda: self._fetched(layout, number, None), meter=self._meter)
        if not self._cache.has(key):
            return None
        # Let go, so that as much can be filled as there is room.
        self._cache.expect(key, 0.0)
        return int(batch.nbytes)

    def pin(self, layout: Layout, number: int) -> None:
        """Open a block and keep it open: a forked child has what is mapped here."""
        self._open.pin(layout.column, number, self.block(layout, number, None))

    def _fetched(self, layout: Layout, number: int, stop: threading.Event | None) -> pa.RecordBatch:
        first, end = layout.span(number)
        found = self._origin.read(
            range(first, end), [layout.column], self._meter, num_requests=1, stop=stop
        )
        return encoded(found[layout.column], layout)

    def _give_up(self, place: _Place) -> None:
        while len(self._given_up) >= _MOST_REMEMBERED:
            # The oldest; another thread may have been faster.
            self._given_up.pop(next(iter(list(self._given_up))), None)
        self._given_up[place] = time.monotonic() + _GIVEN_UP_S

    def prefetch_rows(self, layout: Layout, rows: Rows) -> tuple[list[Fetch], int]:
        """Begin to fetch rows of media without their blocks; and how many bytes that is."""
        wanted = [
            row
            for row in self._loose.unknown(layout.column, rows)
            if not self.is_cached(layout, row // layout.block_rows)
        ]
        with self._fetching_lock:
            fetching = {
                place: fetch for place, fetch in self._fetching.items() if not fetch.done.is_set()
            }
            self._fetching = fetching
            known = [fetching.get((layout.column, row)) for row in wanted]
        fetches = list(dict.fromkeys(fetch for fetch in known if fetch is not None))
        wanted = [row for row, fetch in zip(wanted, known, strict=True) if fetch is None]
        if not wanted:
            return fetches, 0
        array = np.array(wanted, np.int64)

        def run(stop: threading.Event) -> MediaBlock:
            block = cast("MediaBlock", self._taken(layout, array, stop))
            self._loose.put(layout.column, array, block)
            return block

        num_bytes = layout.row_bytes * len(wanted)
        fetch, _ = self._ahead.submit(("loose", layout.column, *wanted), num_bytes, run)
        with self._fetching_lock:
            self._fetching |= {(layout.column, row): fetch for row in wanted}
        return [*fetches, fetch], num_bytes

    def _finish_rows(self, layout: Layout, rows: Rows) -> None:
        """Wait for those of the rows that are on their way."""
        with self._fetching_lock:
            found = [self._fetching.get((layout.column, row)) for row in rows.tolist()]
        fetches = list(dict.fromkeys(fetch for fetch in found if fetch is not None))
        if fetches:
            what = f"{rows.size} rows of {layout.column} of {self._origin.where}"
            with self._meter.during("store", f"waiting for {what}"):
                self._ahead.finish(fetches)

    def close(self) -> None:
        """Drop what is queued. Reading goes on to work."""
        self._ahead.close()
        self._quiet.close()
        self._start()

    def after_fork(self) -> None:
        """In a forked child: threads are gone, and locks may be held by them for ever."""
        self._open.reset_lock()
        self._loose = LooseRows()
        self._fetching, self._fetching_lock = {}, threading.Lock()
        self._start()


def _open_bytes(cache: BlockCache) -> int:
    """Bytes of blocks kept open, which cannot be evicted: an eighth of the cache's."""
    try:
        return min(_MOST_OPEN_BYTES, cache.budget_bytes // 8)
    except OSError:
        return _MOST_OPEN_BYTES  # It keeps nothing, and says so itself.


def _identity(table: Table, origin: Origin) -> str:
    """What tells a version from one that lay in its place before, or lies in another store."""
    parts = [str(table.count_rows()), str(table.num_bytes()), origin.store]
    if table.capabilities.survives_process:  # Tables in memory have no blocks on a disk.
        parts.append(table.fingerprint())
    return f" of {', '.join(filter(None, parts))}"
