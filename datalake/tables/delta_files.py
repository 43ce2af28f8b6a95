"""The Parquet files of a Delta table: written whole, read by row groups.

Media are cut into pages of one value or 16 kB, which an index in the file lists, so that
`datalake.tables.delta_pages` can read rows on their own.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from datalake.errors import SchemaError
from datalake.schema import is_media

__all__ = ["DataFile", "WrittenFile", "name_part", "rewritten_name", "row_groups", "write_file"]

# A row group is what a random take reads for one row.
_GROUP_BYTES: Final = 8 << 20
_GROUP_ROWS: Final = 1 << 17
_BATCH_BYTES: Final = 16 << 20
# A page of media holds one value, or as many as make this: what a random read takes of a file.
_PAGE_BYTES: Final = 16 << 10
_PAGE_ROWS: Final = 1 << 10
_POSITION: Final = "__position"


def name_part(stem: str, number: int) -> str:
    """The name of the file with this number in one write; names sort by number."""
    return f"{stem}-{number:05d}.parquet"


def rewritten_name(old: str) -> str:
    """A new name for a file's rows that sorts among others as the old one does."""
    return f"{old.split('.')[0]}.{uuid.uuid4().hex}.parquet"


@dataclass(frozen=True)
class WrittenFile:
    """A file that was closed."""

    path: str
    num_rows: int
    num_bytes: int


def write_file(
    filesystem: FileSystem,
    path: str,
    groups: Iterator[pa.Table],
    schema: pa.Schema,
    *,
    stop_bytes: int | None = None,
) -> WrittenFile:
    """Write row groups into one file. A file that cannot be finished is removed.

    Args:
        filesystem: rooted at the table.
        path: relative to the table.
        groups: what `row_groups` made; consumed as far as it is written.
        schema: the physical schema.
        stop_bytes: stop after the group with which the file grows past this; None for no end.
    """
    leaves = _leaf_paths(schema)
    media = {field.name for field in schema if is_media(field)}
    # Media are compressed already, and statistics of them would be copies of whole values.
    plain = [leaf for leaf in leaves if leaf not in media]
    num_rows = 0
    first = next(groups, None)
    with _removed_on_failure(filesystem, path), filesystem.open_output_stream(path) as sink:
        with pq.ParquetWriter(
            sink,
            schema,
            compression={leaf: "NONE" if leaf in media else "ZSTD" for leaf in leaves},
            use_dictionary=plain,
            write_statistics=plain,
            **({} if first is None else _pages(first, media)),
        ) as writer:
            for table in chain([] if first is None else [first], groups):
                writer.write_table(table, row_group_size=table.num_rows)
                num_rows += table.num_rows
                if stop_bytes is not None and sink.tell() >= stop_bytes:
                    break
        num_bytes = sink.tell()
    return WrittenFile(path, num_rows, num_bytes)


