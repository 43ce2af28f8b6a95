"""What a run of the ingest did, for people and for programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Literal

from datalake.pipelines.plan import Plan

__all__ = ["RunReport"]


@dataclass
class RunReport:
    """Counts of one run. Rows count once they are committed; a row is an item of the corpus.

    After a run, `num_items` is the sum of `num_finished`, `num_unchanged`, `num_added`,
    `num_replaced` and the refused. After a dry run, `num_to_read` and `refused` say what a run
    would begin with.
    """

    run_id: str
    table: str
    corpus: str
    connector: str
    root: str
    dry_run: bool = False
    on_error: Literal["quarantine", "skip", "raise"] = "quarantine"
    num_items: int = 0
    """Rows in: protocol rows, and files that no row claims."""
    num_finished: int = 0
    """Rows of parts that an earlier run finished and nothing has changed since."""
    num_unchanged: int = 0
    """Rows that were compared and are in the table as they are."""
    num_added: int = 0
    num_replaced: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Rows refused by this run, by reason."""
    num_in_quarantine: int = 0
    """Rows of this corpus that the quarantine table holds now, of earlier runs too."""
    num_vanished: int = 0
    """Rows in the table whose item the corpus no longer has; they are kept."""
    num_parts: int = 0
    num_parts_to_do: int = 0
    num_to_read: int = 0
    """Rows that the plan sends to the workers."""
    num_bytes: int = 0
    """Bytes of the files read."""
    startup_s: float = 0.0
    """Starting the executor."""
    plan_s: float = 0.0
    work_s: float = 0.0
    version_before: int | None = None
    """Of the table; null if it was not there."""
    version_after: int | None = None
    added_columns: tuple[str, ...] = ()
    """Columns the table got, null in its older rows."""
    unfilled_columns: tuple[str, ...] = ()
    """Columns of the table that this corpus does not have; null in its rows."""

    def begin(self, plan: Plan) -> None:
        """Take over what a plan says; a later plan of the same run corrects an earlier one.

        Rows that this run wrote under an earlier plan are kept or finished under a later one, and
        counted as written.
        """
        num_finished = plan.num_items - plan.num_to_do
        self.num_items = plan.num_items
        self.num_finished = max(0, num_finished - self.num_out)
        self.num_unchanged = plan.num_kept - max(0, self.num_out - num_finished)
        self.num_vanished = plan.num_vanished
        self.num_parts = plan.num_parts
        self.num_parts_to_do = len(plan.parts)
        self.num_to_read = plan.num_pending
        self.refused.clear()
        if self.dry_run:
            self.refused.update(plan.known_refusals)

    @property
    def num_refused(self) -> int:
        """Rows refused by this run."""
        return self.refused.total()

    @property
    def num_out(self) -> int:
        """Rows this run wrote."""
        return self.num_added + self.num_replaced

    @property
    def rows_per_s(self) -> float:
        """Rows dealt with in a second of work, start-up and plan left out."""
        done = self.num_out + self.num_refused
        return done / self.work_s if self.work_s > 0 else 0.0

    @property
    def exit_code(self) -> int:
        """3 while rows of this corpus stand refused, else 0."""
        return 3 if self.num_refused or self.num_in_quarantine else 0

    def as_dict(self) -> dict[str, object]:
        """The report as JSON values, with what follows from the counts."""
        return {
            **asdict(self),
            "refused": dict(self.refused),
            "num_refused": self.num_refused,
            "num_out": self.num_out,
            "rows_per_s": round(self.rows_per_s, 1),
            "exit_code": self.exit_code,
        }

    def __str__(self) -> str:
        lines = [self._headline(), *self._rows(), *self._columns()]
        if not self.dry_run:
            lines.append(
                f"  {self.num_bytes / 1e6:,.1f} MB read at {self.rows_per_s:,.0f} rows/s"
                f" (start-up {self.startup_s:.1f} s, plan {self.plan_s:.1f} s,"
                f" work {self.work_s:.1f} s)"
            )
            before = "none" if self.version_before is None else self.version_before
            lines.append(f"  version {before} -> {self.version_after}, run {self.run_id}")
        return "\n".join(lines)

    def _headline(self) -> str:
        verb = "Would ingest" if self.dry_run else "Ingested"
        return (
            f"{verb} {self.corpus} ({self.connector}) from {self.root} into {self.table}:"
            f" {self.num_parts_to_do:,} of {self.num_parts:,} parts to do"
        )

    def _rows(self) -> list[str]:
        counts = {
            "rows in": self.num_items,
            "done before": self.num_finished,
            "unchanged": self.num_unchanged,
            "to read": self.num_to_read if self.dry_run else 0,
            "added": self.num_added,
            "replaced": self.num_replaced,
            "kept though gone from the corpus": self.num_vanished,
        }
        lines = [f"  {num:>12,} {what}" for what, num in counts.items() if num or what == "rows in"]
        fate = {"quarantine": "quarantined", "skip": "skipped", "raise": "refused"}[self.on_error]
        lines += [
            f"  {num:>12,} {fate}: {reason}"
            for reason, num in sorted(self.refused.items(), key=lambda pair: (-pair[1], pair[0]))
        ]
        if self.num_in_quarantine:
            lines.append(
                f"  {self.num_in_quarantine:>12,} of this corpus in {self.table}.quarantine"
            )
        return lines

    def _columns(self) -> list[str]:
        lines = []
        if self.added_columns:
            lines.append(f"  new columns, null in older rows: {', '.join(self.added_columns)}")
        if self.unfilled_columns:
            lines.append(f"  columns left null: {', '.join(self.unfilled_columns)}")
        return lines
