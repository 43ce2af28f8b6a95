"""A binary column of a local Lance table, read in place.

Lance's own `take` costs a hundred microseconds a row where rows lie far apart. Values that are
stored as they are (`datalake.tables.lance_file` says which) are read in the memory map for one.
Pages that are stored in another way are read through `take`.

What is read is verified: a row's two offsets must agree with the length that stands before its
value, and lie within its page; a file that is not as long as the table says is not mapped. What
remains: a file that somebody cuts while it is mapped, or a disk that fails under it, ends the
process (SIGBUS), and bytes that change within a value go unnoticed, as Lance has no checksums.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import StoreError
from datalake.tables.arrow_mapped import views_of
from datalake.tables.batches import as_positions
from datalake.tables.lance_file import NULL, SAME
from datalake.tables.lance_fragments import NO_FILE, File, Fragments
from datalake.tables.mapped import Bytes
from datalake.tables.memory_map import can_map, will_need
from datalake.uri import Location

if TYPE_CHECKING:
    from datalake.tables.lance import LanceTable

__all__ = ["LanceMapped", "map_column"]

# Ranges to be read ahead that are nearer to each other than this are one.
_JOINED_BYTES: Final = 16 << 10
# The check at the opening compares the smallest of so many rows, if it is no larger than this.
_CHECKED_ROWS: Final = 16
_CHECKED_BYTES: Final = 1 << 20

Rows: TypeAlias = npt.NDArray[np.int64]
# A row's file, and the range there.
_Span: TypeAlias = tuple[File, int, int]
_NULL_SPAN: Final[_Span] = (NO_FILE, -1, -1)
_ELSEWHERE_SPAN: Final[_Span] = (NO_FILE, -2, -2)


class LanceMapped:
    """A binary column of a local Lance table. See `datalake.tables.mapped.Mapped`."""

    def __init__(self, table: LanceTable, column: str) -> None:
        self._table, self._column = table, column
        self._opened: Fragments | None = None

    def __getstate__(self) -> Any:
        return (self._table, self._column)

    def __setstate__(self, state: tuple[LanceTable, str]) -> None:
        self._table, self._column = state
        self._opened = None

    @property
    def _fragments(self) -> Fragments:
        if self._opened is None:
            place = Location(self._table.uri)
            self._opened = Fragments(place, self._table.dataset, self._column)
        return self._opened

    def views(self, rows: Rows) -> list[Bytes | None]:
        """Each row's bytes, read-only; None for null."""
        spans = self._spans(rows)
        found = [None if start < 0 else file.data[start:stop] for file, start, stop in spans]
        for place, view in self._elsewhere(rows, spans):
            found[place] = view
        return found

    def sizes(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Each row's number of bytes; 0 for null."""
        spans = self._spans(rows)
        sizes = np.array([stop - start for _, start, stop in spans], np.int64)
        for place, view in self._elsewhere(rows, spans):
            sizes[place] = 0 if view is None else view.size
        return sizes

    def advise(self, rows: Rows) -> int:
        """Tell the kernel that these rows are wanted soon; returns how many bytes that is.

        Rows that Lance has to read count nothing: they are read when they are asked for.
        """
        spans = self._spans(rows)
        wanted = sorted((file.address + start, file.address + stop) for file, start, stop in spans)
        begin = end = num_bytes = 0
        # `spans` keeps the files mapped until the kernel was told.
        for start, stop in wanted:
            if start >= stop:
                continue
            num_bytes += stop - start
            if start - end <= _JOINED_BYTES and end:
                end = max(end, stop)
                continue
            will_need(begin, end)
            begin, end = start, stop
        will_need(begin, end)
        return num_bytes

    def prepare(self) -> None:
        """Look up all that reading needs, so that a forked process needs Lance no more.

        Raises:
            StoreError: some rows are stored in a way that only Lance reads.
        """
        fragments, others = self._fragments, []
        for order in range(len(fragments)):
            footer = fragments.footer(order)
            if not footer.is_in_place.all():
                others.append(footer.path or f"fragment {order}")
        if others:
            raise StoreError(
                f"The column {self._column} cannot be read without Lance",
                where=self._table.uri,
                expected="values that are stored uncompressed in files of this machine",
                found=f"others in {others[0]}" + f" and {len(others) - 1} more" * (len(others) > 1),
                fix="Use threads or spawned workers",
            )

    # Finding ------------------------------------------------------------------------------------

    def _spans(self, rows: Rows) -> list[_Span]:
        """Where the rows' values are, each verified."""
        fragments = self._fragments
        starts = fragments.starts
        rows = as_positions(rows, int(starts[-1]))
        if len(starts) == 2:
            orders, within = [0] * len(rows), rows.tolist()
        else:
            found = np.searchsorted(starts, rows, "right") - 1
            orders, within = found.tolist(), (rows - starts[found]).tolist()
        maps = fragments.maps
        spans: list[_Span] = []
        # One pass in plain Python: under a microsecond a row, in whatever files the rows are. With
        # numpy, each file that a batch touches would cost some 20.
        for order, row in zip(orders, within, strict=True):
            file = maps.get(order) or fragments.file(order)
            if file.deleted is not None:
                row += bisect_right(file.deleted, row)
            page = file.lookups[bisect_right(file.firsts, row) - 1]
            start, stop, head, length, shift, offsets, unpack = page
            if head:
                place = shift + row
                begin, end = start + offsets[place], start + offsets[place + 1]
                value = begin + head
                if value <= end <= stop:
                    (size,) = unpack(file.memory, value - length)
                    if size == end - value and (head == length or not file.memory[begin]):
                        spans.append((file, value, end))
                        continue
                elif head != length and begin + 1 == end <= stop and file.memory[begin] == 1:
                    spans.append(_NULL_SPAN)
                    continue
                raise fragments.damaged(file.path, f"what lies at row {row} is no value")
            if length == SAME:
                spans.append((file, start, stop))
            else:
                spans.append(_NULL_SPAN if length == NULL else _ELSEWHERE_SPAN)
        return spans

    def _elsewhere(self, rows: Rows, spans: list[_Span]) -> Iterator[tuple[int, Bytes | None]]:
        """The places and bytes of rows that Lance has to read."""
        if _ELSEWHERE_SPAN in spans:
            places = [place for place, span in enumerate(spans) if span is _ELSEWHERE_SPAN]
            yield from zip(places, self._taken(np.asarray(rows)[places]), strict=True)

    def _taken(self, rows: Rows) -> list[Bytes | None]:
        self._fragments.require_lance()
        values = self._table.take(rows, [self._column])[self._column]
        return views_of(values, np.arange(len(rows)))

    # Deciding -----------------------------------------------------------------------------------

    def is_worth_it(self) -> bool:
        """Whether at least half of the first fragment's rows can be read in place."""
        fragments = self._fragments
        if not len(fragments):
            return True
        footer = fragments.footer(0)
        num_rows = np.diff(footer.pages[:, 0], append=fragments.num_stored_rows(0))
        return bool(2 * num_rows[footer.is_in_place].sum() >= num_rows.sum())

    def agrees(self) -> bool:
        """Whether a value of the first rows is what Lance itself reads there.

        A release of Lance that means something else by the same description is found out here.
        """
        rows = np.arange(min(_CHECKED_ROWS, int(self._fragments.starts[-1])))
        spans = self._spans(rows)
        sizes = [(stop - start, row) for row, (_, start, stop) in enumerate(spans) if start >= 0]
        size, row = min(sizes, default=(_CHECKED_BYTES + 1, 0))
        if size > _CHECKED_BYTES:
            return True
        (mine,), (own,) = self.views(rows[[row]]), self._taken(rows[[row]])
        return mine is not None and own is not None and np.array_equal(mine, own)


def map_column(table: LanceTable, column: str) -> LanceMapped | None:
    """The column, if its first fragment lies in a way that can be read in place."""
    if not can_map():
        return None
    mapped = LanceMapped(table, column)
    return mapped if mapped.is_worth_it() and mapped.agrees() else None
