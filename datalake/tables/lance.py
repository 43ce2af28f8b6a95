"""Tables in the Lance format: the default.

File version 2.2; media columns are stored uncompressed, so that taking a row reads its bytes alone.
A commit that must not land on a version it has not seen goes through Lance's `Merge` or `Overwrite`
operation without retries: a plain `Append` without retries is accepted on top of other commits.

Lance runs threads of its own, which a forked process does not have: start workers by spawning.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake import forks
from datalake.errors import (
    ConflictError,
    ExistsError,
    MissingPackageError,
    NotFoundError,
    SchemaError,
    StoreError,
)
from datalake.schema import is_media
from datalake.tables.batches import Source, Splitter, as_reader, conform, described
from datalake.tables.failures import translated, translated_stream
from datalake.tables.handle import ROW_INDEX, Positions, TableHandle
from datalake.tables.lance_fragments import live_offsets
from datalake.tables.lance_mapped import map_column
from datalake.tables.lance_ranged import LanceRanged
from datalake.tables.mapped import Mapped
from datalake.tables.predicate import Node
from datalake.tables.predicate_sql import LANCE, to_sql
from datalake.tables.protocol import Batches, Capabilities, CleanupReport, Piece, Table, VersionInfo
from datalake.tables.ranged import Ranged
from datalake.tables.stores import ensure_safe_commits, lance_options
from datalake.uri import Location

if TYPE_CHECKING:
    import lance
    from lance import FragmentMetadata, LanceOperation
    from lance.schema import LanceSchema

    BaseOperation = LanceOperation.BaseOperation

__all__ = ["LanceTable", "create", "drop", "exists", "open_at"]

_FILE_VERSION: Final = "2.2"
_COMPRESSION: Final = b"lance-encoding:compression"
_BATCH_BYTES: Final = 16 << 20
_FRAGMENT_BYTES: Final = 1 << 30
_FRAGMENT_ROWS: Final = 1 << 20
# How often an append that may land anywhere is tried on top of commits that overtook it.
_APPEND_TRIES: Final = 50


def create(location: Location, schema: pa.Schema, properties: dict[str, str]) -> Table:
    """Make an empty table.

    Raises:
        ExistsError: there is one.
        SchemaError: Lance cannot hold a column.
    """
    import lance

    for name in schema.names:
        if "." in name or "`" in name:
            raise SchemaError(
                "Lance takes neither a dot nor a backtick in a column's name",
                where=location.uri,
                found=name,
            )
    ensure_safe_commits(location)
    if exists(location):
        raise ExistsError("There is a table already", where=location.uri)
    try:
        with translated(location, "Creating the table"):
            dataset = lance.write_dataset(
                _stored(schema).empty_table(),
                location.uri,
                mode="create",
                storage_options=lance_options(location),
                data_storage_version=_FILE_VERSION,
                transaction_properties=properties,
            )
    except StoreError as error:
        if exists(location):  # Another writer was faster.
            raise ExistsError("There is a table already", where=location.uri) from error
        raise
    return LanceTable(location, dataset.version, schema, dataset)


def exists(location: Location) -> bool:
    """Whether a Lance table is there."""
    try:
        _dataset(location, None)
    except NotFoundError:
        return False
    return True


def open_at(location: Location, version: int | None) -> Table:
    """Open a version, or the latest.

    Raises:
        NotFoundError: there is no such table or version.
    """
    try:
        dataset = _dataset(location, version)
    except NotFoundError as error:
        if version is None:
            raise
        known = [info.version for info in open_at(location, None).versions()]
        raise NotFoundError(
            f"There is no version {version}",
            where=location.uri,
            found=f"versions {known[0]} to {known[-1]}",
        ) from error
    return LanceTable(location, dataset.version, _declared(dataset.schema), dataset)


def drop(location: Location) -> None:
    """Remove a table and its files.

    Raises:
        NotFoundError: there is none.
    """
    import lance

    dataset = _dataset(location, None)
    with translated(location, "Removing the table"):
        lance.LanceDataset.drop(dataset.uri, storage_options=lance_options(location))


def _dataset(location: Location, version: int | None) -> lance.LanceDataset:
    import lance

    with translated(location, "Opening the table"):
        return lance.dataset(location.uri, version=version, storage_options=lance_options(location))


def _stored(schema: pa.Schema) -> pa.Schema:
    """The schema as Lance stores it: media columns are told not to be compressed."""
    return pa.schema(
        [
            field.with_metadata({**field.metadata, _COMPRESSION: b"none"})
            if is_media(field)
            else field
            for field in schema
        ],
        metadata=schema.metadata,
    )


def _declared(schema: pa.Schema) -> pa.Schema:
    """The schema as it was given to `_stored`."""
    fields = []
    for field in schema:
        metadata = {k: v for k, v in (field.metadata or {}).items() if k != _COMPRESSION}
        fields.append(field.with_metadata(metadata or None))
    return pa.schema(fields, metadata=schema.metadata)


@dataclass
class _LanceStager:
    """Writes fragments. Holds the opened dataset, which does not travel."""

    location: Location
    version: int
    schema: pa.Schema
    replaces_schema: bool

    def __post_init__(self) -> None:
        self._opened: lance.LanceDataset | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_opened": None}

    def write(self, data: Batches) -> list[Piece]:
        from lance.fragment import write_fragments

        reader = as_reader(data, self.schema)
        batches = Source(conform(reader, self.schema, where=self.location.uri))
        first = next(batches, None)
        if first is None:
            return []

        stored = _stored(self.schema)
        if self._opened is None:
            self._opened = _dataset(self.location, self.version)
        with batches.unmasked(), translated(self.location, "Writing rows"):
            rows = (_under(batch, stored) for batch in chain([first], batches))
            fragments = write_fragments(
                pa.RecordBatchReader.from_batches(stored, rows),
                self._opened,
                schema=stored,
                # New field ids for a new schema; the ids of the table's fields otherwise.
                mode="overwrite" if self.replaces_schema else "append",
                max_rows_per_file=_FRAGMENT_ROWS,
                data_storage_version=_FILE_VERSION,
                storage_options=lance_options(self.location),
            )
        return [
            Piece(
                LanceTable.format,
                json.dumps(fragment.to_json()),
                fragment.physical_rows,
                sum(file.file_size_bytes or 0 for file in fragment.files),
                self.location.uri,
                described(self.schema),
            )
            for fragment in fragments
        ]


def _under(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


class LanceTable(TableHandle):
    """A Lance table at one version."""

    format: ClassVar[str] = "lance"
    capabilities: ClassVar[Capabilities] = Capabilities(
        # After a fork Lance's threads are gone: one take in some tens hangs or ends in a crash.
        adds_columns_in_place=True,
        survives_process=True,
        survives_fork=False,
    )

    def __init__(
        self,
        location: Location,
        version: int,
        schema: pa.Schema,
        dataset: lance.LanceDataset | None = None,
    ) -> None:
        super().__init__(location, version, schema)
        self._opened = dataset
        self._rows_known: int | None = None
        self._lock = threading.Lock()
        forks.register(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        del state["_lock"]
        return {**state, "_opened": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())
        forks.register(self)

    @property
    def _dataset(self) -> lance.LanceDataset:
        # Opened once a handle: opening costs milliseconds here and round trips to a store.
        with self._lock:
            if self._opened is None:
                self._opened = _dataset(self._location, self._version)
            return self._opened

    @property
    def location(self) -> Location:
        """Where it is, and how that is reached, for the modules of this format."""
        return self._location

    @property
    def dataset(self) -> lance.LanceDataset:
        """Lance's own handle on this version, for the modules of this format."""
        return self._dataset

    # Reading ------------------------------------------------------------------------------------

    def _num_rows(self) -> int:
        if self._rows_known is None:
            with translated(self._location, "Counting rows"):
                self._rows_known = self._dataset.count_rows()
        return self._rows_known

    def _count(self, predicate: Node) -> int:
        with translated(self._location, "Counting rows"):
            return int(self._dataset.count_rows(to_sql(predicate, LANCE)))

    def num_bytes(self) -> int:
        """Bytes of the data files of this version."""
        with translated(self._location, "Reading the manifest"):
            return int(self._dataset.get_version()["metadata"]["total_files_size"])

    def fingerprint(self) -> str:
        """When the version was committed, to the microsecond: in the manifest, read at opening."""
        with translated(self._location, "Reading the manifest"):
            return _in_utc(self._dataset.get_version()["timestamp"]).isoformat()

    def _read(
        self,
        columns: list[str],
        predicate: Node | None,
        limit: int | None,
        batch_size: int | None,
        with_row_index: bool,
    ) -> Iterator[pa.RecordBatch]:
        with translated(self._location, "Reading rows"):
            batches = self._dataset.scanner(
                columns=columns,
                filter=None if predicate is None else to_sql(predicate, LANCE),
                limit=limit,
                batch_size=batch_size,
                batch_size_bytes=_BATCH_BYTES if batch_size is None else None,
                scan_in_order=True,
                with_row_address=with_row_index,
            ).to_batches()
        stream = translated_stream(self._location, "Reading rows", iter(batches))
        if not with_row_index:
            return stream
        index = _RowIndex(self._dataset)
        return (index.of(batch, columns) for batch in stream)

    def _slice(self, start: int, stop: int, columns: list[str]) -> pa.Table:
        # A quarter of the cost of a take of narrow columns, and the same requests.
        with translated(self._location, "Reading rows"):
            rows = self._dataset.scanner(
                columns=columns, offset=start, limit=stop - start, scan_in_order=True
            ).to_table()
        return pa.Table.from_arrays(rows.columns, schema=self._selected(columns))

    def _gather(self, positions: Positions, columns: list[str]) -> pa.Table:
        # As thin as it can be: 64 small rows take two milliseconds in all.
        schema = self._selected(columns)
        if not positions.size:
            return schema.empty_table()
        with translated(self._location, "Taking rows"):
            rows = self._dataset.take(positions.tolist(), columns=columns)
        return pa.Table.from_arrays(rows.columns, schema=schema)

    def _mapped(self, column: str) -> Mapped | None:
        return map_column(self, column) if self._location.is_local else None

    def _ranged(self, column: str) -> Ranged | None:
        if self._location.is_local:
            return None
        try:
            self._location.filesystem()
        except MissingPackageError:
            return None  # Lance itself needs no driver of ours.
        return LanceRanged(self, column)

    # Versions -----------------------------------------------------------------------------------

    def versions(self) -> list[VersionInfo]:
        """Versions still readable, oldest first."""
        names: dict[int, list[str]] = {}
        for tag, version in sorted(self._tags().items()):
            names.setdefault(version, []).append(tag)
        latest = _dataset(self._location, None)
        infos = []
        with translated(self._location, "Listing versions"):
            for entry in latest.versions():
                number = entry["version"]
                transaction = latest.read_transaction(number)
                properties = transaction.transaction_properties if transaction else None
                infos.append(
                    VersionInfo(
                        number,
                        _in_utc(entry["timestamp"]),
                        dict(properties or {}),
                        tuple(names.get(number, ())),
                    )
                )
        return infos

    def info(self) -> VersionInfo:
        """This version: read from its own manifest and transaction."""
        tags = tuple(sorted(name for name, v in self._tags().items() if v == self._version))
        with self._readable(), translated(self._location, "Reading the manifest"):
            # A dataset of its own: Lance lends it to this one call alone, and a `take` in another
            # thread would find it taken.
            alone = _dataset(self._location, self._version)
            entry, transaction = alone.get_version(), alone.read_transaction(self._version)
        properties = transaction.transaction_properties if transaction else None
        return VersionInfo(self._version, _in_utc(entry["timestamp"]), dict(properties or {}), tags)

    def _latest_version(self) -> int:
        with translated(self._location, "Looking up the latest version"):
            return int(self._dataset.latest_version)

    def _open(self, version: int) -> Table:
        if version == self._version:
            return self
        return open_at(self._location, version)

    def _tags(self) -> dict[str, int]:
        with translated(self._location, "Listing tags"):
            return {name: tag["version"] for name, tag in self._dataset.tags.list().items()}

    def _set_tag(self, name: str, version: int | None) -> None:
        tags = self._dataset.tags
        with translated(self._location, "Setting a tag"):
            if version is None:
                tags.delete(name)
            elif name in tags.list():
                tags.update(name, version)
            else:
                tags.create(name, version)

    # Writing ------------------------------------------------------------------------------------

    def _stager(self, schema: pa.Schema) -> _LanceStager:
        return _LanceStager(
            self._location, self._version, schema, replaces_schema=schema is not self._schema
        )

    def _commit(
        self, dataset: lance.LanceDataset, operation: BaseOperation, properties: dict[str, str]
    ) -> Table:
        """Publish an operation on top of `dataset`, or raise ConflictError."""
        from lance import LanceDataset
        from lance.dataset import Transaction

        ensure_safe_commits(self._location)
        with translated(self._location, "Committing"):
            made = LanceDataset.commit(
                dataset,
                Transaction(dataset.version, operation, transaction_properties=properties),
                max_retries=0,
            )
        return LanceTable(self._location, made.version, _declared(made.schema), made)

    def _append(
        self, pieces: Sequence[Piece], properties: dict[str, str], *, strictly: bool
    ) -> Table:
        from lance import LanceOperation

        if strictly:
            return self._append_strictly(pieces, properties)
        for tried in range(_APPEND_TRIES):
            fresh = self._latest_version() == self._version
            latest = self._dataset if fresh else _dataset(self._location, None)
            if _declared(latest.schema) != self._schema:
                break
            if tried and _files(_fragments(pieces)) & _files(_metadata(latest)):
                # The store took the last try and its answer was lost: a second one doubles rows.
                return LanceTable(self._location, latest.version, self._schema, latest)
            try:
                return self._commit(latest, LanceOperation.Append(_fragments(pieces)), properties)
            except ConflictError:
                continue
        raise self._conflict(self._version)

    def _append_strictly(self, pieces: Sequence[Piece], properties: dict[str, str]) -> Table:
        from lance import LanceOperation

        fragments = _metadata(self._dataset)
        following = max((fragment.id for fragment in fragments), default=-1) + 1
        added = _fragments(pieces)
        for offset, fragment in enumerate(added):
            fragment.id = following + offset
        operation = LanceOperation.Merge([*fragments, *added], self._dataset.lance_schema)
        return self._commit(self._dataset, operation, properties)

    def _overwrite(
        self, pieces: Sequence[Piece], properties: dict[str, str], schema: pa.Schema
    ) -> Table:
        from lance import LanceOperation

        same = schema is self._schema
        stored = self._dataset.lance_schema if same else _stored(schema)
        operation = LanceOperation.Overwrite(stored, _fragments(pieces))
        return self._commit(self._dataset, operation, properties)

    def _replace(
        self, removed: Positions, pieces: Sequence[Piece], properties: dict[str, str]
    ) -> Table:
        from lance import LanceOperation

        index = _RowIndex(self._dataset)
        updated, untouched, emptied = [], [], []
        with translated(self._location, "Removing rows"):
            for fragment, offsets in index.by_fragment(removed):
                if not offsets.size:
                    untouched.append(fragment.metadata)
                elif (remaining := fragment.delete_rows(offsets.tolist())) is not None:
                    updated.append(remaining)
                else:
                    emptied.append(fragment.fragment_id)
        # Lance lets changes of different fragments pass each other, and two upserts of one new key
        # would both stay; each one names all fragments, so that one of them is refused. An append
        # that lands between the check of the version and this commit stays, as if it came after.
        operation = LanceOperation.Update(
            removed_fragment_ids=emptied,
            updated_fragments=[*updated, *untouched],
            new_fragments=_fragments(pieces),
        )
        return self._commit(self._dataset, operation, properties)

    def _extend(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        from lance import LanceOperation
        from lance.schema import LanceSchema

        stored = _stored(schema)
        source = Source(batches)
        rows = Splitter(source)
        fragments, merged = [], None
        with source.unmasked(), translated(self._location, "Adding columns"):
            for fragment in self._dataset.get_fragments():
                reader = pa.RecordBatchReader.from_batches(
                    stored, (_under(b, stored) for b in rows.next_rows(fragment.count_rows()))
                )
                metadata, merged = fragment.merge_columns(reader)
                fragments.append(metadata)
        rows.finish()
        if merged is None:
            merged = LanceSchema.from_pyarrow(pa.schema([*self._dataset.schema, *stored]))
        return self._commit(self._dataset, LanceOperation.Merge(fragments, merged), properties)

    def _project(
        self, renames: dict[str, str], schema: pa.Schema, properties: dict[str, str]
    ) -> Table:
        from lance import LanceOperation

        called = _renamed(self._dataset.lance_schema, renames)
        if _declared(called.to_pyarrow()) != schema:
            raise StoreError(
                "Lance's schema could not be changed",
                where=self.uri,
                expected=described(schema),
                found=described(called.to_pyarrow()),
            )
        return self._commit(
            self._dataset, LanceOperation.Project(called, preserves_nullability=True), properties
        )

    # Care ---------------------------------------------------------------------------------------

    def _restore(self, properties: dict[str, str]) -> Table:
        from lance import LanceOperation

        latest = _dataset(self._location, None)
        with self._readable():
            return self._commit(latest, LanceOperation.Restore(self._version), properties)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Say what it means that this version's manifest is not there."""
        try:
            yield
        except NotFoundError as error:
            raise NotFoundError(
                f"Version {self._version} was cleaned up", where=self.uri
            ) from error

    def _compact(self, properties: dict[str, str]) -> Table:
        from lance import LanceOperation
        from lance.optimize import Compaction

        bytes_per_row = max(1, self.num_bytes() // max(1, self._num_rows()))
        rows = min(_FRAGMENT_ROWS, max(1024, _FRAGMENT_BYTES // bytes_per_row))
        rewritten: dict[int, list[FragmentMetadata]] = {}
        with translated(self._location, "Compacting"):
            plan = Compaction.plan(
                self._dataset,
                {"target_rows_per_fragment": rows, "materialize_deletions_threshold": 0.0},
            )
            for task in plan.tasks:
                first, *others = (fragment.id for fragment in task.fragments)
                rewritten |= {first: task.execute(self._dataset).new_fragments}
                rewritten |= {other: [] for other in others}
        if not rewritten:
            return self
        # Lance's own `Rewrite` puts new fragments last, and rows would change their places.
        in_order = chain.from_iterable(
            rewritten.get(fragment.id, [fragment]) for fragment in _metadata(self._dataset)
        )
        operation = LanceOperation.Overwrite(self._dataset.lance_schema, list(in_order))
        return self._commit(self._dataset, operation, properties)

    def _cleanup(self, older_than: dt.timedelta, dry_run: bool) -> CleanupReport:
        latest = _dataset(self._location, None)
        # Lance reads zero as "not given".
        age = max(older_than, dt.timedelta(microseconds=1))
        with translated(self._location, "Cleaning up"):
            # Lance keeps unpublished files for seven days unless it is told that nobody writes.
            removed = (
                latest.explain_cleanup_old_versions(
                    age, delete_unverified=not older_than, error_if_tagged_old_versions=False
                ).stats
                if dry_run
                else latest.cleanup_old_versions(
                    age, delete_unverified=not older_than, error_if_tagged_old_versions=False
                )
            )
        return CleanupReport(removed.old_versions, removed.bytes_removed, dry_run)


def _in_utc(timestamp: Any) -> dt.datetime:
    """Lance's time of a version, which is local and without a zone."""
    return cast("dt.datetime", timestamp).astimezone(dt.UTC)


def _fragments(pieces: Sequence[Piece]) -> list[FragmentMetadata]:
    from lance import FragmentMetadata

    return [FragmentMetadata.from_json(piece.payload) for piece in pieces]


def _metadata(dataset: lance.LanceDataset) -> list[FragmentMetadata]:
    return [fragment.metadata for fragment in dataset.get_fragments()]


def _files(fragments: list[FragmentMetadata]) -> set[str]:
    return {file.path for fragment in fragments for file in fragment.files}


def _renamed(schema: LanceSchema, renames: dict[str, str]) -> LanceSchema:
    """The fields of these columns, under their new names and with the ids they have.

    Lance finds a column's data by its field's id. pylance makes schemas of Arrow schemas only, and
    numbers them anew; the one other way in is its own pickled form: metadata, then each field as
    a protobuf message, the columns' children after them. There field 2 is the name, and only
    field 1, of one byte, may stand before it.
    """
    rebuild, (metadata, *messages) = cast("tuple[Any, tuple[Any, ...]]", schema.__reduce__())
    kept: list[bytes] = []
    following = iter(messages)
    for column in schema.fields():
        own = [next(following) for _ in range(_num_fields(column))]
        if column.name() in renames:
            before, after = (_named(name) for name in (column.name(), renames[column.name()]))
            kept += [own[0].replace(before, after, 1), *own[1:]]
    return cast("LanceSchema", rebuild(metadata, *kept))


def _num_fields(field: Any) -> int:
    return 1 + sum(map(_num_fields, field.children()))


def _named(name: str) -> bytes:
    """Field 2 of a protobuf message, a text: its key, its length as a varint, and itself."""
    text = name.encode()
    length, rest = bytearray(), len(text)
    while rest > 0x7F:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    return b"\x12" + bytes([*length, rest]) + text


class _RowIndex:
    """Row indices of a version, from and to row addresses (fragment, offset in its file)."""

    def __init__(self, dataset: lance.LanceDataset) -> None:
        self._fragments = dataset.get_fragments()
        counts = [fragment.count_rows() for fragment in self._fragments]
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        self._order = {f.fragment_id: order for order, f in enumerate(self._fragments)}
        self._live: dict[int, npt.NDArray[np.int64]] = {}

    def of(self, batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
        """The batch with its row addresses turned into row indices."""
        addresses = batch.column("_rowaddr").to_numpy()
        ids, offsets = addresses >> np.uint64(32), addresses & np.uint64(0xFFFFFFFF)
        indices = np.empty(len(addresses), np.uint64)
        for fragment_id in np.unique(ids):
            mine = ids == fragment_id
            order = self._order[int(fragment_id)]
            live = self._live_offsets(order)
            local = offsets[mine] if live is None else np.searchsorted(live, offsets[mine])
            indices[mine] = local + np.uint64(self._starts[order])
        return pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in columns), pa.array(indices)], [*columns, ROW_INDEX]
        )

    def by_fragment(
        self, positions: Positions
    ) -> Iterator[tuple[lance.LanceFragment, npt.NDArray[np.int64]]]:
        """Sorted row indices as offsets within the files of their fragments."""
        bounds = np.searchsorted(positions, self._starts)
        for order, fragment in enumerate(self._fragments):
            local = positions[bounds[order] : bounds[order + 1]] - self._starts[order]
            live = self._live_offsets(order) if local.size else None
            yield fragment, local if live is None else live[local]

    def _live_offsets(self, order: int) -> npt.NDArray[np.int64] | None:
        """The offsets of rows that are not deleted; None if all are there."""
        fragment = self._fragments[order]
        if not fragment.num_deletions:
            return None
        if order not in self._live:
            self._live[order] = live_offsets(fragment)
        return self._live[order]
