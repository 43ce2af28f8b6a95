"""Values of one media column of a Delta table by the pages in which they lie.

A row group has some 8 MB, and a Parquet library reads a column of it whole. Files that were written
with a page index (`datalake.tables.delta_files` writes one) tell where the pages are, which hold
one value or 16 kB: a row costs its own bytes, and a run of rows one range.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import StoreError
from datalake.tables.delta_ranges import Ranges, Span, side_by_side
from datalake.tables.parquet_pages import (
    DamagedPageError,
    Pages,
    footer_bytes,
    page_values,
    read_footer,
)

__all__ = ["PagedFile", "PagedRows", "read_rows"]

Positions = npt.NDArray[np.int64]

# Of the end of a file so much is read at once: one part in so many, within bounds.
_TAIL_SHARE: Final = 1024
_LEAST_TAIL_BYTES: Final = 64 << 10
_MOST_TAIL_BYTES: Final = 4 << 20
# Pages that are nearer to each other than this are read together, up to so many bytes.
_JOINED_BYTES: Final = 32 << 10
_SPAN_BYTES: Final = 8 << 20
_MOST_PAGES: Final = 4 << 20


class PagedFile(NamedTuple):
    """A file of the table."""

    path: str
    num_bytes: int


class PagedRows:
    """What is known of the pages of files. Thread-safe; not picklable.

    Memory: 24 bytes a page, of the files used last, up to 100 MB. A table with more than 4 million
    pages that is read in random order has their ends read again.
    """

    def __init__(self, ranges: Ranges, where: str) -> None:
        self._ranges = ranges
        self._where = where
        self._known: OrderedDict[tuple[str, str], Pages | None] = OrderedDict()
        self._num_pages = 0
        self._reset_locks()

    def _reset_locks(self) -> None:
        self._lock = threading.Lock()
        self._reading: dict[tuple[str, str], threading.Lock] = {}

    def after_fork(self) -> None:
        """In a forked child: threads of the parent may have held the locks."""
        self._reset_locks()
        self._ranges.after_fork()

    def read(self, spans: Sequence[Span]) -> list[memoryview]:
        """Ranges of files, whole.

        Raises:
            StoreError: a file is shorter than it should be.
            OSError: what the store says.
        """
        found = self._ranges.read(spans)
        for (path, start, stop), data in zip(spans, found, strict=True):
            if len(data) != stop - start:
                raise self.damaged(path, f"it ends before byte {stop:,}")
        return found

    def pages(self, file: PagedFile, column: str) -> Pages | None:
        """Where the pages of a column are; None if it has to be read by row groups.

        Raises:
            StoreError: the file is damaged.
            OSError: what the store says.
        """
        key = (file.path, column)
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            alone = self._reading.setdefault(key, threading.Lock())
        with alone:
            with self._lock:
                if key in self._known:
                    return self._known[key]
            try:
                found = self._looked_up(file, column)
            except DamagedPageError as error:
                raise self.damaged(file.path, str(error)) from error
            with self._lock:
                self._known[key] = found
                self._num_pages += _weight(found)
                while self._num_pages > _MOST_PAGES and len(self._known) > 1:
                    self._num_pages -= _weight(self._known.popitem(last=False)[1])
                self._reading.pop(key, None)
            return found

    def _looked_up(self, file: PagedFile, column: str) -> Pages | None:
        size = min(max(file.num_bytes // _TAIL_SHARE, _LEAST_TAIL_BYTES), _MOST_TAIL_BYTES)
        begin = max(file.num_bytes - size, 0)
        tail = self._tail(file, begin)
        if (wanted := footer_bytes(tail)) > len(tail):
            begin = max(file.num_bytes - wanted, 0)
            tail = self._tail(file, begin)
            if footer_bytes(tail) > len(tail):
                raise DamagedPageError("its footer is longer than the file")
        footer = read_footer(tail, column)
        if footer is None:
            return None
        first = min((start for start, _ in footer.indexes), default=begin)
        if not 0 <= first < file.num_bytes:
            raise DamagedPageError("an index of pages lies outside of the file")
        if first < begin:
            begin, tail = first, self._tail(file, first)
        return footer.pages(tail, begin)

    def _tail(self, file: PagedFile, begin: int) -> memoryview:
        return self.read([(file.path, begin, file.num_bytes)])[0]

    def damaged(self, path: str, found: str) -> StoreError:
        """The error for a file that is not what it should be."""
        return StoreError(
            "A file of the table is damaged",
            where=f"{path} of {self._where}",
            found=found,
            fix="Restore the file from a copy, or ingest its rows again from their source",
        )


def read_rows(
    paged: PagedRows,
    wanted: Sequence[tuple[PagedFile, Positions]],
    column: str,
    stored: pa.DataType,
) -> pa.Array | None:
    """Rows of a column, in the order of `wanted`; None if one of the files has no page index.

    Args:
        paged: of the table.
        wanted: for each file positions within it, ascending; repeats are allowed.
        column: a name.
        stored: binary or large_binary: of the array.

    Raises:
        StoreError: a file is damaged.
        OSError: what the store says.
    """
    known = side_by_side(lambda one: paged.pages(one[0], column), wanted)
    if any(pages is None for pages in known):
        return None
    spans: list[Span] = []
    # For each file its pages, and for each of them the span in which it lies.
    used: list[tuple[Positions, list[int]]] = []
    for (file, positions), pages in zip(wanted, known, strict=True):
        assert pages is not None
        if positions.size and positions[-1] >= pages.firsts[-1]:
            raise paged.damaged(file.path, f"it has {pages.firsts[-1]:,} rows only")
        numbers = np.unique(np.searchsorted(pages.firsts, positions, "right") - 1)
        used.append((numbers, _joined(spans, file.path, pages, numbers)))
    data = paged.read(spans)
    values: list[memoryview | None] = []
    for (file, positions), pages, (numbers, places) in zip(wanted, known, used, strict=True):
        assert pages is not None
        edges = np.searchsorted(positions, pages.firsts[numbers])
        stops = np.searchsorted(positions, pages.firsts[numbers + 1])
        for number, place, edge, stop in zip(
            numbers.tolist(), places, edges.tolist(), stops.tolist(), strict=True
        ):
            start = int(pages.starts[number]) - spans[place][1]
            page = data[place][start : start + int(pages.sizes[number])]
            first, end = pages.firsts[number : number + 2].tolist()
            try:
                inside = list(page_values(page, end - first, pages.has_levels))
            except DamagedPageError as error:
                raise paged.damaged(file.path, f"{error} (row {first})") from error
            values += [inside[row - first] for row in positions[edge:stop].tolist()]
    return _array(values, stored)


def _joined(spans: list[Span], path: str, pages: Pages, numbers: Positions) -> list[int]:
    """Add the spans in which pages of a file lie; and in which of all spans each one does."""
    places = []
    begins = pages.starts[numbers].tolist()
    ends = (pages.starts[numbers] + pages.sizes[numbers]).tolist()
    own = len(spans)
    for begin, end in zip(begins, ends, strict=True):
        if (
            len(spans) > own
            and 0 <= begin - spans[-1][2] <= _JOINED_BYTES
            and end - spans[-1][1] <= _SPAN_BYTES
        ):
            spans[-1] = (path, spans[-1][1], end)
        else:
            spans.append((path, begin, end))
        places.append(len(spans) - 1)
    return places


def _array(values: list[memoryview | None], stored: pa.DataType) -> pa.Array:
    """The values one after the other, copied once."""
    sizes = np.array([0 if value is None else len(value) for value in values], np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    width = np.int64 if pa.types.is_large_binary(stored) else np.int32
    if offsets[-1] > np.iinfo(width).max:
        return pa.array([None if v is None else bytes(v) for v in values], stored)
    data = pa.py_buffer(b"".join([value for value in values if value is not None]))
    missing = np.array([value is None for value in values], np.bool_)
    valid = None
    if missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        stored, len(values), [valid, pa.py_buffer(offsets.astype(width)), data]
    )


def _weight(pages: Pages | None) -> int:
    return 1 if pages is None else len(pages.starts)
