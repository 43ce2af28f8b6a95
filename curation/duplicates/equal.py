"""Rows that have the same value: in a column, or in what is computed of each row."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from curation.duplicates.drops import Duplicates, outcome
from curation.duplicates.measured import measured
from curation.duplicates.sample_digest import SAMPLES
from curation.duplicates.visits import Visits, require_columns, visits_of
from curation.engine import spilling_engine
from datalake.pipelines.annotation.stage import reason_of
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.run import ProgressSink
from datalake.tables import Table

__all__ = ["equal_rows", "equal_samples"]


def equal_rows(
    table: Table,
    column: str = "sha256",
    *,
    best_by: str | None = None,
    seed: int = 0,
    where: str | None = None,
) -> Duplicates:
    """The rows to drop so that each value stands once: `sha256` finds files of the same bytes.

    Of equal rows that one is kept which is visited first: of the largest value of `best_by`, else
    by the hash of seed and id, the order of selections. Rows without a value are kept, and counted.
    Memory: some 100 bytes a row, and 2 GB beyond which the engine spills to disk.

    Returns:
        Drops with similarity 1 and the reason `equal_<column>`.

    Raises:
        SchemaError: the table lacks a column.
        PredicateError: `where` cannot be evaluated.
    """
    require_columns(table, [column])
    left_out: Counter[str] = Counter()

    def values() -> Iterator[pa.RecordBatch]:
        for batch in table.scan([column], where=where, with_row_index=True):
            if nulls := batch[column].null_count:
                left_out["null"] += nulls
            yield pa.record_batch([batch["row_index"], batch[column]], names=["row_index", "same"])

    visits = visits_of(table, seed=seed, best_by=best_by, where=where)
    kind = table.schema.field(column).type
    found = _first_of_equal(visits, values(), kind)
    facts = {"by": column, "best_by": best_by, "seed": seed, "where": where}
    return outcome(
        table, *found,
        reason=f"equal_{column}", parameters=facts, where=where, left_out=left_out,
    )  # fmt: skip


def equal_samples(
    table: Table,
    *,
    audio: str = "audio",
    best_by: str | None = None,
    seed: int = 0,
    where: str | None = None,
    executor: Executor | None = None,
    scratch: Path | None = None,
    progress: ProgressSink | None = None,
) -> Duplicates:
    """As `equal_rows`, of files that decode to the same samples, rate and channels.

    So a FLAC and the WAV that it was made of are equal, whatever their headers say. A column
    `samples_sha256` (`curate measure --with samples`) is taken if the table has it; else each file
    is decoded once. Files that cannot be decoded are kept, and counted by reason.

    Args:
        table: the version to search.
        audio: the column of encoded audio.
        best_by: as of `equal_rows`.
        seed: as of `equal_rows`.
        where: as of `equal_rows`.
        executor: where files are decoded; None: this process.
        scratch: a folder for files, which go when it is done; all workers must reach it.
        progress: is told how far it is.

    Raises:
        SchemaError: the table has no such audio.
        PredicateError: `where` cannot be evaluated.
    """
    digest = SAMPLES.adds.names[0]
    if digest in table.schema.names:
        return equal_rows(table, digest, best_by=best_by, seed=seed, where=where)
    require_columns(table, [audio])
    visits = visits_of(table, seed=seed, best_by=best_by, where=where)
    left_out: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="curate-samples-", dir=scratch) as folder,
        executor or LocalExecutor() as running,
    ):
        made = measured(
            table, type(SAMPLES)(audio), np.sort(visits.row_index), Path(folder), running,
            progress=progress,
        )  # fmt: skip

        def values() -> Iterator[pa.RecordBatch]:
            for part in made:
                left_out.update(map(reason_of, part["error"].drop_null().to_pylist()))
                renamed = part.select(["row_index", digest]).rename_columns(["row_index", "same"])
                yield from renamed.to_batches()

        found = _first_of_equal(visits, values(), pa.string())
    facts = {"by": "samples", "best_by": best_by, "seed": seed, "where": where}
    return outcome(
        table, *found,
        reason="equal_samples", parameters=facts, where=where, left_out=left_out,
    )  # fmt: skip


def _first_of_equal(
    visits: Visits, values: Iterable[pa.RecordBatch], kind: pa.DataType
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that have an equal one visited before them, that one, and a similarity of 1 each."""
    schema = pa.schema([pa.field("row_index", pa.int64()), pa.field("same", kind)])
    reader = pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in values))
    ranks = pa.table({"row_index": visits.row_index, "visit": visits.ranks})
    with spilling_engine() as engine:
        engine.register("read", reader)
        # Stored first: the engine takes a stream for one row and builds its join on it.
        engine.execute("CREATE TEMP TABLE given AS SELECT * FROM read WHERE same IS NOT NULL")
        engine.register("ranks", ranks)
        found = engine.execute(
            """SELECT row_index, kept_by FROM (
                   SELECT row_index, first(row_index) OVER same AS kept_by
                   FROM given JOIN ranks USING (row_index)
                   WINDOW same AS (PARTITION BY same ORDER BY visit))
               WHERE row_index != kept_by"""
        ).fetchnumpy()
    rows = np.asarray(found["row_index"], np.int64)
    return rows, np.asarray(found["kept_by"], np.int64), np.ones(len(rows))
