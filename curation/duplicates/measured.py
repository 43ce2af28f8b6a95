"""What an annotator gives for rows of a table, kept in a scratch folder and not in the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.pipelines.annotation.annotator import Annotator
from datalake.pipelines.annotation.units import row_bytes, unit_rows
from datalake.pipelines.executors import Executor
from datalake.pipelines.run import ProgressSink
from datalake.tables import Table

__all__ = ["measured"]

_AT_ONCE: Final = 64
_BYTES_MADE: Final = 512
_ERROR: Final = pa.field("error", pa.string())


def measured(
    table: Table,
    annotator: Annotator,
    rows: npt.NDArray[np.int64],
    folder: Path,
    executor: Executor,
    *,
    progress: ProgressSink | None = None,
) -> Iterator[pa.Table]:
    """The columns that the annotator adds, `row_index` and `error`; some rows at a time, in order.

    Args:
        table: the version to read.
        annotator: what is computed.
        rows: indices, ascending.
        folder: for files; all workers of the executor must reach it.
        executor: where units of rows are worked on; entered.
        progress: is told how far it is.

    Raises:
        MissingPackageError: the annotator needs a package that is not installed.
        SchemaError: the table lacks a column that it reads.
    """
    np.save(folder / "rows.npy", rows)
    size = unit_rows(len(rows), row_bytes(table, list(annotator.reads)), _BYTES_MADE)
    job = _Measure(table, annotator, folder, size)
    num_units = -(-len(rows) // size)
    for done, _ in enumerate(executor.run(job, num_units), start=1):
        if progress is not None:
            progress.update(min(done * size, len(rows)), total=len(rows), unit="rows")
    for index in range(num_units):
        with pa.OSFile(str(job.path(index))) as source, pa.ipc.open_file(source) as reader:
            yield reader.read_all()


@dataclass
class _Measured:
    index: int


@dataclass(frozen=True)
class _Measure:
    table: Table
    annotator: Annotator
    folder: Path
    unit_rows: int

    def path(self, index: int) -> Path:
        return self.folder / f"measured-{index}.arrow"

    def stage(self, index: int) -> _Measured:
        rows = np.load(self.folder / "rows.npy", mmap_mode="r")
        rows = np.asarray(rows[index * self.unit_rows : (index + 1) * self.unit_rows])
        annotate = self.annotator.open()
        schema = pa.schema([pa.field("row_index", pa.int64()), *self.annotator.adds, _ERROR])
        making = self.path(index).with_suffix(f".{np.random.default_rng().integers(1 << 60)}")
        with pa.OSFile(str(making), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for start in range(0, len(rows), _AT_ONCE):
                some = rows[start : start + _AT_ONCE]
                made = annotate(self.table.take(some, list(self.annotator.reads)))
                columns = [made[name] for name in self.annotator.adds.names]
                has_errors = _ERROR.name in made.column_names
                error = made[_ERROR.name] if has_errors else pa.nulls(len(some), pa.string())
                writer.write_table(
                    pa.Table.from_arrays([pa.array(some), *columns, error], schema=schema)
                )
        making.replace(self.path(index))
        return _Measured(index)
