"""Byte ranges of the values of a Lance table's binary column on an object store.

Lance itself gives whole values. Where they lie as they are (`datalake.tables.lance_file` says
which do), a part of one is a range of its file, and is asked of the store as such.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from datalake.errors import StoreError
from datalake.tables.failures import translated
from datalake.tables.lance_file import NULL, SAME, ZIPPED, Page
from datalake.tables.lance_fragments import RemoteFragments
from datalake.tables.ranged import Range

if TYPE_CHECKING:
    from datalake.tables.lance import LanceTable

__all__ = ["LanceRanged"]

_FORMS: Final = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
# Ranges that are nearer to each other than this are asked for together.
_JOINED_BYTES: Final = 64 << 10


class LanceRanged:
    """A binary column of a Lance table, by ranges. See `datalake.tables.ranged.Ranged`."""

    def __init__(self, table: LanceTable, column: str) -> None:
        self._table, self._column = table, column
        self._begin()

    def _begin(self) -> None:
        self._opened: RemoteFragments | None = None
        # Of values that were asked for: where they are, or that Lance has to read them.
        self._places: dict[int, tuple[str, int, int] | None] = {}

    def __getstate__(self) -> Any:
        return (self._table, self._column)

    def __setstate__(self, state: tuple[LanceTable, str]) -> None:
        self._table, self._column = state
        self._begin()

    @property
    def _fragments(self) -> RemoteFragments:
        if self._opened is None:
            place = self._table.location
            self._opened = RemoteFragments(place, self._table.dataset, self._column)
        return self._opened

    def read(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of each range, in order; ranges near each other come with one request."""
        places = [self._place(row) for row, _, _ in ranges]
        found: list[bytes] = [b""] * len(ranges)
        wanted: list[tuple[str, int, int, int]] = []
        for index, (place, (row, start, stop)) in enumerate(zip(places, ranges, strict=True)):
            if place is None:
                found[index] = self._whole(row)[start:stop]
                continue
            path, begin, end = place
            if not 0 <= start <= stop <= end - begin:
                raise self._fragments.damaged(
                    path, f"the value in row {row} has {end - begin} bytes, and not {stop} or more"
                )
            wanted.append((path, begin + start, begin + stop, index))
        wanted.sort()
        joined: list[tuple[str, int, int, list[tuple[int, int, int]]]] = []
        for path, start, stop, index in wanted:
            if joined and joined[-1][0] == path and start - joined[-1][2] <= _JOINED_BYTES:
                last = joined[-1]
                joined[-1] = (path, last[1], max(last[2], stop), [*last[3], (start, stop, index)])
            else:
                joined.append((path, start, stop, [(start, stop, index)]))
        parts = self._fragments.read_all([(path, start, stop) for path, start, stop, _ in joined])
        for (_, first, _, inside), data in zip(joined, parts, strict=True):
            for start, stop, index in inside:
                found[index] = data[start - first : stop - first]
        return found

    def _place(self, row: int) -> tuple[str, int, int] | None:
        """The file of a value, and where it begins and ends there; None if Lance has to read it."""
        if row not in self._places:
            self._places[row] = self._looked_up(row)
        return self._places[row]

    def _looked_up(self, row: int) -> tuple[str, int, int] | None:
        fragments = self._fragments
        order = int(np.searchsorted(fragments.starts, row, "right")) - 1
        footer = fragments.footer(order)
        within = row - int(fragments.starts[order])
        if footer.deleted is not None:
            within += bisect_right(footer.deleted, within)
        pages = [Page(*page) for page in footer.pages.tolist()]
        page = pages[bisect_right([each.first for each in pages], within) - 1]
        if page.kind == SAME:
            return footer.path, page.start, page.stop
        if page.kind == NULL:
            return footer.path, 0, 0
        if page.kind != ZIPPED:
            return None
        width, at = page.width, (page.offsets + within - page.first) * page.width
        (both,) = fragments.read_all([(footer.path, at, at + 2 * width)])
        begin, end = (
            page.start + struct.unpack_from(_FORMS[width], both, place)[0] for place in (0, width)
        )
        (head,) = fragments.read_all([(footer.path, begin, begin + page.head)])
        length, value = page.head & ~1, begin + page.head
        if page.head != length and begin + 1 == end:
            return footer.path, 0, 0  # Null.
        (size,) = struct.unpack_from(_FORMS[length], head, page.head - length)
        if not (value <= end <= page.stop and size == end - value):
            raise fragments.damaged(footer.path, f"what lies at row {within} is no value")
        return footer.path, value, end

    def _whole(self, row: int) -> bytes:
        with translated(self._table.location, "Reading rows"):
            value = self._table.take([row], [self._column])[self._column][0].as_py()
        if value is None:
            raise StoreError(
                f"A row has no {self._column}", where=f"row {row} of {self._table.uri}"
            )
        return bytes(value)
