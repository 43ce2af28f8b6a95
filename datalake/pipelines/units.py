"""The file of units: what each task of an ingest has to do, readable by every worker.

A unit is a run of items of one part, small enough for one task. The file is in Arrow's IPC format,
one record batch a unit, so a worker reads its own batch and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["ACTIONS", "UnitWriter", "read_unit"]

ACTIONS: Final = ("refuse", "add", "check", "replace")
"""What a unit says of an item: it is refused already; it is new; it replaces the row that the table
holds if its bytes differ; it replaces that row."""

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class UnitWriter:
    """Writes items, sorted by their unit, as one record batch a unit. A context manager."""

    def __init__(self, location: Location, schema: pa.Schema) -> None:
        self.buckets: list[int] = []
        """The bucket of each unit written so far."""
        self._location = location
        self._schema = schema
        self._stack = ExitStack()
        self._pending: list[pa.RecordBatch] = []
        self._pending_key: tuple[int, ...] | None = None

    def __enter__(self) -> Self:
        filesystem, path = self._location.filesystem()
        sink = self._stack.enter_context(filesystem.open(path, "wb"))
        self._writer = self._stack.enter_context(
            pa.ipc.new_file(sink, self._schema, options=_OPTIONS)
        )
        return self

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self._flush()
        self._stack.close()

    def write(self, keys: npt.NDArray[np.int64], items: pa.RecordBatch) -> None:
        """Add items; those of a unit follow each other, also from one call to the next.

        Args:
            keys: (num_rows, num_keys), what tells units apart, the bucket first.
            items: (num_rows) rows of the schema.
        """
        starts = np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1
        for start, stop in zip([0, *starts], [*starts, len(keys)], strict=True):
            key = tuple(int(value) for value in keys[start])
            if key != self._pending_key:
                self._flush()
                self._pending_key = key
            self._pending.append(items.slice(start, stop - start))

    def _flush(self) -> None:
        if self._pending_key is not None:
            self._writer.write_batch(pa.concat_batches(self._pending))
            self.buckets.append(self._pending_key[0])
            self._pending = []


def read_unit(location: Location, index: int) -> pa.RecordBatch:
    """The items of unit `index` of the file at `location`.

    Raises:
        StoreError: the file cannot be read.
    """
    with (
        translated(location, "Reading the plan"),
        _opened(location) as source,
        pa.ipc.open_file(source) as reader,
    ):
        return reader.get_batch(index)


@contextmanager
def _opened(location: Location) -> Iterator[pa.NativeFile]:
    if location.is_local:
        with pa.memory_map(location.uri) as source:
            yield source
        return
    filesystem, path = location.filesystem()
    with filesystem.open(path, "rb") as source:
        yield source
