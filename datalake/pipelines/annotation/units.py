"""Ranges of rows: what is done at one go, and where what was done is kept.

A range is one Arrow file in a folder of the lake. The file appears whole or not at all, so a range
is done when its file is there, whichever run wrote it; counts travel in the file's metadata.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from datalake.lake import Lake, storage
from datalake.tables import Table
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["AnnotatedUnit", "Failure", "Folder", "Range", "row_bytes", "unit_rows"]

_FOLDER: Final = "annotations"
_COUNTS: Final = b"datalake.counts"
_ABANDONED_AFTER: Final = dt.timedelta(days=14)

_UNIT_BYTES: Final = 16 << 20
_UNIT_ROWS: Final = 1 << 16
_MOST_UNITS: Final = 20_000
_SAMPLED_ROWS: Final = 16
_SAMPLES: Final = 4
_SAMPLE_BYTES: Final = 64 << 20


class Range(NamedTuple):
    """Rows `start` to `stop - 1`."""

    start: int
    stop: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.start:012d}-{self.stop:012d}.arrow"


class Failure(NamedTuple):
    """A row that could not be annotated."""

    row: int
    """Its index in the version annotated."""
    error: str


@dataclass
class AnnotatedUnit:
    """What became of a range. Picklable and small: values travel by way of the store."""

    index: int
    num_rows: int = 0
    num_annotated: int = 0
    """Rows that have values."""
    num_left: int = 0
    """Rows for which `where` does not hold."""
    failed: dict[str, int] = field(default_factory=dict)
    """How many rows failed, by reason."""
    failures: list[Failure] = field(default_factory=list)
    """The first of them."""
    audio_s: float = 0.0
    num_bytes: int = 0
    """Bytes of the columns that were read, in memory."""


def row_bytes(table: Table, columns: Sequence[str]) -> int:
    """About how many bytes a row of these columns has in memory; looks at a few rows.

    The same for every caller of one version.
    """
    num_rows = table.count_rows()
    largest, seen = 0, 0
    for sample in range(_SAMPLES):
        start = max(0, num_rows - _SAMPLED_ROWS) * sample // (_SAMPLES - 1)
        for row in range(start, min(start + _SAMPLED_ROWS, num_rows), 4):
            part = table.read(row, min(row + 4, num_rows), columns)
            largest = max(largest, int(part.nbytes) // max(1, int(part.num_rows)))
            seen += int(part.nbytes)
            if seen > _SAMPLE_BYTES:
                return largest
    return largest


def unit_rows(num_rows: int, bytes_read: int, bytes_made: int) -> int:
    """How many rows a range has; ranges grow with tables so that there are never too many.

    Args:
        num_rows: of the table.
        bytes_read: of a row, about.
        bytes_made: of a row, about; what is made of a range is held in memory.
    """
    fitting = _UNIT_BYTES // max(1, bytes_read)
    growing = -(-num_rows // _MOST_UNITS)
    return max(1, min(max(fitting, growing), _UNIT_ROWS, _UNIT_BYTES // max(1, bytes_made)))


class Folder:
    """Where ranges of one annotation are kept until it is published. Picklable."""

    def __init__(self, lake: Lake, digest: str) -> None:
        # A folder of the lake is a thing of this lake alone, and of the run's settings.
        self._parent = lake.location.join(_FOLDER)
        self.location = self._parent.join(digest)

    def make(self) -> None:
        """Make it, if it is not there.

        Raises:
            StoreError: the store refused.
        """
        filesystem, path = self.location.filesystem()
        with translated(self.location, "Making the folder of the annotation"):
            filesystem.makedirs(path, exist_ok=True)

    def done(self) -> set[str]:
        """The names of ranges that are there."""
        return {name for name in storage.children(self.location) if name.endswith(".arrow")}

    def write(self, rows: Range, data: pa.Table, unit: AnnotatedUnit) -> None:
        """Keep what was made of a range.

        Raises:
            StoreError: the store refused.
        """
        sink = pa.BufferOutputStream()
        metadata = {_COUNTS: json.dumps(asdict(unit)).encode()}
        schema = data.schema.with_metadata({**(data.schema.metadata or {}), **metadata})
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_table(data.replace_schema_metadata(schema.metadata))
        content = sink.getvalue()
        target = self.location.join(rows.name)
        with translated(target, "Keeping annotated rows"):
            if target.is_local:
                # Under a name of its own first: two workers may be at one range.
                making = f"{target.uri}.{os.getpid()}.{os.urandom(4).hex()}"
                with open(making, "wb") as file:
                    file.write(content)
                os.replace(making, target.uri)
            else:
                filesystem, path = target.filesystem()
                filesystem.pipe_file(path, content.to_pybytes())

    def counts(self, index: int, rows: Range) -> AnnotatedUnit:
        """What became of a range that is there."""
        with _opened(self.location.join(rows.name)) as source, pa.ipc.open_file(source) as reader:
            facts: dict[str, Any] = json.loads(reader.schema.metadata[_COUNTS])
        facts |= {
            "index": index,
            "failures": [Failure(*each) for each in facts["failures"]],
        }
        return AnnotatedUnit(**facts)

    def batches(self, ranges: Sequence[Range], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of all ranges, in order, one range in memory at a time."""
        for rows in ranges:
            with (
                _opened(self.location.join(rows.name)) as source,
                pa.ipc.open_file(source) as reader,
            ):
                for number in range(reader.num_record_batches):
                    yield pa.RecordBatch.from_arrays(
                        reader.get_batch(number).columns, schema=schema
                    )

    def remove(self) -> None:
        """Remove it, and those that nobody came back to for two weeks."""
        # What cannot be removed now goes with the abandoned ones later.
        with suppress(OSError):
            filesystem, path = self.location.filesystem()
            filesystem.rm(path, recursive=True)
            for name in storage.children(self._parent):
                _remove_abandoned(self._parent.join(name))


def _remove_abandoned(folder: Location) -> None:
    filesystem, path = folder.filesystem()
    files = storage.children(folder)
    written = [filesystem.modified(f"{path}/{name}") for name in files]
    if written and dt.datetime.now(dt.UTC) - max(written) > _ABANDONED_AFTER:
        filesystem.rm(path, recursive=True)


def _opened(location: Location) -> pa.NativeFile:
    with translated(location, "Reading annotated rows"):
        if location.is_local:
            return pa.memory_map(location.uri)
        filesystem, path = location.filesystem()
        return pa.BufferReader(filesystem.cat_file(path))
