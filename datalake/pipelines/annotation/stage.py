"""What a worker does with a range of rows: read the columns, annotate, keep what came out.

Memory: one batch of what is read (8 MiB, and one row where rows are larger), what the annotator
makes of it, and what was made of the range so far (16 MiB and a batch), whatever the table's size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.errors import LakeError
from datalake.pipelines.annotation.annotator import Annotate
from datalake.pipelines.annotation.settings import Asked
from datalake.pipelines.annotation.units import AnnotatedUnit, Failure, Folder, Range
from datalake.schema import MEDIA_KEY
from datalake.tables import Table
from datalake.tables.predicate_arrow import to_arrow

__all__ = ["AnnotationJob", "forget_opened", "reason_of"]

_BATCH_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 4096
_EXAMPLES: Final = 5

_DURATION: Final = "duration_s"

_opened: dict[str, Annotate] = {}
"""The annotator that this process has loaded, by the annotation's digest: one at a time."""


@dataclass(frozen=True)
class AnnotationJob:
    """What all ranges of an annotation share. Picklable and small."""

    table: Table
    asked: Asked
    folder: Folder
    ranges: tuple[Range, ...]
    digest: str

    @property
    def num_gpus(self) -> float:
        """The share of GPUs that the annotator asks for."""
        return float(getattr(self.asked.annotator, "num_gpus", 0))

    def stage(self, index: int) -> AnnotatedUnit:
        """Annotate a range and keep the outcome.

        Raises:
            LakeError: a model cannot be loaded, or the annotator broke down.
            StoreError: the store refused to give or to take.
        """
        rows = self.ranges[index]
        unit = AnnotatedUnit(index, num_rows=rows.stop - rows.start)
        chosen = self._chosen(rows)
        unit.num_left = unit.num_rows - len(chosen)
        parts = [self.asked.schema.empty_table()]
        for indices, batch in self._batches(chosen):
            unit.num_bytes += batch.nbytes
            parts.append(self._annotated(indices, batch, unit))
        made = pa.concat_tables(parts)
        if unit.num_left:
            made = self._spread(rows, chosen, made)
        self.folder.write(rows, made, unit)
        return unit

    def _chosen(self, rows: Range) -> npt.NDArray[np.int64]:
        """The rows of a range for which `where` holds."""
        node = self.asked.predicate(self.table)
        everything = np.arange(rows.start, rows.stop)
        if node is None:
            return everything
        part = self.table.read(rows.start, rows.stop, self.asked.columns_of_where(self.table))
        numbered = part.append_column("", pa.array(everything))
        found: npt.NDArray[np.int64] = numbered.filter(to_arrow(node))[""].to_numpy()
        return found

    def _batches(
        self, chosen: npt.NDArray[np.int64]
    ) -> Iterator[tuple[npt.NDArray[np.int64], pa.Table]]:
        """The rows chosen, some at a time: as many as the last ones let expect to fit."""
        columns = list(self.asked.annotator.reads)
        if self._reads_audio and _DURATION not in columns:
            columns.append(_DURATION)
        start, size = 0, 1
        while start < len(chosen):
            indices = chosen[start : start + size]
            first, last = int(indices[0]), int(indices[-1])
            if last - first + 1 == len(indices):
                batch = self.table.read(first, last + 1, columns)
            else:
                batch = self.table.take(indices, columns)
            yield indices, batch
            start += len(indices)
            fitting = _BATCH_BYTES * len(indices) // max(1, batch.nbytes)
            # Rows differ in size: no more than twice as many as were seen to fit.
            size = max(1, min(fitting, 2 * len(indices), _BATCH_ROWS))

    @property
    def _reads_audio(self) -> bool:
        """Whether hours of audio are counted: an episode has a duration too."""
        schema = self.table.schema
        return _DURATION in schema.names and any(
            (schema.field(name).metadata or {}).get(MEDIA_KEY) == b"audio"
            for name in self.asked.annotator.reads
        )

    def _annotated(
        self, indices: npt.NDArray[np.int64], batch: pa.Table, unit: AnnotatedUnit
    ) -> pa.Table:
        where = f"{self.table.uri}, rows {indices[0]} to {indices[-1]}"
        annotate = self._open()
        try:
            made = annotate(batch.select(list(self.asked.annotator.reads)))
        except LakeError:
            raise
        except Exception as error:
            # A stranger's code: anything may come out of it.
            raise LakeError(
                "The annotator failed", where=where, found=f"{type(error).__name__}: {error}"
            ) from error
        columns, errors = self.asked.checked(made, batch.num_rows, where)
        failed = 0
        if errors is not None:
            for place in np.flatnonzero(errors.is_valid().to_numpy(zero_copy_only=False)).tolist():
                text = str(errors[place].as_py())
                failed += 1
                unit.failed[reason_of(text)] = unit.failed.get(reason_of(text), 0) + 1
                if len(unit.failures) < _EXAMPLES:
                    unit.failures.append(Failure(int(indices[place]), text))
        unit.num_annotated += batch.num_rows - failed
        if self._reads_audio:
            unit.audio_s += float(pc.sum(batch[_DURATION]).as_py() or 0)
        return columns

    def _open(self) -> Annotate:
        if self.digest not in _opened:
            _opened.clear()
            _opened[self.digest] = self.asked.annotator.open()
        return _opened[self.digest]

    def _spread(self, rows: Range, chosen: npt.NDArray[np.int64], made: pa.Table) -> pa.Table:
        """The rows made in their places; in the others what was there before, or null."""
        num_rows = rows.stop - rows.start
        place = np.full(num_rows, -1, np.int64)
        place[chosen - rows.start] = np.arange(len(chosen))
        indices = pa.array(place, mask=place < 0)
        kept = self.asked.kept(self.table)
        before: Mapping[str, Any] = {}
        if kept:
            old = self.table.read(rows.start, rows.stop, kept)
            # Taken from old and new laid end to end: no other kernel chooses between lists.
            both = pa.array(np.where(place < 0, len(chosen) + np.arange(num_rows), place))
            before = {
                name: pa.chunked_array(
                    [*made[name].chunks, *old[name].chunks], made[name].type
                ).combine_chunks().take(both)
                for name in kept
            }  # fmt: skip
        columns = [
            before[name] if name in before else made[name].combine_chunks().take(indices)
            for name in made.column_names
        ]
        return pa.Table.from_arrays(columns, schema=self.asked.schema)


def forget_opened() -> None:
    """Let go of the annotator that this process holds."""
    _opened.clear()


def reason_of(error: str) -> str:
    """What errors are counted by: the text before the first colon."""
    return error.partition(":")[0].strip()
