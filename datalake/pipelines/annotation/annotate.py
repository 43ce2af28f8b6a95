"""Annotation: a table gets columns that are computed from its rows, in one commit.

    cut       ranges of consecutive rows of one version            units.py
    stage     workers annotate ranges, and keep them in the lake   stage.py
    publish   one commit adds the columns                          publish.py

A run that is killed has published nothing, and what it kept is taken up by the next run of the same
annotator, with the same settings, on the same version. A version with other rows shares nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace as with_changes
from typing import Final

from datalake.episodes import set_of
from datalake.errors import ConflictError, InputError
from datalake.lake import Lake, Lineage
from datalake.pipelines.annotation.annotator import Annotator
from datalake.pipelines.annotation.publish import goes_on, publish, without_unfinished
from datalake.pipelines.annotation.report import AnnotationReport, FailedRow
from datalake.pipelines.annotation.settings import Asked
from datalake.pipelines.annotation.stage import AnnotationJob, forget_opened
from datalake.pipelines.annotation.units import Folder, Range, row_bytes, unit_rows
from datalake.pipelines.choice import ITEM_BYTES, Undecided, chosen_executor, decided
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.run import ProgressSink
from datalake.pipelines.settings import ExecutorName
from datalake.pipelines.stopwatch import timed
from datalake.tables import Table

__all__ = ["annotate"]

_MAX_FOLLOWED: Final = 5
_IDS: Final = ("utt_id", "episode_id", "video_id", "id")


def annotate(
    lake: Lake,
    table_name: str,
    annotator: Annotator,
    *,
    columns: Mapping[str, str] | None = None,
    where: str | None = None,
    replace: bool = False,
    executor: Executor | Undecided | ExecutorName = "auto",
    num_workers: int | None = None,
    progress: ProgressSink | None = None,
    rows_per_unit: int | None = None,
) -> AnnotationReport:
    """Add an annotator's columns to the latest version of a table.

    Rows that cannot be annotated have nulls; how many, and why, is in the report. Lance adds the
    columns beside what is there and leaves all other files alone; Delta rewrites the table.

    Where others appended rows meanwhile, these are annotated too. Where they changed rows that the
    annotation hangs on, nothing is published.

    Args:
        lake: where the table is.
        table_name: its name; for an episode set `<set>.episodes`.
        annotator: what computes the columns.
        columns: new names for its columns, by its own.
        where: annotate only rows for which this holds. The others have nulls, or keep what they
            have where columns are replaced.
        replace: put the columns in the place of those that have their names.
        executor: `auto` (this process for little, Ray for much), `ray`, `local` (this process),
            or one that is set up.
        num_workers: how many tasks Ray runs at once; None for one a core.
        progress: is told how far the run is.
        rows_per_unit: how many rows are done at one go; None for what suits their size.

    Raises:
        NotFoundError: there is no such table.
        ExistsError: a column is there already and `replace` is false.
        InputError: an option does not fit, or the table is frames or videos of an episode set.
        SchemaError: a column that is read is not there.
        PredicateError: `where` does not parse.
        ConflictError: another writer changed rows or the columns; nothing is published.
        StoreError: the store refused or did not answer; what was done is kept for the next run.
        LakeError: the annotator failed; what was done is kept for the next run.
    """
    if set_of(lake, table_name) is not None and not table_name.endswith(".episodes"):
        raise InputError(
            f"{table_name} is a part of an episode set, and the set names its versions",
            fix=f"Annotate the episodes: {set_of(lake, table_name)}.episodes",
        )
    if rows_per_unit is not None and rows_per_unit < 1:
        raise InputError(
            "The option rows_per_unit is out of range", expected="1 or more",
            found=str(rows_per_unit),
        )  # fmt: skip
    workers = chosen_executor(executor, num_workers, lake)
    table = lake[table_name]
    asked = Asked.of(table, annotator, columns=columns, where=where, replace=replace)
    lineage = Lineage("annotate", asked.config(), {table_name: table.version})
    if replace:
        table = without_unfinished(table, asked, lineage)
    lineage = with_changes(lineage, inputs={table_name: table.version})
    report = AnnotationReport(table_name, lineage.run_id, asked.config(), asked.names)
    report.version_before = table.version
    run = _Run(lake, table, asked, lineage, report, progress, rows_per_unit)
    try:
        run.work(workers)
    finally:
        forget_opened()
    return report


class _Run:
    def __init__(
        self,
        lake: Lake,
        table: Table,
        asked: Asked,
        lineage: Lineage,
        report: AnnotationReport,
        progress: ProgressSink | None,
        rows_per_unit: int | None,
    ) -> None:
        self._lake = lake
        self._table = table
        self._asked = asked
        self._lineage = lineage
        self._report = report
        self._progress = progress
        self._row_bytes = row_bytes(table, asked.annotator.reads)
        made_bytes = sum(_width(field.type) for field in asked.schema)
        self._unit_rows = rows_per_unit or unit_rows(
            table.count_rows(), self._row_bytes, made_bytes
        )
        self._digest = asked.digest(table, self._unit_rows)
        self._folder = Folder(lake, self._digest)

    def work(self, choice: Executor | Undecided) -> None:
        """Annotate all rows and publish; rows that follow meanwhile too.

        Raises:
            LakeError: see `annotate`.
        """
        table = self._table
        if self._lake.location.scheme == "memory":
            from datalake.pipelines.workspace import shared_folder

            with shared_folder(self._lake, self._lineage.run_id) as here:
                self._folder.location = here
                self._until_published(table, LocalExecutor())
            return
        size = table.count_rows() * (self._row_bytes + ITEM_BYTES)
        self._folder.make()
        self._until_published(table, decided(choice, size))
        self._folder.remove()

    def _until_published(self, table: Table, executor: Executor) -> None:
        ranges: list[Range] = []
        for followed in range(_MAX_FOLLOWED + 1):
            num_before = ranges[-1].stop if ranges else 0
            more = list(_cut(num_before, table.count_rows(), self._unit_rows))
            if followed:
                self._report.num_followed += table.count_rows() - num_before
            # Only the first version is in the digest: what others appended to it is not.
            self._stage(executor, table, more, resume=not followed)
            ranges += more
            self._name_examples(table)
            try:
                with timed(self._report, "commit_s"):
                    made = publish(table, self._asked, self._folder, ranges, self._lineage)
            except ConflictError:
                latest = table.at()
                if followed == _MAX_FOLLOWED or not self._follows(table, latest):
                    raise
                table = latest
            else:
                self._report.version = made.version
                return

    def _follows(self, table: Table, latest: Table) -> bool:
        if latest.version == table.version:
            return False
        if goes_on(table, latest, self._asked):
            return True
        raise ConflictError(
            "Rows were changed or removed while they were annotated; nothing was published",
            where=table.uri,
            expected=f"the rows of version {table.version} at the head of the table",
            found=f"others in version {latest.version}",
            fix="Run it again, on the table as it is now",
        )

    def _stage(
        self, executor: Executor, table: Table, ranges: Sequence[Range], *, resume: bool
    ) -> None:
        report = self._report
        total = table.count_rows()
        done = self._folder.done() if resume else set()
        pending = []
        for index, rows in enumerate(ranges):
            if rows.name in done:
                report.count(self._folder.counts(index, rows), resumed=True)
            else:
                pending.append(rows)
        self._tell(total)
        if not pending:
            return
        job = AnnotationJob(table, self._asked, self._folder, tuple(pending), self._digest)
        with timed(report, "startup_s"):
            executor.__enter__()
        try:
            with timed(report, "work_s"), closing(executor.run(job, len(pending))) as units:
                for unit in units:
                    report.count(unit)
                    self._tell(total)
        finally:
            executor.__exit__(None, None, None)

    def _tell(self, total: int) -> None:
        if self._progress is not None:
            note = f"{self._report.num_failed:,} failed" if self._report.num_failed else ""
            self._progress.update(self._report.num_rows, total=total, note=note)

    def _name_examples(self, table: Table) -> None:
        """Give the examples of failures the ids of their rows."""
        failures = self._report.failures
        named = next((name for name in _IDS if name in table.schema.names), None)
        ids: list[str | None] = [None] * len(failures)
        if named and failures:
            rows = table.take([failure.row for failure in failures], [named])
            ids = rows[named].to_pylist()
        self._report.examples = [
            FailedRow(failure.row, row_id, failure.error)
            for failure, row_id in zip(failures, ids, strict=True)
        ]


def _cut(start: int, stop: int, size: int) -> Iterator[Range]:
    for begin in range(start, stop, size):
        yield Range(begin, min(begin + size, stop))


def _width(data_type: object) -> int:
    """About how many bytes a value takes; 64 where its type does not say."""
    import pyarrow as pa

    if isinstance(data_type, pa.FixedSizeListType):
        return int(data_type.list_size) * _width(data_type.value_type)
    try:
        return int(data_type.bit_width) // 8 or 1  # type: ignore[attr-defined]
    except ValueError:
        return 64
