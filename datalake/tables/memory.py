"""Tables in this process's memory: the plain, slow truth that the stored formats are tested by.

Every version is one Arrow table; predicates are evaluated by DuckDB, which shares no code with the
other formats. Nothing outlives the process: a handle that another process unpickles finds no table.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from datalake.errors import ExistsError, NotFoundError
from datalake.tables.arrow_mapped import ArrowMapped
from datalake.tables.batches import as_reader, conform, described
from datalake.tables.handle import ROW_INDEX, Positions, TableHandle
from datalake.tables.mapped import Mapped
from datalake.tables.predicate import Node
from datalake.tables.predicate_sql import DUCKDB, to_sql
from datalake.tables.protocol import Batches, Capabilities, CleanupReport, Piece, Table, VersionInfo
from datalake.uri import Location

__all__ = ["MemoryTable", "create", "drop", "known", "open_at"]

_BATCH_ROWS: Final = 8192


@dataclass(frozen=True)
class _Version:
    rows: pa.Table
    created_at: dt.datetime
    properties: dict[str, str]


@dataclass
class _Store:
    """All there is about one table. The lock makes check and publish one step."""

    versions: dict[int, _Version] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    staged: dict[str, tuple[pa.Table, dt.datetime]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def publish(self, rows: pa.Table, properties: dict[str, str]) -> int:
        version = max(self.versions, default=0) + 1
        self.versions[version] = _Version(rows, _now(), properties)
        return version


_STORES: Final[dict[str, _Store]] = {}


def create(location: Location, schema: pa.Schema, properties: dict[str, str]) -> Table:
    """Make an empty table.

    Raises:
        ExistsError: there is one.
    """
    store = _Store()
    if _STORES.setdefault(location.uri, store) is not store:
        raise ExistsError("There is a table already", where=location.uri)
    return MemoryTable(location, store.publish(schema.empty_table(), properties), schema)


def open_at(location: Location, version: int | None) -> Table:
    """Open a version, or the latest.

    Raises:
        NotFoundError: there is no such table or version.
    """
    store = _store(location)
    version = max(store.versions) if version is None else version
    if version not in store.versions:
        raise NotFoundError(
            f"There is no version {version}",
            where=location.uri,
            found=f"versions {', '.join(map(str, sorted(store.versions)))}",
        )
    return MemoryTable(location, version, store.versions[version].rows.schema)


def drop(location: Location) -> None:
    """Remove a table.

    Raises:
        NotFoundError: there is none.
    """
    _store(location)
    del _STORES[location.uri]


def known() -> list[str]:
    """The uris of the tables there are, sorted."""
    return sorted(_STORES)


def _store(location: Location) -> _Store:
    if location.uri not in _STORES:
        raise NotFoundError(
            "There is no table in this process's memory",
            where=location.uri,
            fix="Tables in memory are seen by the process that made them only",
        )
    return _STORES[location.uri]


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class _MemoryStager:
    location: Location
    schema: pa.Schema

    def write(self, data: Batches) -> list[Piece]:
        batches = conform(as_reader(data, self.schema), self.schema, where=self.location.uri)
        rows = pa.Table.from_batches(batches, schema=self.schema)
        if not rows.num_rows:
            return []
        name = uuid.uuid4().hex
        _store(self.location).staged[name] = (rows, _now())
        return [
            Piece(
                MemoryTable.format,
                json.dumps(name),
                rows.num_rows,
                rows.nbytes,
                self.location.uri,
                described(self.schema),
            )
        ]


class MemoryTable(TableHandle):
    """A table in memory at one version."""

    format: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities(
        adds_columns_in_place=True, survives_process=False, survives_fork=True
    )

    @property
    def _store(self) -> _Store:
        return _store(self._location)

    @property
    def _rows(self) -> pa.Table:
        known = self._store.versions.get(self._version)
        if known is None:
            raise NotFoundError(f"Version {self._version} was cleaned up", where=self.uri)
        return known.rows

    def _num_rows(self) -> int:
        return int(self._rows.num_rows)

    def _count(self, predicate: Node) -> int:
        return len(self._where(predicate))

    def num_bytes(self) -> int:
        """Bytes of the rows' Arrow buffers."""
        return int(self._rows.nbytes)

    def fingerprint(self) -> str:
        """When the version was made."""
        return self.info().created_at.isoformat()

    def _where(self, predicate: Node | None) -> Positions:
        if predicate is None:
            return np.arange(self._num_rows())
        import duckdb

        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("rows", _for_duckdb(self._rows, self._num_rows()))
            found = connection.execute(
                f"SELECT {ROW_INDEX}_ FROM rows WHERE {to_sql(predicate, DUCKDB)} ORDER BY 1"
            )
            return np.asarray(found.fetchnumpy()[f"{ROW_INDEX}_"], np.int64)

    def _read(
        self,
        columns: list[str],
        predicate: Node | None,
        limit: int | None,
        batch_size: int | None,
        with_row_index: bool,
    ) -> Iterator[pa.RecordBatch]:
        positions = self._where(predicate)[:limit]
        rows = self._gather(positions, columns)
        if with_row_index:
            index = pa.array(positions, pa.uint64())
            rows = pa.Table.from_arrays([*rows.columns, index], [*columns, ROW_INDEX])
        yield from rows.combine_chunks().to_batches(max_chunksize=batch_size or _BATCH_ROWS)

    def _slice(self, start: int, stop: int, columns: list[str]) -> pa.Table:
        return self._rows.select(columns).slice(start, stop - start)

    def _gather(self, positions: Positions, columns: list[str]) -> pa.Table:
        return self._rows.select(columns).take(pa.array(positions))

    def _mapped(self, column: str) -> Mapped:
        return ArrowMapped(self, column, self._rows[column])

    def versions(self) -> list[VersionInfo]:
        """Versions still readable, oldest first."""
        store = self._store
        return [
            VersionInfo(
                number,
                version.created_at,
                version.properties,
                tuple(sorted(tag for tag, tagged in store.tags.items() if tagged == number)),
            )
            for number, version in sorted(store.versions.items())
        ]

    def info(self) -> VersionInfo:
        """This version's own entry of `versions`."""
        for info in self.versions():
            if info.version == self._version:
                return info
        raise NotFoundError(f"Version {self._version} was cleaned up", where=self.uri)

    def _latest_version(self) -> int:
        return max(self._store.versions)

    def _open(self, version: int) -> Table:
        return open_at(self._location, version)

    def _tags(self) -> dict[str, int]:
        return dict(self._store.tags)

    def _set_tag(self, name: str, version: int | None) -> None:
        with self._store.lock:
            if version is None:
                del self._store.tags[name]
            else:
                self._open(version)
                self._store.tags[name] = version

    def _stager(self, schema: pa.Schema) -> _MemoryStager:
        return _MemoryStager(self._location, schema)

    def _staged(self, pieces: Sequence[Piece], schema: pa.Schema) -> pa.Table:
        staged = self._store.staged
        return pa.concat_tables(
            [schema.empty_table(), *(staged[json.loads(piece.payload)][0] for piece in pieces)]
        )

    def _publish(self, rows: pa.Table, properties: dict[str, str], expected: int) -> Table:
        with self._store.lock:
            if self._latest_version() != expected:
                raise self._conflict(expected)
            return self._open(self._store.publish(rows, properties))

    def _append(
        self, pieces: Sequence[Piece], properties: dict[str, str], *, strictly: bool
    ) -> Table:
        with self._store.lock:
            latest = self._latest_version()
            rows = self._store.versions[latest].rows
            if rows.schema != self._schema:
                raise self._conflict(self._version)
            rows = pa.concat_tables([rows, self._staged(pieces, self._schema)])
            return self._publish(rows, properties, self._version if strictly else latest)

    def _overwrite(
        self, pieces: Sequence[Piece], properties: dict[str, str], schema: pa.Schema
    ) -> Table:
        return self._publish(self._staged(pieces, schema), properties, self._version)

    def _replace(
        self, removed: Positions, pieces: Sequence[Piece], properties: dict[str, str]
    ) -> Table:
        kept = np.delete(np.arange(self._num_rows()), removed)
        rows = pa.concat_tables(
            [self._rows.take(pa.array(kept)), self._staged(pieces, self._schema)]
        )
        return self._publish(rows, properties, self._version)

    def _extend(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        added = pa.Table.from_batches(batches, schema=schema)
        rows = self._rows
        for name in schema.names:
            rows = rows.append_column(schema.field(name), added[name])
        return self._publish(rows, properties, self._version)

    def _project(
        self, renames: dict[str, str], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        rows = pa.Table.from_arrays(self._rows.select(list(renames)).columns, schema=schema)
        return self._publish(rows, properties, self._version)

    def _restore(self, properties: dict[str, str]) -> Table:
        return self._publish(self._rows, properties, self._latest_version())

    def _compact(self, properties: dict[str, str]) -> Table:
        return self._publish(self._rows.combine_chunks(), properties, self._version)

    def _cleanup(self, older_than: dt.timedelta, dry_run: bool) -> CleanupReport:
        store, before = self._store, _now() - older_than
        with store.lock:
            kept = {self._latest_version(), *store.tags.values()}
            old = [
                number
                for number, version in store.versions.items()
                if number not in kept and version.created_at <= before
            ]
            garbage = [name for name, (_, written) in store.staged.items() if written <= before]
            num_bytes = sum(store.versions[number].rows.nbytes for number in old)
            if not dry_run:
                for number in old:
                    del store.versions[number]
                for name in garbage:
                    del store.staged[name]
        return CleanupReport(len(old), num_bytes, dry_run)


def _for_duckdb(rows: pa.Table, num_rows: int) -> pa.Table:
    """The columns DuckDB can compare, and the row index."""
    return rows.append_column(f"{ROW_INDEX}_", pa.array(np.arange(num_rows)))
