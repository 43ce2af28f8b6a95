"""One run of the ingest, from the plan to the report."""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import ExitStack, closing
from typing import Final, Protocol

from datalake.connector import Corpus
from datalake.errors import ExistsError, InputError, StoppedError
from datalake.lake import Lake, Lineage
from datalake.pipelines.choice import ITEM_BYTES, Undecided, decided
from datalake.pipelines.columns import Columns, widen
from datalake.pipelines.executors import Executor
from datalake.pipelines.ledger import Ledger
from datalake.pipelines.patience import is_hopeless
from datalake.pipelines.plan import Plan, Planner
from datalake.pipelines.publish import OvertakenError, Publisher
from datalake.pipelines.refusals import Quarantine
from datalake.pipelines.refused import Refused
from datalake.pipelines.report import RunReport
from datalake.pipelines.settings import Settings
from datalake.pipelines.stage import StageJob
from datalake.pipelines.stopwatch import timed
from datalake.pipelines.workspace import local_folder, shared_folder
from datalake.quarantine import QUARANTINE_SUFFIX
from datalake.tables import Table
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["ProgressSink", "Run"]

_MAX_PLANS: Final = 5


class ProgressSink(Protocol):
    """What is told how far a run is."""

    def update(
        self, done: int, *, total: int | None = None, note: str = "", unit: str = ""
    ) -> None:
        """`done` of `total` are dealt with: rows, or what `unit` says."""
        ...


