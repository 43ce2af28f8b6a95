"""What a table is: the one protocol that every format implements.

A `Table` is a handle on one committed version. It never changes under its reader: a write returns
a new handle on the version it made and leaves the old one readable. Writes have two phases. A
`Stager` (small, picklable, made by the driver) writes pieces anywhere, in any process, and what it
writes stays invisible; one `commit` on the driver publishes pieces atomically. `append`,
`overwrite` and the like are those two phases in one call.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.tables.mapped import Mapped
from datalake.tables.ranged import Ranged

__all__ = [
    "Batches",
    "Capabilities",
    "CleanupReport",
    "CommitMode",
    "Piece",
    "RowIndices",
    "Stager",
    "Table",
    "VersionInfo",
]

Batches: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | Iterable[pa.RecordBatch]
RowIndices: TypeAlias = Sequence[int] | npt.NDArray[np.integer] | pa.Array
CommitMode: TypeAlias = Literal["append", "overwrite"]


@dataclass(frozen=True)
class Capabilities:
    """What a format can do beyond the contract, or cannot do cheaply."""

    adds_columns_in_place: bool
    """`add_columns` leaves the files of the other columns as they are."""
    survives_process: bool
    """Other processes see the table (false for memory)."""
    survives_fork: bool
    """A process forked from one that uses the format can use it too. Where not, it hangs or dies;
    `spawn` and `forkserver` make processes that can."""


@dataclass(frozen=True)
class Piece:
    """Rows that a stager wrote and nobody sees yet. Small and picklable."""

    format: str
    payload: str
    """What the format needs to publish the rows, as text (JSON)."""
    num_rows: int
    num_bytes: int
    table: str
    """The uri of the table it was staged for."""
    schema: str
    """The columns it holds, as text."""


@dataclass(frozen=True)
class VersionInfo:
    """One committed version of a table."""

    version: int
    created_at: dt.datetime
    """When it was committed, in UTC."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What the committer recorded with it (lineage lives here)."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class CleanupReport:
    """What a clean-up removed, or would remove."""

    num_versions: int
    num_bytes: int
    dry_run: bool


class Stager(Protocol):
    """Writes pieces that publish nothing.

    Picklable, and cheap to pickle; safe to use in several processes and threads at once. Pieces of
    a worker that dies are garbage that `cleanup` removes; they are never rows.
    """

    def write(self, data: Batches) -> list[Piece]:
        """Write rows out, unpublished. An empty input gives no piece.

        Raises:
            SchemaError: the columns or types differ from the table's.
            StoreError: the store refused.
        """
        ...