def _pages(first: pa.Table, media: Collection[str]) -> dict[str, Any]:
    """How a file with media is cut into pages, by its first rows, and that it says where they are.

    The writer looks at the size of a page after each of its batches, which are of 1,024 rows
    otherwise: a page would have hundreds of megabytes.
    """
    if not media:
        return {}
    row_bytes = max((first[name].nbytes for name in media), default=0) // max(first.num_rows, 1)
    return {
        "write_page_index": True,
        "data_page_size": _PAGE_BYTES,
        "write_batch_size": min(max(_PAGE_BYTES // max(row_bytes, 1), 1), _PAGE_ROWS),
    }


@contextmanager
def _removed_on_failure(filesystem: FileSystem, path: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # On a full disk it would take the room that the next try needs.
        with suppress(OSError):
            filesystem.delete_file(path)
        raise


def _leaf_paths(schema: pa.Schema) -> list[str]:
    """What Parquet calls the columns that hold values: one for each leaf of a nested column."""
    sink = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), sink)
    stored = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [stored.column(i).path for i in range(len(stored))]


def row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Rows of about `_GROUP_BYTES` at a time, cast to the physical `schema`.

    Raises:
        SchemaError: a value does not fit into the type that Delta has for it.
    """
    waiting: list[pa.RecordBatch] = []
    num_bytes = num_rows = 0
    for batch in batches:
        for part in _slices(_cast(batch, schema)):
            waiting.append(part)
            num_bytes += part.nbytes
            num_rows += part.num_rows
            if num_bytes >= _GROUP_BYTES or num_rows >= _GROUP_ROWS:
                yield pa.Table.from_batches(waiting)
                waiting, num_bytes, num_rows = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    pieces = max(1, batch.nbytes // _GROUP_BYTES)
    rows = max(1, min(-(-batch.num_rows // pieces), _GROUP_ROWS))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"Delta cannot hold a value of the column {field.name}",
                expected=f"values that fit into {field.type}",
                found=str(error),
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class DataFile:
    """One file of a version. Its footer is read once, at the first use that needs it.

    Args:
        filesystem: rooted at the table.
        path: relative to the table.
        num_rows: None where the log does not say.
        num_bytes: the file's size.
        schema: the table's physical schema; a column that the file lacks reads as null.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        path: str,
        num_rows: int | None,
        num_bytes: int,
        schema: pa.Schema,
    ) -> None:
        self.path = path
        self.num_bytes = num_bytes
        self._filesystem = filesystem
        self._num_rows = num_rows
        self._schema = schema

    @cached_property
    def _fragment(self) -> pds.ParquetFileFragment:
        fragment = pds.ParquetFileFormat().make_fragment(self.path, self._filesystem)
        fragment.ensure_complete_metadata()
        return fragment

    @cached_property
    def _group_starts(self) -> npt.NDArray[np.int64]:
        counts = [group.num_rows for group in self._fragment.row_groups]
        return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    @property
    def num_rows(self) -> int:
        """Rows in the file."""
        if self._num_rows is None:
            self._num_rows = int(self._group_starts[-1])
        return self._num_rows

    def batches(self, columns: Sequence[str], batch_size: int | None) -> Iterator[pa.RecordBatch]:
        """All rows, of these columns, which are at least one."""
        groups = range(len(self._group_starts) - 1)
        for group in groups:
            rows = self._read(group, columns)
            yield from rows.to_batches(max_chunksize=batch_size or _batch_rows(rows))

    def matches(
        self, predicate: pc.Expression, skipping: pc.Expression, columns: Sequence[str]
    ) -> npt.NDArray[np.int64]:
        """The positions within the file of the rows for which the predicate holds.

        Row groups whose statistics exclude `skipping`, which the predicate implies, are not read.
        """
        possible = self._fragment.subset(skipping, schema=self._schema).row_groups
        found = [np.empty(0, np.int64)]
        for group in possible:
            start = self._group_starts[group.id]
            positions = pa.array(np.arange(start, self._group_starts[group.id + 1]))
            rows = self._read(group.id, columns) if columns else None
            arrays = [] if rows is None else rows.columns
            table = pa.Table.from_arrays([*arrays, positions], [*columns, _POSITION])
            found.append(table.filter(predicate)[_POSITION].to_numpy())
        return np.concatenate(found)

    def take(self, positions: npt.NDArray[np.int64], columns: Sequence[str]) -> Iterator[pa.Table]:
        """Rows by sorted positions within the file, a row group at a time."""
        bounds = np.searchsorted(positions, self._group_starts)
        for group in np.flatnonzero(np.diff(bounds)):
            local = positions[bounds[group] : bounds[group + 1]] - self._group_starts[group]
            yield self._read(int(group), columns).take(pa.array(local))

    def slice(self, start: int, stop: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Rows `start` to `stop - 1` of the file, a row group at a time."""
        groups = np.searchsorted(self._group_starts, [start, stop - 1], "right") - 1
        for group in range(int(groups[0]), int(groups[1]) + 1):
            first, end = (int(bound) for bound in self._group_starts[group : group + 2])
            rows = self._read(group, columns)
            yield rows.slice(max(start - first, 0), min(stop, end) - max(start, first))

    def _read(self, group: int, columns: Sequence[str]) -> pa.Table:
        one = self._fragment.subset(row_group_ids=[group], schema=self._schema)
        return one.to_table(schema=self._schema, columns=list(columns))


def _batch_rows(rows: pa.Table) -> int:
    return max(1, int(rows.num_rows * _BATCH_BYTES / max(rows.nbytes, 1)))
