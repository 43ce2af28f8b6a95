"""Tables in the Delta Lake format.

The log is delta-rs's; the Parquet files are written and read here. Rows have an order, which Delta
does not know: files follow each other by the modification time in the log, then by name. A file
that replaces another (after a delete, a compaction) takes over its time and the front of its name,
so rows keep their places. Delta has neither tags nor a record of cleaned versions: both are small
JSON objects under `_datalake/` in the table's folder, which other readers ignore.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from datalake import forks
from datalake.errors import (
    ConflictError,
    ExistsError,
    InputError,
    MissingPackageError,
    NotFoundError,
)
from datalake.schema import is_media
from datalake.tables.batches import Source, Splitter, as_reader, conform, described, with_types
from datalake.tables.delta_files import DataFile, name_part, rewritten_name, row_groups, write_file
from datalake.tables.delta_pages import PagedFile, PagedRows, read_rows
from datalake.tables.delta_ranges import Ranges, s3_files, side_by_side
from datalake.tables.delta_schema import declared_schema, physical_schema
from datalake.tables.failures import translated, translated_stream
from datalake.tables.handle import ROW_INDEX, Positions, TableHandle
from datalake.tables.predicate import Node, columns_of
from datalake.tables.predicate_arrow import skipping, to_arrow
from datalake.tables.protocol import Batches, Capabilities, CleanupReport, Piece, Table, VersionInfo
from datalake.tables.stores import delta_options, ensure_safe_commits
from datalake.uri import Location

if TYPE_CHECKING:
    from deltalake import CommitProperties, PostCommitHookProperties
    from deltalake import DeltaTable as Log
    from deltalake.transaction import AddAction

__all__ = ["DeltaTable", "create", "drop", "exists", "open_at"]

_PROPERTIES: Final = "datalake.properties"
_TAGS: Final = "_datalake/tags"
_CLEANED: Final = "_datalake/cleaned.json"
_FILE_BYTES: Final = 1 << 30
_APPEND_TRIES: Final = 50
# What other engines may have switched on and this reader does not understand.
_NOT_READ: Final = frozenset({"deletionVectors", "columnMapping"})


def create(location: Location, schema: pa.Schema, properties: dict[str, str]) -> Table:
    """Make an empty table.

    Raises:
        ExistsError: there is one.
        SchemaError: Delta cannot hold a column.
    """
    lib = _library()
    ensure_safe_commits(location)
    if exists(location):
        raise ExistsError("There is a table already", where=location.uri)
    with translated(location, "Creating the table"):
        log = lib.DeltaTable.create(
            location.uri,
            lib.Schema.from_arrow(physical_schema(schema, location.uri)),
            # The log must not forget versions that are tagged.
            configuration={"delta.enableExpiredLogCleanup": "false"},
            storage_options=delta_options(location),
            commit_properties=_commit_properties(properties),
        )
    return DeltaTable(location, log.version(), schema)


def exists(location: Location) -> bool:
    """Whether a Delta table is there."""
    with translated(location, "Looking for a table"):
        return bool(
            _library().DeltaTable.is_deltatable(
                location.uri, storage_options=delta_options(location)
            )
        )


def open_at(location: Location, version: int | None) -> Table:
    """Open a version, or the latest.

    Raises:
        NotFoundError: there is no such table or version.
        InputError: the table uses features of Delta that are not supported.
    """
    log = _log(location, version)
    partitions = log.metadata().partition_columns
    features = set(log.protocol().reader_features or ()) & _NOT_READ
    if partitions or features:
        raise InputError(
            "The Delta table was written by another engine in a way that is not supported",
            where=location.uri,
            expected="no partition columns, deletion vectors or column mapping",
            found=", ".join([*partitions, *sorted(features)]),
            fix="Rewrite it without them",
        )
    table = DeltaTable(location, log.version(), declared_schema(_arrow_schema(log)))
    if version is not None:
        table.require_readable(version)
    return table


def drop(location: Location) -> None:
    """Remove a table and its files.

    Raises:
        NotFoundError: there is none.
    """
    _log(location, None)
    with translated(location, "Removing the table"):
        if location.is_local:
            pafs.LocalFileSystem().delete_dir(location.uri)
        else:
            filesystem = _filesystem(location)
            files = filesystem.get_file_info(pafs.FileSelector("", recursive=True))
            # The log goes first: what is left by an interruption is no table.
            for info in sorted(files, key=lambda info: not info.path.startswith("_delta_log/")):
                if info.is_file:
                    filesystem.delete_file(info.path)


def _library() -> Any:
    try:
        import deltalake
    except ImportError as error:
        raise MissingPackageError.of("deltalake", "delta", "A Delta table") from error
    return deltalake


def _log(location: Location, version: int | None) -> Log:
    """The log as of a version.

    Raises:
        NotFoundError: there is no such table or version.
    """
    lib = _library()
    with translated(location, "Opening the table"):
        log: Log = lib.DeltaTable(location.uri, storage_options=delta_options(location))
        if version is None or version == log.version():
            return log
        if not 0 <= version <= log.version():
            raise NotFoundError(
                f"There is no version {version}",
                where=location.uri,
                found=f"versions 0 to {log.version()}",
            )
        log.load_as_version(version)
    return log


def _filesystem(location: Location) -> pafs.FileSystem:
    """The files of the table, reached as the log is."""
    if location.is_local:
        return pafs.SubTreeFileSystem(location.uri, pafs.LocalFileSystem())
    from deltalake.fs import DeltaStorageHandler

    return pafs.PyFileSystem(DeltaStorageHandler(location.uri, delta_options(location)))


def _readable(location: Location) -> pafs.FileSystem:
    """The files of the table, for reading by many threads."""
    return s3_files(location) if location.scheme == "s3" else _filesystem(location)


def _arrow_schema(log: Log) -> pa.Schema:
    return pa.schema(log.schema().to_arrow())


def _commit_properties(properties: dict[str, str]) -> CommitProperties:
    from deltalake import CommitProperties

    return CommitProperties(custom_metadata={_PROPERTIES: properties}, max_commit_retries=0)


def _hooks() -> PostCommitHookProperties:
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(cleanup_expired_logs=False)


@dataclass(frozen=True)
class _DeltaStager:
    """Writes Parquet files into the table's folder that no log mentions."""

    location: Location
    schema: pa.Schema

    def write(self, data: Batches) -> list[Piece]:
        reader = as_reader(data, self.schema)
        batches = Source(conform(reader, self.schema, where=self.location.uri))
        physical = physical_schema(self.schema, self.location.uri)
        groups = row_groups(batches, physical)
        filesystem, stem = _filesystem(self.location), f"part-{uuid.uuid4().hex}"
        pieces: list[Piece] = []
        with batches.unmasked(), translated(self.location, "Writing rows"):
            while (first := next(groups, None)) is not None:
                file = write_file(
                    filesystem,
                    name_part(stem, len(pieces)),
                    chain([first], groups),
                    physical,
                    stop_bytes=_FILE_BYTES,
                )
                pieces.append(
                    Piece(
                        DeltaTable.format,
                        json.dumps({"path": file.path}),
                        file.num_rows,
                        file.num_bytes,
                        self.location.uri,
                        described(self.schema),
                    )
                )
        return pieces


