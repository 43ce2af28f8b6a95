"""Columns of one version of a table, by row, as fast as this machine's memory.

A binary column that lies in this machine's files is read there in place. Every other column is read
in blocks of rows, which are fetched once a node, cached on its disk and mapped (`cache`); how a
column is cut into blocks is said in `layout`.
"""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from datalake.blocks.ahead import Ahead, Fetch
from datalake.blocks.cache import BlockCache
from datalake.blocks.layout import Kind, Layout, layout_of
from datalake.blocks.opened import (
    Block,
    MediaBlock,
    NumberBlock,
    Rows,
    TextBlock,
)
from datalake.blocks.origin import NOT_OF_ROWS, Origin
from datalake.blocks.table_blocks import Part, TableBlocks
from datalake.blocks.warmth import Warmth
from datalake.errors import InputError, NotFoundError, SchemaError, StoreError, nearest
from datalake.tables.failures import without_fork
from datalake.tables.mapped import Bytes, Mapped
from datalake.tables.protocol import Table
from datalake.telemetry import Meter

__all__ = ["TableReader"]

_B = TypeVar("_B", bound=Block)

_AHEAD_BYTES: Final = 64 << 20
_NUM_THREADS: Final = 8


class TableReader:
    """Reads columns of a version by row. Thread-safe, picklable (a copy counts from 0).

    Memory does not grow with the table, nor do file handles. A fork keeps what `prepare_fork` read.

    Args:
        table: the version.
        cache: of this node; None for the one in the default place. Tables in memory need none.
        meter: what is read is counted and timed there.
        sparse: rows of media come one by one and are not cached, unless a call says otherwise; see
            `scatter`, which decides it by the cache's size.
        num_threads: most fetches in the background at a time.
        ahead_bytes: most bytes under way in the background.
        reads_per_s: requests a second that this node may send to the table's store; None for what
            the options of its location say (`StorageOptions.reads_per_s`), or `DEFAULT_RATE`.
        patience_s: how long a store may refuse before a read fails.
    """

    def __init__(
        self,
        table: Table,
        *,
        cache: BlockCache | None = None,
        meter: Meter | None = None,
        sparse: bool = False,
        num_threads: int = _NUM_THREADS,
        ahead_bytes: int = _AHEAD_BYTES,
        reads_per_s: float | None = None,
        patience_s: float = 120.0,
    ) -> None:
        self._table = table
        self._settings = {
            "sparse": sparse,
            "num_threads": num_threads,
            "ahead_bytes": ahead_bytes,
            "reads_per_s": reads_per_s,
            "patience_s": patience_s,
        }
        self._sparse = sparse
        self._num_rows = table.count_rows()
        in_memory = not table.capabilities.survives_process
        self._cache = None if in_memory else cache or BlockCache.shared()
        self._meter = Meter() if meter is None else meter
        self._origin = Origin(
            table,
            directory=None if self._cache is None else self._cache.directory,
            reads_per_s=reads_per_s,
            patience_s=patience_s,
        )
        self._blocks = TableBlocks(
            table,
            self._origin,
            self._cache,
            lambda: self._meter,
            num_threads=num_threads,
            ahead_bytes=ahead_bytes,
        )
        self._layouts: dict[str, Layout] = {}
        self._mapped: dict[str, Mapped | None] = {}
        self._warmth = Warmth()
        _READERS.add(self)

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (self._table, self._cache, self._settings, self._sparse)

    # What is there --------------------------------------------------------------------------------

    @property
    def table(self) -> Table:
        """The version that is read."""
        return self._table

    @property
    def num_rows(self) -> int:
        """Rows of the version."""
        return self._num_rows

    @property
    def is_remote(self) -> bool:
        """Whether the table lies on an object store."""
        return self._origin.is_remote

    def layout(self, column: str) -> Layout:
        """How a column is read and cut into blocks.

        Raises:
            SchemaError: there is no such column (names the nearest).
            InputError: its values are not read by row.
        """
        known = self._layouts.get(column)
        if known is None:
            names = self._table.schema.names
            if column not in names:
                raise SchemaError(
                    f"There is no column {column}",
                    where=self._table.uri,
                    fix=nearest(column, names),
                )
            known = layout_of(
                self._table.schema,
                column,
                num_rows=self._num_rows,
                num_bytes=self._table.num_bytes(),
            )
            self._layouts[column] = known
        return known

    def block_rows(self, column: str) -> int:
        """Consecutive rows that come from the store together: a power of two, fixed for a version.

        Raises: as `layout`.
        """
        return self.layout(column).block_rows

    @property
    def cache(self) -> BlockCache | None:
        """Where blocks are kept; None for a table in memory."""
        return self._cache

    def is_mapped(self, column: str) -> bool:
        """Whether a column is read in place, and so needs no cache.

        Raises: as `layout`.
        """
        return self._mapped_of(column) is not None

    def num_bytes(self, columns: Sequence[str]) -> int:
        """About how many bytes of cache all blocks of these columns take; 0 for mapped ones."""
        layouts = [self.layout(name) for name in columns if self._mapped_of(name) is None]
        return sum(layout.num_rows * layout.row_bytes for layout in layouts)

    def view(self) -> TableReader:
        """A reader of the same version that counts, fetches and scatters for itself.

        What is known of the table and its files, their maps included, is shared, and the cache.
        """
        made = _remade(self._table, self._cache, self._settings, self._sparse)
        made._layouts, made._mapped = self._layouts, self._mapped
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._meter = meter

    def scatter(self, is_scattered: bool, columns: Sequence[str]) -> None:
        """Whether rows come one here and one there from now on, instead of block by block.

        A block that the cache cannot keep until all of its rows were wanted would be fetched again
        for nearly every one of them. So where blocks of media do not fit in the cache all together,
        scattered rows are fetched one by one and are not cached, as with `sparse`.

        Args:
            is_scattered: whether they do.
            columns: those that are read.
        """
        media = [name for name in columns if self.layout(name).kind == "media"]
        sparse = is_scattered and self._cache is not None and self._overflows(media)
        self._sparse = sparse or bool(self._settings["sparse"])

    def _overflows(self, columns: Sequence[str]) -> bool:
        num_bytes = self.num_bytes(columns)
        # The cache is opened only for tables that lie in it.
        return num_bytes > 0 and self._cache is not None and num_bytes > self._cache.budget_bytes

    # Reading --------------------------------------------------------------------------------------

    def numbers(
        self,
        column: str,
        rows: Rows,
        out: npt.NDArray[Any] | None = None,
        *,
        fill: float | int | bool | None = None,
        sparse: bool = False,
    ) -> npt.NDArray[Any]:
        """Numbers of rows, in the order asked, repeats allowed.

        Args:
            column: integers, floats, booleans, or fixed-size lists of them.
            rows: (n,).
            out: where to put them, (n,) or (n, k).
            fill: instead of null. None: NaN for floats, and an error for others.
            sparse: take just these rows where they are not cached.

        Returns:
            (n,), or (n, k) for lists of k, in the column's type.

        Raises:
            InputError: a row is out of range, is null without a fill, or the column holds no
                numbers.
            StoreError: rows cannot be read; names table, version, column and rows.
        """
        layout = self._of_kind(column, "numbers")
        rows = self._inside(rows)
        parts = self._blocks.parts(layout, rows, sparse)
        if len(parts) == 1 and parts[0].which is None:
            block = cast("NumberBlock", parts[0].block)
            found = block.values.take(parts[0].local, axis=0, out=out, mode="clip")
            if block.valid is not None:
                self._fill(found, block.valid[parts[0].local], rows, layout, fill)
            return found
        if out is None:
            shape = (rows.size,) if layout.width is None else (rows.size, layout.width)
            out = np.empty(shape, layout.dtype)
        for part in parts:
            block = cast("NumberBlock", part.block)
            out[part.which] = block.values[part.local]
        for part in parts:
            valid = cast("NumberBlock", part.block).valid
            if valid is not None and not (there := valid[part.local]).all():
                all_valid = np.ones(rows.size, np.bool_)
                all_valid[part.which] = there
                self._fill(out, all_valid, rows, layout, fill)
        return out

    def _fill(
        self,
        found: npt.NDArray[Any],
        valid: npt.NDArray[np.bool_],
        rows: Rows,
        layout: Layout,
        fill: float | int | bool | None,
    ) -> None:
        if valid.all():
            return
        if fill is not None:
            found[~valid] = fill
        elif layout.dtype is None or layout.dtype.kind != "f":
            raise InputError(
                f"A row has no {layout.column}",
                where=f"row {rows[~valid][0]} of {self._origin.where}",
                expected="a number",
                found="null",
                fix="Leave the row out, or give a number to take instead (fill)",
            )

    def texts(self, column: str, rows: Rows, *, sparse: bool = False) -> list[str | None]:
        """Texts of rows; a text that repeats is one object.

        Raises:
            InputError: a row is out of range, or the column holds no texts.
            StoreError: rows cannot be read.
        """
        layout = self._of_kind(column, "texts")
        rows = self._inside(rows)
        parts = self._blocks.parts(layout, rows, sparse)
        return _in_order(
            rows.size, ((part, cast("TextBlock", part.block).texts(part.local)) for part in parts)
        )

    def codes(self, column: str, rows: Rows) -> tuple[npt.NDArray[np.int32], list[str]]:
        """Texts of rows as numbers: which of the values returned each is, and -1 for null.

        The values are those of the blocks looked at, so that they differ from call to call; map
        them (few) and take (many).

        Returns:
            Codes (n,), and the values.

        Raises:
            InputError: a row is out of range, or the column holds no texts.
            StoreError: rows cannot be read.
        """
        layout = self._of_kind(column, "texts")
        rows = self._inside(rows)
        known: dict[str, int] = {}
        codes = np.empty(rows.size, np.int32)
        for part in self._blocks.parts(layout, rows, sparse=False):
            block = cast("TextBlock", part.block)
            if block.codes is None:
                texts = block.texts(part.local)
                found = np.array([_code(known, text) for text in texts], np.int32)
            else:
                mine = np.array([_code(known, text) for text in block.distinct], np.int32)
                found = mine[block.codes[part.local]] if mine.size else np.empty(0, np.int32)
            codes[slice(None) if part.which is None else part.which] = found
        return codes, list(known)

    def views(self, column: str, rows: Rows, *, sparse: bool | None = None) -> list[Bytes | None]:
        """Bytes of rows where they lie, read-only; None for null.

        Args:
            column: media or other binary.
            rows: (n,).
            sparse: take just these rows where they are not cached; None for the reader's setting.

        Raises:
            InputError: a row is out of range, or the column is not binary.
            StoreError: rows cannot be read.
        """
        layout = self._of_kind(column, "media")
        rows = self._inside(rows)
        mapped = self._mapped_of(column)
        if mapped is not None:
            try:
                return mapped.views(rows)
            except NotFoundError as error:
                raise self._origin.lost(error, rows, [column]) from error
        parts = self._blocks.parts(layout, rows, self._sparse if sparse is None else sparse)
        return _in_order(
            rows.size, ((part, cast("MediaBlock", part.block).views(part.local)) for part in parts)
        )

    def sizes(
        self, column: str, rows: Rows, *, sparse: bool | None = None
    ) -> npt.NDArray[np.int64]:
        """Number of bytes of rows, (n,); 0 for null.

        Raises: as `views`.
        """
        layout = self._of_kind(column, "media")
        rows = self._inside(rows)
        mapped = self._mapped_of(column)
        if mapped is not None:
            try:
                return mapped.sizes(rows)
            except NotFoundError as error:
                raise self._origin.lost(error, rows, [column]) from error
        found = np.empty(rows.size, np.int64)
        for part in self._blocks.parts(layout, rows, self._sparse if sparse is None else sparse):
            sizes = cast("MediaBlock", part.block).sizes(part.local)
            found[slice(None) if part.which is None else part.which] = sizes
        return found

    def lost(self, columns: Sequence[str], rows: Rows) -> dict[int, StoreError]:
        """Which of these rows cannot be read, and why: for those who met a StoreError.

        Looks closer and closer, so that a few lost rows among many cost few reads.

        Raises:
            RefusedError, CredentialsError, DiskFullError: it is not for the rows.
        """
        found: dict[int, StoreError] = {}
        waiting = [np.unique(self._inside(rows))]
        while waiting:
            some = waiting.pop()
            if some.size == 0:
                continue
            try:
                for column in columns:
                    self._read_any(column, some)
            except NOT_OF_ROWS:
                raise
            except StoreError as error:
                if some.size == 1:
                    found[int(some[0])] = error
                else:
                    waiting += np.array_split(some, 2)
        return found

    def _read_any(self, column: str, rows: Rows) -> None:
        kind = self.layout(column).kind
        if kind == "numbers":
            self.numbers(column, rows, fill=0)
        elif kind == "texts":
            self.texts(column, rows)
        else:
            self.views(column, rows)

    # Ahead ----------------------------------------------------------------------------------------

    def prefetch(self, columns: Sequence[str], rows: Rows, *, sparse: bool | None = None) -> Ahead:
        """Begin to bring near what reading these columns of these rows will need.

        Returns at once. Blocks are fetched in the order of the rows, each once however often it is
        asked for, and are kept in the cache as long as the answer is held.
        """
        rows = self._inside(rows)
        fetches: list[Fetch] = []
        num_bytes = 0
        cold = self._warmth.is_cold()
        for column in columns:
            layout = self.layout(column)
            mapped = self._mapped_of(column)
            if mapped is not None:
                # What cannot be advised cannot be read either, which is left to the read.
                with suppress(StoreError, NotFoundError, OSError):
                    num_bytes += mapped.advise(rows) if cold else 0
            elif self._is_sparse(layout, sparse):
                if layout.kind != "media":
                    continue  # What reading them costs is little more than asking.
                begun, size = self._blocks.prefetch_rows(layout, rows)
                fetches += begun
                num_bytes += size
            else:
                begun, size = self._prefetch_blocks(layout, rows)
                fetches += begun
                num_bytes += size
        return Ahead(fetches, num_bytes)

    def _prefetch_blocks(self, layout: Layout, rows: Rows) -> tuple[list[Fetch], int]:
        fetches, num_bytes = [], 0
        numbers, counts = _first_seen(rows // layout.block_rows)
        for number, count in zip(numbers, counts, strict=True):
            if self._blocks.is_open(layout, number) or self._blocks.is_given_up(layout, number):
                continue
            is_cached = self._blocks.is_cached(layout, number)
            if not is_cached and self._blocks.is_few(layout, count):
                self._blocks.begin_quietly(layout, number)
                continue
            fetch, is_new = self._blocks.begin(layout, number)
            fetches.append(fetch)
            if is_new and not is_cached:
                num_bytes += layout.bytes_of(number)
        return fetches, num_bytes

    def expect(self, columns: Sequence[str], rows: Rows, in_s: float) -> None:
        """Blocks are done with, and wanted again in about so many seconds.

        That goes for blocks of which all rows are given: of columns that are cut into larger blocks
        other rows may be wanted at once.
        """
        if self._cache is None or self._num_rows == 0:
            return
        rows = np.unique(self._inside(rows))
        for column in columns:
            layout = self.layout(column)
            if self._mapped_of(column) is not None:
                continue
            numbers, counts = np.unique(rows // layout.block_rows, return_counts=True)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                first, stop = layout.span(number)
                if count == stop - first:
                    self._blocks.expect(layout, number, in_s)

    def keep(self, column: str, number: int) -> int | None:
        """Fetch a block into the cache, if it is not there, without opening it.

        Returns:
            Its bytes; None if the cache has no room for it.

        Raises:
            StoreError: it cannot be read.
        """
        return self._blocks.keep(self.layout(column), number)

    def renew(self, column: str, number: int) -> bool:
        """Whether a block is cached; if so, it counts as just used."""
        layout = self.layout(column)
        if not self._blocks.is_cached(layout, number):
            return False
        self._blocks.expect(layout, number, 0.0)
        return True

    def prepare_fork(self, columns: Sequence[str]) -> None:
        """Read what a forked process could not read of these columns.

        Raises:
            InputError: the format does not survive a fork, and the columns cannot all be held on
                this machine (says what to do).
        """
        if self._table.capabilities.survives_fork:
            return
        what = f"{', '.join(columns)} of {self._origin.where}"
        for column in columns:
            mapped = self._mapped_of(column)
            if mapped is not None:
                try:
                    mapped.prepare()
                except StoreError as error:
                    raise without_fork(what, self._table.format) from error
                continue
            layout = self.layout(column)
            if self.is_remote or layout.kind == "media":
                raise without_fork(what, self._table.format)
            for number in range(layout.num_blocks):
                self._blocks.pin(layout, number)

    def close(self) -> None:
        """Drop what is queued. Reading goes on to work."""
        self._blocks.close()

    # Arguments ------------------------------------------------------------------------------------

    def _of_kind(self, column: str, kind: Kind) -> Layout:
        layout = self._layouts.get(column) or self.layout(column)
        if layout.kind != kind:
            raise InputError(
                f"The column {column} holds {layout.kind}",
                where=self._table.uri,
                expected=kind,
                fix={"numbers": "Use numbers", "texts": "Use texts", "media": "Use views"}[
                    layout.kind
                ],
            )
        return layout

    def _inside(self, rows: Rows) -> Rows:
        rows = np.asarray(rows, np.int64)
        if rows.size and (rows.min() < 0 or rows.max() >= self._num_rows):
            raise InputError(
                "A row is out of range",
                where=self._origin.where,
                expected=f"rows from 0 to {self._num_rows - 1}",
                found=f"{rows.min()} to {rows.max()}",
            )
        return rows

    def _mapped_of(self, column: str) -> Mapped | None:
        try:
            return self._mapped[column]
        except KeyError:
            mapped = None
            if self.layout(column).kind == "media":
                # Of a table with a damaged file other rows are readable by blocks.
                with suppress(StoreError):
                    mapped = self._table.mapped(column)
            self._mapped[column] = mapped
            return mapped

    def _is_sparse(self, layout: Layout, sparse: bool | None) -> bool:
        return (self._sparse and layout.kind == "media") if sparse is None else sparse

    def after_fork(self) -> None:
        """In a forked child: what only the parent has is no more."""
        self._origin.is_forked = True
        self._meter = Meter()
        self._blocks.after_fork()


_T = TypeVar("_T")


def _in_order(count: int, found: Iterator[tuple[Part, list[_T]]]) -> list[_T]:
    """What parts gave, put where it was asked for."""
    pieces = list(found)
    if len(pieces) == 1 and pieces[0][0].which is None:
        return pieces[0][1]
    whole = np.empty(count, dtype=object)
    for part, values in pieces:
        if part.which is not None:
            for place, value in zip(part.which.tolist(), values, strict=True):
                whole[place] = value
    return cast("list[_T]", whole.tolist())


def _code(known: dict[str, int], text: str | None) -> int:
    return -1 if text is None else known.setdefault(text, len(known))


def _first_seen(numbers: Rows) -> tuple[list[int], list[int]]:
    """The different numbers, in the order in which they come first, and how often they come."""
    counts = Counter(numbers.tolist())
    return list(counts.keys()), list(counts.values())


def _remade(
    table: Table, cache: BlockCache | None, settings: dict[str, Any], sparse: bool
) -> TableReader:
    reader = TableReader(table, cache=cache, **settings)
    reader._sparse = sparse
    return reader


_READERS: weakref.WeakSet[TableReader] = weakref.WeakSet()


def _after_fork() -> None:
    for reader in list(_READERS):
        reader.after_fork()


os.register_at_fork(after_in_child=_after_fork)