@runtime_checkable
class Table(Protocol):
    """One committed version of a table. Reading is thread-safe; a handle is picklable.

    Rows have an index: their position in the scan order of this version, from 0. The order is
    fixed for a version, the same in every process and for every format, and `take` and `scan`
    agree on it. Predicates (`where`) are SQL boolean expressions over the columns
    (`label = 'spoof' AND duration_s > 2`), with SQL's rules for nulls; the language is that of
    `datalake.tables.predicate` in every format.

    A write expects the table to be at this handle's version still, and raises ConflictError if it
    is not. Appends alone may land on top of commits that they did not see.
    """

    @property
    def uri(self) -> str: ...

    @property
    def format(self) -> str:
        """`lance`, `delta` or `memory`."""
        ...

    @property
    def version(self) -> int:
        """The version this handle reads. Versions grow; they need not be consecutive."""
        ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def capabilities(self) -> Capabilities: ...

    # Reading ------------------------------------------------------------------------------------

    def count_rows(self, where: str | None = None) -> int: ...

    def num_bytes(self) -> int:
        """Bytes of the data files of this version (zero for none, approximate for memory)."""
        ...

    def fingerprint(self) -> str:
        """What tells this version's rows from those that had its uri and number before.

        A table may be dropped and made anew in the same place. Equal in every process and for
        every handle on the version; costs no request to a store once its rows are counted.
        """
        ...

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        batch_size: int | None = None,
        with_row_index: bool = False,
    ) -> pa.RecordBatchReader:
        """Stream rows in index order. Columns not asked for are not read.

        Args:
            columns: names to read, in the order wanted; None for all.
            where: keep only rows for which this holds.
            limit: at most so many rows, counted after `where`.
            batch_size: most rows in a batch; None lets the format choose within a memory bound.
            with_row_index: append a column `row_index` (uint64).

        Raises:
            SchemaError: a column is not there (names the nearest).
            PredicateError: `where` does not parse or names an unknown column.
        """
        ...

    def take(self, indices: RowIndices, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by index, in the order asked, repeats allowed.

        Raises:
            InputError: an index is out of range.
            SchemaError: a column is not there.
        """
        ...

    def read(self, start: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows `start` to `stop - 1`, in order: what `take` of them gives, at a lower cost.

        Raises:
            InputError: the range is not within the table.
            SchemaError: a column is not there.
        """
        ...

    def mapped(self, column: str) -> Mapped | None:
        """A binary column whose values lie in this machine's files or memory as they are.

        None where they do not: on an object store, compressed, in another format, or of another
        type than binary and large_binary. Rows are those of `take`.

        Raises:
            SchemaError: the column is not there.
            StoreError: a file is cut, or contradicts itself.
        """
        ...

    def ranged(self, column: str) -> Ranged | None:
        """A binary column on an object store by parts of its values; None where only whole values
        can be had: of a local table (see `mapped`), compressed, or in another format.

        Raises:
            SchemaError: the column is not there.
        """
        ...

    # Versions -----------------------------------------------------------------------------------

    def versions(self) -> list[VersionInfo]:
        """Versions still readable, oldest first."""
        ...

    def info(self) -> VersionInfo:
        """This version: when it was made, its properties and tags. Costs one look, not a list.

        Raises:
            NotFoundError: it was cleaned up.
        """
        ...

    def at(
        self,
        version: int | None = None,
        *,
        tag: str | None = None,
        time: dt.datetime | None = None,
    ) -> Table:
        """The table at a version, at a tag, or as it was at a time; the latest for none of them.

        Raises:
            NotFoundError: there is no such version or tag, or the table is younger than `time`.
        """
        ...

    def tag(self, name: str, *, replace: bool = False) -> None:
        """Name this version. A tagged version outlives `cleanup`.

        Raises:
            ExistsError: the tag names another version and `replace` is false.
        """
        ...

    def untag(self, name: str) -> None: ...

    # Writing ------------------------------------------------------------------------------------

    def stager(self) -> Stager: ...

    def commit(
        self,
        pieces: Sequence[Piece],
        *,
        mode: CommitMode = "append",
        expected_version: int | None = None,
        removing: RowIndices | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Publish staged pieces as one new version, all or nothing.

        Args:
            pieces: what stagers of this table returned; their rows follow each other in this order.
                None at all makes a version too, which records its properties.
            mode: `append`, or `overwrite` to replace all rows.
            expected_version: the version the table must still have. None allows an append to land
                after commits it did not see; an overwrite then expects this handle's version.
            removing: rows of this handle's version that go in the same commit; the others keep
                their order and the pieces follow them. It expects this handle's version.
            properties: recorded with the version.

        Raises:
            ConflictError: the table is not at the expected version; nothing was published, and the
                pieces can be committed again.
            SchemaError: a piece was staged for other columns than this handle's.
            InputError: a piece was staged for another table.
        """
        ...

    def append(self, data: Batches, *, properties: Mapping[str, str] | None = None) -> Table: ...

    def overwrite(self, data: Batches, *, properties: Mapping[str, str] | None = None) -> Table:
        """Replace all rows (and the schema, if `data` has another). Expects this handle's version.

        Raises:
            ConflictError: the table moved on since this handle was opened.
        """
        ...

    def delete(self, where: str, *, properties: Mapping[str, str] | None = None) -> Table:
        """Remove rows for which `where` holds; the others keep their order.

        No match makes no version.

        Raises:
            ConflictError: the table moved on since this handle was opened.
        """
        ...

    def merge(
        self,
        data: Batches,
        key: str | Sequence[str],
        *,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Upsert: the rows that share a key with `data` go, and all rows of `data` are appended.

        The keys of `data` are held in memory, and its rows are not.

        Raises:
            InputError: the key repeats within `data`, is null, or is a nested column.
            ConflictError: the table moved on since this handle was opened.
        """
        ...

    def add_columns(self, data: Batches, *, properties: Mapping[str, str] | None = None) -> Table:
        """Add columns whose rows follow this version's row order. Expects this handle's version.

        Raises:
            InputError: the number of rows differs.
            SchemaError: a column of that name is there already.
            ConflictError: the table moved on since this handle was opened.
        """
        ...

    def project(
        self, columns: Mapping[str, str], *, properties: Mapping[str, str] | None = None
    ) -> Table:
        """Keep these columns alone, under new names or their own (`{"kept": "called"}`).

        Columns keep their order, and rows theirs. Where a format can (Lance), no data is read or
        written; elsewhere the rows are rewritten in a stream. Expects this handle's version.

        Raises:
            SchemaError: a column is not there (names the nearest), two would have one name, or
                none would be left.
            ConflictError: the table moved on since this handle was opened.
        """
        ...

    def restore(self, *, properties: Mapping[str, str] | None = None) -> Table:
        """Make this version's rows and columns the latest again, as a new version.

        Moves no data. What later versions added stays readable at those versions.

        Raises:
            ConflictError: another writer committed at the same moment; nothing was published.
            NotFoundError: this version was cleaned up.
        """
        ...

    # Care ---------------------------------------------------------------------------------------

    def compact(self, *, properties: Mapping[str, str] | None = None) -> Table:
        """Rewrite small pieces into larger ones; the rows and their order stay the same.

        Where there is nothing to gain no version is made.

        Raises:
            ConflictError: the table moved on since this handle was opened.
        """
        ...

    def cleanup(
        self, *, older_than: dt.timedelta = dt.timedelta(days=14), dry_run: bool = False
    ) -> CleanupReport:
        """Remove versions older than `older_than`, and files nobody committed.

        The latest version and tagged versions stay. Pieces staged more recently than `older_than`
        stay too, so a running writer is not disturbed; a format may keep them for seven days.
        `older_than` zero says that nobody writes, and removes all of them.
        """
        ...