class Run:
    """Brings one table up to date with one corpus. `run` may be called once."""

    def __init__(
        self,
        lake: Lake,
        table_name: str,
        corpus: Corpus,
        *,
        connector: str,
        format: str | None,  # noqa: A002 - the word everybody uses
        settings: Settings,
        lineage: Lineage,
        executor: Executor | Undecided,
        progress: ProgressSink | None,
        dry_run: bool,
    ) -> None:
        self._lake = lake
        self._table_name = table_name
        self._corpus = corpus
        self._columns = Columns.of(corpus.extra)
        self._format = format
        self._settings = settings
        self._lineage = lineage
        self._executor = executor
        self._progress = progress
        self._ledger = Ledger(lake, table_name, corpus.source)
        self._report = RunReport(
            run_id=lineage.run_id,
            table=table_name,
            corpus=corpus.source,
            connector=connector,
            root=str(corpus.root),
            dry_run=dry_run,
            on_error=settings.on_error,
        )

    def run(self) -> RunReport:
        """Plan, stage and publish; anew if another writer wrote rows of this corpus meanwhile.

        Raises:
            LakeError: see `ingest`.
        """
        for attempt in range(1, _MAX_PLANS + 1):
            try:
                self._attempt()
                break
            except OvertakenError:
                if attempt == _MAX_PLANS:
                    raise
        return self._report

    def _attempt(self) -> None:
        report = self._report
        table = self._find_table()
        if table is not None:
            report.version_after = table.version
            if report.version_before is None:
                report.version_before = table.version
        with (
            local_folder() as folder,
            Planner(self._corpus, self._columns, self._settings, folder) as planner,
        ):
            with timed(self._report, "plan_s"), translated(Location(str(folder)), "Planning"):
                planner.read_corpus(table)
                plan = planner.compare(self._ledger.read(), table)
            report.begin(plan)
            self._judge(plan, planner)
            if not report.dry_run and plan.parts:
                self._work(planner, plan, table)
        report.num_in_quarantine = self._quarantine().num_rows()

    def _find_table(self) -> Table | None:
        """The table as it is now, if it is there.

        Raises:
            InputError: it is there in another format than the one asked for, or no table may have
                its name.
            ExistsError: a selection has its name.
            SchemaError: it cannot hold this corpus.
        """
        if self._table_name.endswith(QUARANTINE_SUFFIX):
            raise InputError(
                "The name is kept for refused rows",
                found=self._table_name,
                fix="Choose another table name",
            )
        if self._table_name not in self._lake:
            self._lake.check_free(self._table_name)
            return None
        table = self._lake[self._table_name]
        if table.format not in (self._format or table.format, "memory"):
            raise InputError(
                f"The table {self._table_name} has another format",
                where=table.uri,
                expected=str(self._format),
                found=table.format,
                fix="Leave --format out, or choose another table name",
            )
        self._report.added_columns = tuple(self._columns.missing_from(table.schema).names)
        known = self._columns.schema.names
        self._report.unfilled_columns = tuple(
            name for name in table.schema.names if name not in known
        )
        return table

    def _judge(self, plan: Plan, planner: Planner) -> None:
        """Stop before anything is written if what is known already is too bad.

        Raises:
            InputError: there is a bad item and bad items shall raise.
            StoppedError: there are too many bad items.
        """
        if not plan.known_refusals:
            return
        if self._settings.on_error == "raise":
            raise _bad_item(planner.first_refusals(1)[0], self._corpus)
        num_bad = sum(plan.known_refusals.values())
        if is_hopeless(num_bad, 0, plan.num_to_do, self._settings.max_bad_fraction):
            counted = Counter(plan.known_refusals).most_common()
            reasons = ", ".join(f"{num:,} {reason}" for reason, num in counted)
            examples = ", ".join(
                f"{refused.path} ({refused.detail})" for refused in planner.first_refusals(3)
            )
            raise self._stopped(
                num_bad,
                plan.num_to_do,
                f" before any file was read ({reasons}), such as {examples}; nothing was written",
            )

    def _prepare(self, table: Table | None) -> Table:
        """The table, made or widened so that it can hold this corpus."""
        if table is None:
            try:
                return self._lake.create(
                    self._table_name,
                    self._columns.schema,
                    format=self._format or "lance",
                    lineage=self._lineage,
                )
            except ExistsError as error:
                raise OvertakenError("Another writer made the table", where=error.where) from error
        missing = self._columns.missing_from(table.schema)
        return widen(table, missing, self._lineage.properties())

    def _work(self, planner: Planner, plan: Plan, found: Table | None) -> None:
        executor = decided(self._executor, plan.num_bytes + plan.num_pending * ITEM_BYTES)
        with shared_folder(self._lake, self._lineage.run_id) as workspace, ExitStack() as stack:
            units = workspace.join("units.arrow")
            buckets: list[int] = []
            if plan.num_pending:
                with timed(self._report, "startup_s"):
                    stack.enter_context(executor)
                with timed(self._report, "plan_s"), translated(workspace, "Writing the plan"):
                    buckets = planner.write_units(units, executor.num_workers)
            planner.close()
            # Only now: where Ray cannot be started, no empty table is left behind.
            table = self._prepare(found)
            publisher = Publisher(
                table,
                plan,
                units=units,
                buckets=buckets,
                ledger=self._ledger,
                quarantine=self._quarantine() if self._settings.on_error == "quarantine" else None,
                commit_every_s=self._settings.commit_every_s,
                lineage=self._lineage,
                report=self._report,
            )
            job = StageJob(
                root=self._corpus.root,
                units=units,
                workspace=workspace,
                stager=table.stager(),
                schema=table.schema,
                settings=self._settings,
            )
            with timed(self._report, "work_s"):
                self._stage(executor, job, plan, len(buckets), publisher)
                publisher.publish()

    def _stage(
        self,
        executor: Executor,
        job: StageJob,
        plan: Plan,
        num_units: int,
        publisher: Publisher,
    ) -> None:
        if num_units == 0:
            return
        num_seen = num_bad = 0
        started = time.monotonic()
        with closing(executor.run(job, num_units)) as units:
            for unit in units:
                publisher.add(unit)
                num_seen += unit.num_items
                num_bad += len(unit.refused)
                if self._progress is not None:
                    left_s = (plan.num_pending / num_seen - 1) * (time.monotonic() - started)
                    note = f"{num_bad:,} refused, {left_s:,.0f} s left"
                    self._progress.update(num_seen, total=plan.num_pending, note=note)
                if unit.refused and self._settings.on_error == "raise":
                    publisher.publish()
                    raise _bad_item(unit.refused[0], self._corpus)
                limit = self._settings.max_bad_fraction
                if is_hopeless(num_bad, num_seen, plan.num_to_do, limit):
                    publisher.publish()
                    raise self._stopped(
                        num_bad, num_seen, "; what was committed stays", see=self._see_why()
                    )

    def _quarantine(self) -> Quarantine:
        return Quarantine(
            self._lake,
            self._table_name,
            self._corpus.source,
            format=self._format or "lance",
            lineage=self._lineage,
        )

    def _see_why(self) -> str:
        if self._settings.on_error != "quarantine":
            return ""
        return f"See why with: datalake quarantine {self._table_name}. "

    def _stopped(self, num_bad: int, num_rows: int, kept: str, see: str = "") -> StoppedError:
        # Rounded up, so that going on with the fraction that is named does go on.
        fraction = math.ceil(1000 * num_bad / num_rows) / 1000
        return StoppedError(
            "The ingest stopped, as too many rows are bad",
            where=str(self._corpus.root),
            expected=f"at most a fraction of {self._settings.max_bad_fraction:g}",
            found=f"{num_bad:,} of {num_rows:,} rows{kept}",
            fix=f"{see}Mend the files and run the same command again, which goes on where it"
            f" stopped; or go on as it is with --max-bad-fraction {fraction:g}"
            + (" or more" if fraction < 1 else ""),
        )


def _bad_item(refused: Refused, corpus: Corpus) -> InputError:
    return InputError(
        f"A row cannot be ingested [{refused.reason}]",
        where=f"{corpus.root}: {refused.path}",
        found=refused.detail,
        fix="Mend it and run the same command again, or use --on-error quarantine",
    )
