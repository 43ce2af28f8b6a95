"""What the formats share: every argument is checked here, and every composed operation made here.

A format implements the primitives (the methods that begin with an underscore); what a predicate
means, which columns exist, what an upsert does and when a handle is stale is decided once.
"""

from __future__ import annotations

import datetime as dt
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.errors import (
    ConflictError,
    ExistsError,
    InputError,
    NotFoundError,
    SchemaError,
    nearest,
)
from datalake.tables.batches import (
    as_positions,
    as_reader,
    conform,
    conforms,
    described,
    with_types,
)
from datalake.tables.mapped import Mapped
from datalake.tables.predicate import Node, parse
from datalake.tables.protocol import (
    Batches,
    Capabilities,
    CleanupReport,
    CommitMode,
    Piece,
    RowIndices,
    Stager,
    Table,
    VersionInfo,
)
from datalake.tables.ranged import Ranged
from datalake.uri import Location

__all__ = ["ROW_INDEX", "TableHandle"]

ROW_INDEX: Final = "row_index"
_ROW_INDEX_FIELD: Final = pa.field(ROW_INDEX, pa.uint64(), nullable=False)
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# Rows of keys that an upsert looks at in one go.
_KEY_BATCH_ROWS: Final = 1 << 20

Positions = npt.NDArray[np.int64]