_Rows = tuple[list[pa.Array], Positions]


@dataclass(frozen=True)
class _Entry:
    """A file in the log, which orders by what makes the order of rows."""

    modified_ms: int
    file: DataFile


class DeltaTable(TableHandle):
    """A Delta table at one version."""

    format: ClassVar[str] = "delta"

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """What it can do. delta-rs needs its threads for a store, which a fork does not have."""
        return Capabilities(
            adds_columns_in_place=False,
            survives_process=True,
            survives_fork=self._location.is_local,
        )

    def __init__(self, location: Location, version: int, schema: pa.Schema) -> None:
        super().__init__(location, version, schema)
        self._physical = physical_schema(schema, location.uri)
        self._listed: list[_Entry] | None = None
        self._starts = np.zeros(1, np.int64)
        self._paged: PagedRows | None = None
        self._lock = threading.Lock()
        forks.register(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        if self._paged is not None:
            self._paged.after_fork()

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        del state["_lock"]
        state.pop("_files", None)
        return {**state, "_listed": None, "_paged": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
        forks.register(self)

    @cached_property
    def _files(self) -> pafs.FileSystem:
        """Its files, for reading."""
        return _readable(self._location)

    @property
    def _entries(self) -> list[_Entry]:
        with self._lock:
            if self._listed is None:
                self._listed = self._list_files(_log(self._location, self._version))
                counts = [entry.file.num_rows for entry in self._listed]
                self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            return self._listed

    def _list_files(self, log: Log) -> list[_Entry]:
        actions = pa.table(log.get_add_actions(flatten=True))
        filesystem = self._files
        num_records = (
            actions["num_records"].to_pylist()
            if "num_records" in actions.column_names
            else [None] * actions.num_rows
        )
        listed = zip(
            actions["modification_time"].to_pylist(),
            actions["path"].to_pylist(),
            num_records,
            actions["size_bytes"].to_pylist(),
            strict=True,
        )
        return [
            _Entry(modified, DataFile(filesystem, path, rows, size, self._physical))
            for modified, path, rows, size in sorted(listed, key=lambda entry: entry[:2])
        ]

    # Reading ------------------------------------------------------------------------------------

    def _num_rows(self) -> int:
        with translated(self._location, "Counting rows"):
            return sum(entry.file.num_rows for entry in self._entries)

    def _count(self, predicate: Node) -> int:
        with translated(self._location, "Counting rows"):
            return sum(len(positions) for _, positions in self._matches(predicate))

    def num_bytes(self) -> int:
        """Bytes of the data files of this version."""
        with translated(self._location, "Reading the log"):
            return sum(entry.file.num_bytes for entry in self._entries)

    def fingerprint(self) -> str:
        """A hash of the files, whose names are random; the log has been read for their rows."""
        with translated(self._location, "Reading the log"):
            named = [
                f"{entry.file.path} {entry.modified_ms} {entry.file.num_bytes}"
                for entry in self._entries
            ]
        return hashlib.blake2b("\n".join(named).encode(), digest_size=16).hexdigest()

    def _matches(self, predicate: Node) -> Iterator[tuple[int, Positions]]:
        """The number of each file, and the positions in it of rows for which a predicate holds."""
        names = sorted(columns_of(predicate))
        expression, needed = to_arrow(predicate), skipping(predicate)
        for number, entry in enumerate(self._entries):
            yield number, entry.file.matches(expression, needed, names)

    def _read(
        self,
        columns: list[str],
        predicate: Node | None,
        limit: int | None,
        batch_size: int | None,
        with_row_index: bool,
    ) -> Iterator[pa.RecordBatch]:
        if predicate is not None:
            found = self._matching_rows(columns, predicate, batch_size)
        elif columns:
            found = self._all_rows(columns, batch_size)
        else:
            found = iter([([], np.arange(self._num_rows()))])
        for arrays, positions in translated_stream(self._location, "Reading rows", found):
            if limit is not None:
                arrays = [array.slice(0, limit) for array in arrays]
                positions = positions[:limit]
                limit -= len(positions)
            names = list(columns)
            if with_row_index:
                arrays, names = [*arrays, pa.array(positions, pa.uint64())], [*names, ROW_INDEX]
            yield pa.RecordBatch.from_arrays(arrays, names)
            if limit == 0:
                return

    def _all_rows(self, columns: list[str], batch_size: int | None) -> Iterator[_Rows]:
        start = 0
        for entry in self._entries:
            for batch in entry.file.batches(columns, batch_size):
                yield batch.columns, np.arange(start, start + batch.num_rows)
                start += batch.num_rows

    def _matching_rows(
        self, columns: list[str], predicate: Node, batch_size: int | None
    ) -> Iterator[_Rows]:
        for number, found in self._matches(predicate):
            start, entry = self._starts[number], self._entries[number]
            if not columns and found.size:
                yield [], found + start
                continue
            for rows in entry.file.take(found, columns) if found.size else ():
                for batch in rows.to_batches(max_chunksize=batch_size):
                    positions, found = found[: batch.num_rows], found[batch.num_rows :]
                    yield batch.columns, positions + start

    def _by_pages(self, wanted: dict[int, Positions], columns: list[str]) -> pa.Table | None:
        """Rows of one media column; None if it is none, or not all files tell of its pages.

        Args:
            wanted: positions within files, ascending, by the number of the file.
            columns: names.
        """
        field = self._schema.field(columns[0]) if len(columns) == 1 else None
        if field is None or not is_media(field) or not pa.types.is_large_binary(field.type):
            return None
        with self._lock:
            if self._paged is None:
                ranges = Ranges(self._location, self._files)
                self._paged = PagedRows(ranges, self.uri)
        files = [self._entries[number].file for number in wanted]
        values = read_rows(
            self._paged,
            [
                (PagedFile(file.path, file.num_bytes), positions)
                for file, positions in zip(files, wanted.values(), strict=True)
            ],
            columns[0],
            field.type,
        )
        if values is None:
            return None
        return pa.Table.from_arrays([values], schema=self._selected(columns))

    def _slice(self, start: int, stop: int, columns: list[str]) -> pa.Table:
        schema = self._selected(columns)
        with translated(self._location, "Reading rows"):
            entries = self._entries
            paged = self._by_pages(self._spread(np.arange(start, stop)), columns)
            if paged is not None:
                return paged
            first, last = np.searchsorted(self._starts, [start, stop - 1], "right") - 1

            def read(number: int) -> list[pa.Table]:
                begin, end = self._starts[number : number + 2].tolist()
                own = max(start - begin, 0), min(stop, end) - begin
                return list(entries[number].file.slice(*own, columns))

            files = self._by_file(read, range(int(first), int(last) + 1))
            rows = [with_types(batch, schema) for part in files for batch in part.to_batches()]
        return pa.Table.from_batches(rows, schema=schema)

    def _gather(self, positions: Positions, columns: list[str]) -> pa.Table:
        schema = self._selected(columns)
        order = np.argsort(positions, kind="stable")
        ascending = positions[order]
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        with translated(self._location, "Taking rows"):
            paged = self._by_pages(self._spread(ascending), columns)
            if paged is not None:
                return paged.take(pa.array(inverse))
            spread = self._spread(ascending)

            def read(number: int) -> list[pa.Table]:
                return list(self._entries[number].file.take(spread[number], columns))

            files = self._by_file(read, list(spread))
            rows = [with_types(batch, schema) for part in files for batch in part.to_batches()]
        return pa.Table.from_batches(rows, schema=schema).take(pa.array(inverse))

    def _by_file(
        self, read: Callable[[int], list[pa.Table]], numbers: Sequence[int]
    ) -> Iterator[pa.Table]:
        """What is read of each file, in order. Files of a store are waited for side by side."""
        if self._location.is_local:
            return chain.from_iterable(map(read, numbers))
        return chain.from_iterable(side_by_side(read, numbers))

    def _spread(self, ascending: Positions) -> dict[int, Positions]:
        """Positions within files, by the number of the file."""
        self._entries  # noqa: B018 - which makes `_starts`
        bounds = np.searchsorted(ascending, self._starts)
        return {
            int(number): ascending[bounds[number] : bounds[number + 1]] - self._starts[number]
            for number in np.flatnonzero(np.diff(bounds))
        }

    # Versions -----------------------------------------------------------------------------------

    def versions(self) -> list[VersionInfo]:
        """Versions still readable, oldest first."""
        names: dict[int, list[str]] = {}
        for tag, version in sorted(self._tags().items()):
            names.setdefault(version, []).append(tag)
        with translated(self._location, "Listing versions"):
            history = _log(self._location, None).history()
        cleaned = self._cleaned()
        return [
            _info(entry["version"], entry, tuple(names.get(entry["version"], ())))
            for entry in reversed(history)
            if cleaned.spares(entry["version"])
        ]

    def info(self) -> VersionInfo:
        """This version: read from the log's end as far as its entry."""
        self.require_readable(self._version)
        tags = tuple(sorted(name for name, v in self._tags().items() if v == self._version))
        with translated(self._location, "Reading the log"):
            # delta-rs lists the newest first, and of an older version other entries than its own.
            log = _log(self._location, None)
            entry = log.history(log.version() - self._version + 1)[-1]
        return _info(self._version, entry, tags)

    def require_readable(self, version: int) -> None:
        """Refuse a version that `cleanup` took.

        Raises:
            NotFoundError: it did.
        """
        if not self._cleaned().spares(version):
            raise NotFoundError(f"Version {version} was cleaned up", where=self.uri)

    def _latest_version(self) -> int:
        return int(_log(self._location, None).version())

    def _open(self, version: int) -> Table:
        return self if version == self._version else open_at(self._location, version)

    def _tags(self) -> dict[str, int]:
        filesystem = _filesystem(self._location)
        with translated(self._location, "Listing tags"):
            files = filesystem.get_file_info(
                pafs.FileSelector(_TAGS, allow_not_found=True, recursive=False)
            )
            tags = {}
            for info in files:
                if info.is_file and info.base_name.endswith(".json"):
                    # One that goes meanwhile is none any more.
                    with suppress(FileNotFoundError):
                        said = _read_json(filesystem, info.path)
                        tags[info.base_name.removesuffix(".json")] = said["version"]
            return tags

    def _set_tag(self, name: str, version: int | None) -> None:
        filesystem, path = _filesystem(self._location), f"{_TAGS}/{name}.json"
        with translated(self._location, "Setting a tag"):
            if version is None:
                filesystem.delete_file(path)
            else:
                self.require_readable(version)
                _write_json(filesystem, path, {"version": version})

    # Writing ------------------------------------------------------------------------------------

    def _stager(self, schema: pa.Schema) -> _DeltaStager:
        return _DeltaStager(self._location, schema)

    def _commit(
        self,
        log: Log,
        added: list[AddAction],
        removed: list[str],
        properties: dict[str, str],
        *,
        mode: str = "append",
        schema: pa.Schema | None = None,
        moves_rows_only: bool = False,
    ) -> Table:
        """Publish files on top of `log`, or raise ConflictError."""
        from deltalake._internal import RemoveAction

        lib = _library()
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [
            *added,
            *(RemoveAction(path, not moves_rows_only, now) for path in removed),
        ]
        physical = log.schema()
        if schema is not None:
            physical = lib.Schema.from_arrow(physical_schema(schema, self.uri))
        # Without retries the commit is this version or none.
        made = log.version() + 1
        ensure_safe_commits(self._location)
        with translated(self._location, "Committing"):
            log.create_write_transaction(
                actions,
                mode,
                physical,
                commit_properties=_commit_properties(properties),
                post_commithook_properties=_hooks(),
            )
        return DeltaTable(self._location, made, schema or self._schema)

    def _append(
        self, pieces: Sequence[Piece], properties: dict[str, str], *, strictly: bool
    ) -> Table:
        if strictly:
            log = _log(self._location, self._version)
            return self._commit(log, _added(pieces, _after(log)), [], properties)
        for _ in range(_APPEND_TRIES):
            log = _log(self._location, None)
            if declared_schema(_arrow_schema(log)) != self._schema:
                break
            try:
                return self._commit(log, _added(pieces, _after(log)), [], properties)
            except ConflictError:
                continue
        raise self._conflict(self._version)

    def _overwrite(
        self, pieces: Sequence[Piece], properties: dict[str, str], schema: pa.Schema
    ) -> Table:
        log = _log(self._location, self._version)
        added = _added(pieces, _after(log))
        return self._commit(log, added, [], properties, mode="overwrite", schema=schema)

    def _replace(
        self, removed: Positions, pieces: Sequence[Piece], properties: dict[str, str]
    ) -> Table:
        log = _log(self._location, self._version)
        entries = self._entries
        bounds = np.searchsorted(removed, self._starts)
        rewritten, gone = [], []
        for number in np.flatnonzero(np.diff(bounds)):
            entry = entries[number]
            local = removed[bounds[number] : bounds[number + 1]] - self._starts[number]
            gone.append(entry.file.path)
            if local.size < entry.file.num_rows:
                kept = _without(entry.file.batches(self._schema.names, None), local)
                rewritten.append(self._rewrite(entry, kept, self._physical))
        added = [*rewritten, *_added(pieces, _after(log))]
        return self._commit(log, added, gone, properties)

    def _rewrite(
        self, entry: _Entry, batches: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> AddAction:
        """Write rows that take the place of a file's."""
        with translated(self._location, "Rewriting rows"):
            file = write_file(
                _filesystem(self._location),
                rewritten_name(entry.file.path),
                row_groups(batches, schema),
                schema,
            )
        return _add(file.path, file.num_rows, file.num_bytes, entry.modified_ms)

    def _extend(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        log = _log(self._location, self._version)
        extended = pa.schema([*self._schema, *schema])
        physical = physical_schema(extended, self.uri)
        added = Splitter(batches)
        files = [
            self._rewrite(
                entry,
                _side_by_side(entry.file.batches(self._schema.names, None), added, physical),
                physical,
            )
            for entry in self._entries
        ]
        added.finish()
        return self._commit(log, files, [], properties, mode="overwrite", schema=extended)

    def _project(
        self, renames: dict[str, str], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        log = _log(self._location, self._version)
        physical = physical_schema(schema, self.uri)
        files = [
            self._rewrite(
                entry,
                (
                    pa.RecordBatch.from_arrays(batch.columns, list(renames.values()))
                    for batch in entry.file.batches(list(renames), None)
                ),
                physical,
            )
            for entry in self._entries
        ]
        return self._commit(log, files, [], properties, mode="overwrite", schema=schema)

    def _restore(self, properties: dict[str, str]) -> Table:
        self.require_readable(self._version)
        log = _log(self._location, None)
        if log.version() == self._version:
            # delta-rs restores older versions only.
            return self._append([], properties, strictly=True)
        # Without retries the commit is this version or none.
        made = log.version() + 1
        ensure_safe_commits(self._location)
        with translated(self._location, "Restoring"):
            log.restore(
                self._version,
                commit_properties=_commit_properties(properties),
                post_commithook_properties=_hooks(),
            )
        return DeltaTable(self._location, made, self._schema)

    # Care ---------------------------------------------------------------------------------------

    def _compact(self, properties: dict[str, str]) -> Table:
        log = _log(self._location, self._version)
        added, gone = [], []
        for group in _runs_of_small_files(self._entries):
            rows = chain.from_iterable(
                entry.file.batches(self._schema.names, None) for entry in group
            )
            added.append(self._rewrite(group[0], rows, self._physical))
            gone += [entry.file.path for entry in group]
        if not gone:
            return self
        return self._commit(log, added, gone, properties, moves_rows_only=True)

    def _cleaned(self) -> _Cleaned:
        filesystem = _filesystem(self._location)
        with translated(self._location, "Looking up what was cleaned"):
            if filesystem.get_file_info(_CLEANED).type == pafs.FileType.NotFound:
                return _Cleaned(0, frozenset())
            stored = _read_json(filesystem, _CLEANED)
        return _Cleaned(stored["before"], frozenset(stored["kept"]))

    def _cleanup(self, older_than: dt.timedelta, dry_run: bool) -> CleanupReport:
        known, horizon = self.versions(), dt.datetime.now(dt.UTC) - older_than
        kept = [info.version for info in known if info.tags or info.created_at > horizon]
        kept = sorted({*kept, known[-1].version})
        removed = [info.version for info in known if info.version not in kept]
        # What an earlier clean-up took stays taken.
        before = max([self._cleaned().before, *(version + 1 for version in removed)])
        filesystem = _filesystem(self._location)
        with translated(self._location, "Cleaning up"):
            log = _log(self._location, None)
            live, dead = self._paths(log, kept), self._paths(log, removed)
            files = filesystem.get_file_info(pafs.FileSelector("", recursive=False))
            garbage = [
                info
                for info in files
                if info.is_file
                and info.base_name.endswith(".parquet")
                and info.base_name not in live
                # A file that no version ever had may be of a writer that is still at work.
                and (info.base_name in dead or info.mtime <= horizon)
            ]
            if not dry_run:
                # First the promise not to read, then the files.
                spared = [version for version in kept if version < before]
                _write_json(filesystem, _CLEANED, {"before": before, "kept": spared})
                for info in garbage:
                    filesystem.delete_file(info.path)
        return CleanupReport(len(removed), sum(info.size for info in garbage), dry_run)

    def _paths(self, log: Log, versions: list[int]) -> set[str]:
        paths: set[str] = set()
        for version in versions:
            log.load_as_version(version)
            paths.update(pa.table(log.get_add_actions(flatten=True))["path"].to_pylist())
        return paths


@dataclass(frozen=True)
class _Cleaned:
    """What clean-ups took: versions before `before`, but for those in `kept`."""

    before: int
    kept: frozenset[int]

    def spares(self, version: int) -> bool:
        return version >= self.before or version in self.kept


def _info(version: int, entry: dict[str, Any], tags: tuple[str, ...]) -> VersionInfo:
    """What the log says of a version."""
    return VersionInfo(
        version,
        dt.datetime.fromtimestamp(entry["timestamp"] / 1000, dt.UTC),
        {key: str(value) for key, value in entry.get(_PROPERTIES, {}).items()},
        tags,
    )


def _read_json(filesystem: pafs.FileSystem, path: str) -> Any:
    with filesystem.open_input_stream(path) as stream:
        return json.loads(stream.read())


def _write_json(filesystem: pafs.FileSystem, path: str, value: object) -> None:
    folder, _, name = path.rpartition("/")
    filesystem.create_dir(folder, recursive=True)
    # Whole or not at all: an object store puts it so, and on a disk a rename does.
    is_local = isinstance(filesystem, pafs.SubTreeFileSystem)
    written = f"{folder}/.{name}.{uuid.uuid4().hex}" if is_local else path
    # Buffered, as delta-rs's streams take bytes and an unbuffered one would hand them a view.
    with filesystem.open_output_stream(written, buffer_size=1 << 16) as stream:
        stream.write(json.dumps(value).encode())
    if is_local:
        filesystem.move(written, path)


def _add(path: str, num_rows: int, num_bytes: int, modified_ms: int) -> AddAction:
    from deltalake.transaction import AddAction

    stats = json.dumps({"numRecords": num_rows})
    return AddAction(path, num_bytes, {}, modified_ms, data_change=True, stats=stats)


def _added(pieces: Sequence[Piece], first_ms: int) -> list[AddAction]:
    return [
        _add(json.loads(piece.payload)["path"], piece.num_rows, piece.num_bytes, first_ms + place)
        for place, piece in enumerate(pieces)
    ]


def _after(log: Log) -> int:
    """A time after that of each file, so that what is added comes last."""
    times = pa.table(log.get_add_actions(flatten=True))["modification_time"].to_pylist()
    return max(time.time_ns() // 1_000_000, max(times, default=0) + 1)


def _without(batches: Iterator[pa.RecordBatch], removed: Positions) -> Iterator[pa.RecordBatch]:
    """The batches without the rows at these sorted positions."""
    start = 0
    for batch in batches:
        low, high = np.searchsorted(removed, [start, start + batch.num_rows])
        keep = np.ones(batch.num_rows, bool)
        keep[removed[low:high] - start] = False
        start += batch.num_rows
        if keep.any():
            yield batch.filter(pa.array(keep))


def _side_by_side(
    left: Iterator[pa.RecordBatch], right: Splitter, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The columns of both; `right` is cut to the batches of `left`."""
    for batch in left:
        parts = list(right.next_rows(batch.num_rows))
        start = 0
        for part in parts:
            here = batch.slice(start, part.num_rows)
            start += part.num_rows
            yield pa.RecordBatch.from_arrays(
                [*here.columns, *part.columns], [field.name for field in schema]
            )


def _runs_of_small_files(entries: list[_Entry]) -> Iterator[list[_Entry]]:
    """Neighbours that fit into one file together, two or more at a time."""
    run: list[_Entry] = []
    for entry in entries:
        if run and sum(other.file.num_bytes for other in [*run, entry]) > _FILE_BYTES:
            if len(run) > 1:
                yield run
            run = []
        run.append(entry)
    if len(run) > 1:
        yield run
