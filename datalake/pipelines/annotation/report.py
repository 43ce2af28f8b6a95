"""What an annotation did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from datalake.pipelines.annotation.units import AnnotatedUnit, Failure

__all__ = ["AnnotationReport", "FailedRow"]

_EXAMPLES = 5


@dataclass(frozen=True)
class FailedRow:
    """An example of a row that has nulls, and why."""

    row: int
    """Its index in the version annotated."""
    row_id: str | None
    """Its `utt_id`, `episode_id` or the like, where the table has one."""
    error: str


@dataclass
class AnnotationReport:
    """What an annotation did, in numbers."""

    table: str
    run_id: str
    config: Mapping[str, object]
    """The annotator's settings, the columns' names, `where` and `replace`."""
    columns: tuple[str, ...]
    num_rows: int = 0
    num_annotated: int = 0
    num_left: int = 0
    """Rows for which `where` does not hold."""
    num_resumed: int = 0
    """Rows that an earlier run, which did not end, had dealt with."""
    num_followed: int = 0
    """Rows appended by others while the run went on, and annotated too."""
    failed: dict[str, int] = field(default_factory=dict)
    """How many rows have nulls since they could not be annotated, by reason."""
    examples: list[FailedRow] = field(default_factory=list)
    audio_s: float = 0.0
    """Seconds of audio of the rows annotated by this run; 0 where no audio is read, or there is no
    `duration_s`."""
    num_bytes_read: int = 0
    """Bytes of the columns read by this run, in memory."""
    startup_s: float = 0.0
    work_s: float = 0.0
    commit_s: float = 0.0
    version_before: int = 0
    version: int = 0

    def __post_init__(self) -> None:
        self.failures: list[Failure] = []

    @property
    def num_failed(self) -> int:
        """Rows that could not be annotated."""
        return sum(self.failed.values())

    @property
    def rows_per_s(self) -> float:
        """Rows that this run dealt with, a second of its work."""
        return (self.num_rows - self.num_resumed) / self.work_s if self.work_s else 0.0

    @property
    def audio_hours_per_s(self) -> float:
        """Hours of audio that this run dealt with, a second of its work."""
        return self.audio_s / 3600 / self.work_s if self.work_s else 0.0

    def count(self, unit: AnnotatedUnit, *, resumed: bool = False) -> None:
        """Add what became of a range of rows."""
        self.num_rows += unit.num_rows
        self.num_annotated += unit.num_annotated
        self.num_left += unit.num_left
        counted = Counter(self.failed) + Counter(unit.failed)
        self.failed = dict(sorted(counted.items(), key=lambda each: (-each[1], each[0])))
        # The first ones of the table, in whatever order the ranges are done.
        self.failures = sorted([*self.failures, *unit.failures])[:_EXAMPLES]
        if resumed:
            self.num_resumed += unit.num_rows
        else:
            self.audio_s += unit.audio_s
            self.num_bytes_read += unit.num_bytes

    def as_dict(self) -> dict[str, object]:
        """The report as JSON values."""
        return {
            **asdict(self),
            "num_failed": self.num_failed,
            "rows_per_s": self.rows_per_s,
            "audio_hours_per_s": self.audio_hours_per_s,
        }

    def __str__(self) -> str:
        lines = [
            f"Annotated {self.num_annotated:,} of {self.num_rows:,} rows of {self.table}"
            f" with {', '.join(self.columns)}"
        ]
        if self.num_left:
            lines.append(f"  {self.num_left:,} left alone: the condition does not hold")
        if self.num_resumed:
            lines.append(f"  {self.num_resumed:,} were done already by a run that did not end")
        if self.num_followed:
            lines.append(f"  {self.num_followed:,} came in while the run went on")
        for reason, number in self.failed.items():
            lines.append(f"  {number:,} have nulls: {reason}")
        lines += [
            f"    such as {each.row_id or f'row {each.row}'} ({each.error})"
            for each in self.examples
        ]
        audio = f", {self.audio_s / 3600:.3g} h of audio" if self.audio_s else ""
        hours = f", {self.audio_hours_per_s:.2g} h of audio/s" if self.audio_s else ""
        lines += [
            f"  {self.rows_per_s:,.0f} rows/s{audio}{hours}"
            f" (start-up {self.startup_s:.1f} s, work {self.work_s:.1f} s,"
            f" commit {self.commit_s:.1f} s)",
            f"  version {self.version_before} -> {self.version}, run {self.run_id}",
        ]
        return "\n".join(lines)