class TableHandle(ABC):
    """A table at one version; see `datalake.tables.protocol.Table` for the contract."""

    format: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    def __init__(self, location: Location, version: int, schema: pa.Schema) -> None:
        self._location = location
        self._version = version
        self._schema = schema
        self._names: list[str] = schema.names

    def __repr__(self) -> str:
        return f"<{self.format} table {self.uri} at version {self.version}>"

    @property
    def uri(self) -> str:
        """Where the table is."""
        return self._location.uri

    @property
    def version(self) -> int:
        """The version this handle reads."""
        return self._version

    @property
    def schema(self) -> pa.Schema:
        """The columns of this version."""
        return self._schema

    # Primitives ---------------------------------------------------------------------------------

    @abstractmethod
    def _num_rows(self) -> int: ...

    @abstractmethod
    def _count(self, predicate: Node) -> int: ...

    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes of the data files of this version."""

    @abstractmethod
    def fingerprint(self) -> str:
        """What tells this version's rows from those that had its uri and number before."""

    @abstractmethod
    def _read(
        self,
        columns: list[str],
        predicate: Node | None,
        limit: int | None,
        batch_size: int | None,
        with_row_index: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Batches in index order: the columns in order, and the row index last if asked for."""

    @abstractmethod
    def _slice(self, start: int, stop: int, columns: list[str]) -> pa.Table:
        """Rows `start` to `stop - 1`; at least one."""

    @abstractmethod
    def _gather(self, positions: Positions, columns: list[str]) -> pa.Table: ...

    def _mapped(self, column: str) -> Mapped | None:  # noqa: ARG002 - a format that can overrides it
        """A binary column, read in place, if the format can."""
        return None

    def _ranged(self, column: str) -> Ranged | None:  # noqa: ARG002 - as above
        """A binary column by ranges, if the format and the store can."""
        return None

    @abstractmethod
    def versions(self) -> list[VersionInfo]:
        """Versions still readable, oldest first."""

    @abstractmethod
    def info(self) -> VersionInfo:
        """This version: when it was made, its properties and tags."""

    @abstractmethod
    def _latest_version(self) -> int: ...

    @abstractmethod
    def _open(self, version: int) -> Table:
        """Raises NotFoundError if the version is not there."""

    @abstractmethod
    def _tags(self) -> dict[str, int]: ...

    @abstractmethod
    def _set_tag(self, name: str, version: int | None) -> None:
        """Set a tag, or remove it for None."""

    @abstractmethod
    def _stager(self, schema: pa.Schema) -> Stager:
        """A stager for this schema, which is the table's or the one that will replace it."""

    @abstractmethod
    def _append(
        self, pieces: Sequence[Piece], properties: dict[str, str], *, strictly: bool
    ) -> Table:
        """Add rows at the end: of this version `strictly`, or of the latest one."""

    @abstractmethod
    def _overwrite(
        self, pieces: Sequence[Piece], properties: dict[str, str], schema: pa.Schema
    ) -> Table:
        """Replace all rows of this version."""

    @abstractmethod
    def _replace(
        self, removed: Positions, pieces: Sequence[Piece], properties: dict[str, str]
    ) -> Table:
        """Remove rows by index (sorted, not empty) and append pieces, in one version."""

    @abstractmethod
    def _extend(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        """Add the columns of `schema`; the batches hold as many rows as the table."""

    @abstractmethod
    def _project(
        self, renames: dict[str, str], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        """Keep the columns that `renames` names, called so; `schema` is what comes of it."""

    @abstractmethod
    def _restore(self, properties: dict[str, str]) -> Table:
        """Make a version with this one's rows on top of the latest."""

    @abstractmethod
    def _compact(self, properties: dict[str, str]) -> Table: ...

    @abstractmethod
    def _cleanup(self, older_than: dt.timedelta, dry_run: bool) -> CleanupReport: ...

    # Reading ------------------------------------------------------------------------------------

    def count_rows(self, where: str | None = None) -> int:
        """The number of rows, or of those for which `where` holds."""
        if where is None:
            return self._num_rows()
        return self._count(parse(where, self._schema))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        limit: int | None = None,
        batch_size: int | None = None,
        with_row_index: bool = False,
    ) -> pa.RecordBatchReader:
        """Stream rows in index order; see the protocol."""
        names = self._columns(columns)
        predicate = None if where is None else parse(where, self._schema)
        for name, value, least in (("limit", limit, 0), ("batch_size", batch_size, 1)):
            if value is not None and value < least:
                raise InputError(
                    f"{name} is too small", expected=f"{least} or more", found=str(value)
                )
        if not names and not with_row_index:
            raise InputError("A scan needs a column to read", where=self.uri)
        schema = self._selected(names)
        if with_row_index:
            if ROW_INDEX in names:
                raise SchemaError(
                    f"The table has a column of its own called {ROW_INDEX}",
                    where=self.uri,
                    fix="Name the columns to read and leave it out",
                )
            schema = schema.append(_ROW_INDEX_FIELD)
        batches = self._read(names, predicate, limit, batch_size, with_row_index)
        return pa.RecordBatchReader.from_batches(
            schema, (with_types(batch, schema) for batch in batches)
        )

    def take(self, indices: RowIndices, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows by index, in the order asked, repeats allowed."""
        names = self._columns(columns)
        return self._gather(as_positions(indices, self._num_rows()), names)

    def read(self, start: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows `start` to `stop - 1`, in order."""
        names, num_rows = self._columns(columns), self._num_rows()
        if not 0 <= start <= stop <= num_rows:
            raise InputError(
                "A range of rows cannot be read",
                where=self.uri,
                expected=f"a start and a stop from 0 to {num_rows}",
                found=f"{start} and {stop}",
            )
        if start == stop:
            return self._selected(names).empty_table()
        return self._slice(start, stop, names)

    def mapped(self, column: str) -> Mapped | None:
        """A binary column, read in place; None where it cannot be."""
        self._columns([column])
        stored = self._schema.field(column).type
        if not (pa.types.is_large_binary(stored) or pa.types.is_binary(stored)):
            return None
        return self._mapped(column)

    def ranged(self, column: str) -> Ranged | None:
        """A binary column by ranges of its values; None where only whole values can be had."""
        self._columns([column])
        stored = self._schema.field(column).type
        if not (pa.types.is_large_binary(stored) or pa.types.is_binary(stored)):
            return None
        return self._ranged(column)

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return self._names
        for name in columns:
            if name not in self._schema.names:
                raise SchemaError(
                    f"There is no column {name}",
                    where=self.uri,
                    fix=nearest(name, self._schema.names),
                )
        if len(set(columns)) < len(columns):
            raise InputError("A column is named twice", where=self.uri, found=", ".join(columns))
        return list(columns)

    def _selected(self, columns: list[str]) -> pa.Schema:
        """The schema of these columns."""
        if columns is self._names:
            return self._schema
        return pa.schema([self._schema.field(name) for name in columns])

    # Versions -----------------------------------------------------------------------------------

    def at(
        self,
        version: int | None = None,
        *,
        tag: str | None = None,
        time: dt.datetime | None = None,
    ) -> Table:
        """The table at a version, at a tag, or as it was at a time; the latest for none of them."""
        if sum(choice is not None for choice in (version, tag, time)) > 1:
            raise InputError("A table is opened by one of version, tag and time")
        if tag is not None:
            tags = self._tags()
            if tag not in tags:
                raise NotFoundError(
                    f"There is no tag {tag}", where=self.uri, fix=nearest(tag, tags)
                )
            version = tags[tag]
        elif time is not None:
            version = self._version_at(time)
        elif version is None:
            version = self._latest_version()
        return self._open(version)

    def _version_at(self, time: dt.datetime) -> int:
        if time.tzinfo is None:
            raise InputError(
                "A time has no zone",
                found=time.isoformat(),
                fix="Give it one, such as datetime.UTC",
            )
        known = self.versions()
        older = [info.version for info in known if info.created_at <= time]
        if not older:
            raise NotFoundError(
                f"The table has no version as old as {time.isoformat()}",
                where=self.uri,
                found=f"the oldest one is of {known[0].created_at.isoformat()}",
            )
        return older[-1]

    def tag(self, name: str, *, replace: bool = False) -> None:
        """Name this version. A tagged version outlives `cleanup`."""
        if not _TAG.fullmatch(name):
            raise InputError(
                "A tag's name cannot be used",
                expected="letters, digits, dots, dashes and underscores, a letter or digit first",
                found=repr(name),
            )
        tagged = self._tags().get(name)
        if tagged == self._version:
            return
        if tagged is not None and not replace:
            raise ExistsError(
                f"The tag {name} is taken",
                where=self.uri,
                found=f"it names version {tagged}",
                fix="Pass replace=True to move it",
            )
        self._set_tag(name, self._version)

    def untag(self, name: str) -> None:
        """Remove a tag."""
        tags = self._tags()
        if name not in tags:
            raise NotFoundError(f"There is no tag {name}", where=self.uri, fix=nearest(name, tags))
        self._set_tag(name, None)

    # Writing ------------------------------------------------------------------------------------

    def stager(self) -> Stager:
        """A stager for rows of this table's schema."""
        return self._stager(self._schema)

    def commit(
        self,
        pieces: Sequence[Piece],
        *,
        mode: CommitMode = "append",
        expected_version: int | None = None,
        removing: RowIndices | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Publish staged pieces as one new version, all or nothing."""
        self._check_pieces(pieces)
        if removing is not None:
            return self._commit_replacing(removing, pieces, mode, expected_version, properties)
        if expected_version is not None and expected_version != self._latest_version():
            raise self._conflict(expected_version)
        properties, strictly = dict(properties or {}), expected_version is not None
        if mode == "overwrite":
            if expected_version not in {None, self._version}:
                raise self._conflict(self._version)
            return self._overwrite(pieces, properties, self._schema)
        if mode != "append":
            raise InputError(
                "The commit mode is not known", expected="append or overwrite", found=mode
            )
        if expected_version in {None, self._version}:
            return self._append(pieces, properties, strictly=strictly)
        return self.at(expected_version).commit(
            pieces, expected_version=expected_version, properties=properties
        )

    def _commit_replacing(
        self,
        removing: RowIndices,
        pieces: Sequence[Piece],
        mode: CommitMode,
        expected_version: int | None,
        properties: Mapping[str, str] | None,
    ) -> Table:
        if mode != "append" or expected_version not in {None, self._version}:
            raise InputError(
                "Rows are removed from this handle's version alone",
                where=self.uri,
                expected=f"the mode append and version {self._version}",
                found=f"the mode {mode} and version {expected_version}",
            )
        removed = np.unique(as_positions(removing, self._num_rows()))
        self._expect_latest()
        if not removed.size:
            return self._append(pieces, dict(properties or {}), strictly=True)
        return self._replace(removed, pieces, dict(properties or {}))

    def _check_pieces(self, pieces: Sequence[Piece]) -> None:
        schema = described(self._schema)
        for piece in pieces:
            if (piece.format, piece.table) != (self.format, self.uri):
                raise InputError(
                    "A piece was staged for another table",
                    where=self.uri,
                    found=f"a piece of the {piece.format} table {piece.table}",
                )
            if piece.schema != schema:
                raise SchemaError(
                    "A piece was staged for other columns",
                    where=self.uri,
                    expected=schema,
                    found=piece.schema,
                    fix="Stage the rows again, with a stager of this handle",
                )

    def append(self, data: Batches, *, properties: Mapping[str, str] | None = None) -> Table:
        """Add rows at the end."""
        return self.commit(self.stager().write(data), properties=properties)

    def overwrite(self, data: Batches, *, properties: Mapping[str, str] | None = None) -> Table:
        """Replace all rows, and the schema if `data` has another."""
        reader = as_reader(data, self._schema)
        schema = self._schema if conforms(reader.schema, self._schema) else reader.schema
        self._expect_latest()
        return self._overwrite(self._stager(schema).write(reader), dict(properties or {}), schema)

    def delete(self, where: str, *, properties: Mapping[str, str] | None = None) -> Table:
        """Remove rows for which `where` holds. No match makes no version."""
        removed = _positions_of(self.scan([], where=where, with_row_index=True))
        self._expect_latest()
        if not removed.size:
            return self
        return self._replace(removed, [], dict(properties or {}))

    def merge(
        self,
        data: Batches,
        key: str | Sequence[str],
        *,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Upsert: rows whose key is there are removed, and all rows of `data` appended."""
        names = self._columns([key] if isinstance(key, str) else key)
        schema = self._selected(names)
        if not names or any(pa.types.is_nested(field.type) for field in schema):
            raise InputError(
                "The key of an upsert cannot be used",
                where=self.uri,
                expected="one column or more, none of them nested",
                found=str(schema),
            )
        keys: list[pa.RecordBatch] = []

        def noting_keys() -> Iterator[pa.RecordBatch]:
            for batch in conform(as_reader(data, self._schema), self._schema, where=self.uri):
                keys.append(batch.select(names))
                yield batch

        pieces = self.stager().write(noting_keys())
        wanted = _without_dictionaries(pa.Table.from_batches(keys, schema=schema))
        _check_keys(wanted, self.uri)
        removed = self._matching(wanted)
        self._expect_latest()
        if not removed.size:
            return self._append(pieces, dict(properties or {}), strictly=True)
        return self._replace(removed, pieces, dict(properties or {}))

    def _matching(self, keys: pa.Table) -> Positions:
        """The indices of the rows whose key is among `keys`."""
        found = [np.empty(0, np.int64)]
        reader = self.scan(keys.column_names, batch_size=_KEY_BATCH_ROWS, with_row_index=True)
        for batch in reader if keys.num_rows else []:
            match = _without_dictionaries(pa.Table.from_batches([batch])).join(
                keys, keys=keys.column_names, join_type="left semi"
            )
            found.append(np.sort(match[ROW_INDEX].to_numpy()).astype(np.int64))
        return np.concatenate(found)

    def add_columns(self, data: Batches, *, properties: Mapping[str, str] | None = None) -> Table:
        """Add columns whose rows follow this version's row order."""
        reader = as_reader(data)
        for name in reader.schema.names:
            if name in self._schema.names:
                raise SchemaError(f"The table has a column {name} already", where=self.uri)
        self._expect_latest()
        return self._extend(
            self._exactly(reader, self._num_rows()), reader.schema, dict(properties or {})
        )

    def _exactly(self, reader: pa.RecordBatchReader, num_rows: int) -> Iterator[pa.RecordBatch]:
        """The batches, if they have `num_rows` rows in all."""
        seen = 0
        for batch in conform(reader, reader.schema, where=self.uri):
            seen += batch.num_rows
            if seen > num_rows:
                break
            yield batch
        if seen != num_rows:
            raise InputError(
                "The new columns have another number of rows than the table",
                where=self.uri,
                expected=str(num_rows),
                found=str(seen) if seen < num_rows else f"{seen} or more",
            )

    def _expect_latest(self) -> None:
        """Refuse a stale handle before work is done for it; the commit itself checks again."""
        if self._latest_version() != self._version:
            raise self._conflict(self._version)

    def _conflict(self, expected_version: int | None) -> ConflictError:
        return ConflictError(
            "The table has changed since it was opened; nothing was published",
            where=self.uri,
            expected=f"version {expected_version}",
            found=f"version {self._latest_version()}",
            fix="Open the table again and repeat the operation",
        )

    def project(
        self, columns: Mapping[str, str], *, properties: Mapping[str, str] | None = None
    ) -> Table:
        """Keep these columns alone, under new names or their own."""
        wanted = set(self._columns(list(columns)))
        fields = [f.with_name(columns[f.name]) for f in self._schema if f.name in wanted]
        called = [field.name for field in fields]
        if not called or len(set(called)) < len(called):
            raise SchemaError(
                "Columns cannot be kept under these names",
                where=self.uri,
                expected="one name or more, each once",
                found=", ".join(called) or "none",
            )
        self._expect_latest()
        schema = pa.schema(fields, metadata=self._schema.metadata)
        renames = {name: columns[name] for name in self._names if name in wanted}
        return self._project(renames, schema, dict(properties or {}))

    def restore(self, *, properties: Mapping[str, str] | None = None) -> Table:
        """Make this version's rows and columns the latest again, as a new version."""
        return self._restore(dict(properties or {}))

    # Care ---------------------------------------------------------------------------------------

    def compact(self, *, properties: Mapping[str, str] | None = None) -> Table:
        """Rewrite small pieces into larger ones; the rows and their order stay the same."""
        self._expect_latest()
        return self._compact(dict(properties or {}))

    def cleanup(
        self, *, older_than: dt.timedelta = dt.timedelta(days=14), dry_run: bool = False
    ) -> CleanupReport:
        """Remove old versions, and files nobody committed; see the protocol."""
        if older_than < dt.timedelta(0):
            raise InputError("An age is negative", expected="0 or more", found=str(older_than))
        return self._cleanup(older_than, dry_run)


def _positions_of(reader: pa.RecordBatchReader) -> Positions:
    found = [batch.column(ROW_INDEX).to_numpy().astype(np.int64) for batch in reader]
    return np.concatenate([np.empty(0, np.int64), *found])


def _without_dictionaries(rows: pa.Table) -> pa.Table:
    """The rows with dictionaries resolved, as Arrow neither groups nor joins by them."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def _check_keys(keys: pa.Table, where: str) -> None:
    for name in keys.column_names:
        if keys[name].null_count:
            raise InputError(
                f"The key {name} is null",
                where=where,
                expected="a key in every row",
                found=f"{keys[name].null_count} rows without one",
            )
    counts = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    if counts.num_rows < keys.num_rows:
        repeated = counts.filter(pc.field("count_all") > 1).slice(0, 1).to_pylist()[0]
        times = repeated.pop("count_all")
        raise InputError(
            "A key repeats within the rows to merge",
            where=where,
            expected="each key once",
            found=f"{', '.join(f'{k}={v!r}' for k, v in repeated.items())} {times} times",
        )
