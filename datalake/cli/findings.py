"""Findings on stdout: counted by kind, the first few of each shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import typer

from datalake.quarantine import Reason
from datalake.recording import Finding, Severity

__all__ = ["Tally", "print_findings"]


@dataclass
class _Kind:
    """Findings of one severity, reason and feature."""

    count: int = 0
    shown: list[Finding] = field(default_factory=list)
    last_episode: str | None = None
    num_episodes: int = 0


class Tally:
    """Counts findings by kind and keeps the first few of each: thousands of them take no room."""

    def __init__(self, num_shown: int | None) -> None:
        self.num_episodes = 0
        self._num_shown = num_shown
        self._kinds: dict[tuple[Severity, Reason, str | None], _Kind] = {}
        self._bad_episodes: set[str] = set()

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        key = (finding.severity, finding.reason, finding.feature)
        kind = self._kinds.setdefault(key, _Kind())
        kind.count += 1
        if finding.episode_id is not None and finding.episode_id != kind.last_episode:
            kind.num_episodes += 1
            kind.last_episode = finding.episode_id
        if self._num_shown is None or len(kind.shown) < self._num_shown:
            kind.shown.append(finding)
        if finding.severity is Severity.ERROR and finding.episode_id is not None:
            self._bad_episodes.add(finding.episode_id)

    def num(self, severity: Severity) -> int:
        """How many findings are of a severity."""
        return sum(kind.count for key, kind in self._kinds.items() if key[0] is severity)

    @property
    def num_bad_episodes(self) -> int:
        """Episodes with an error."""
        return len(self._bad_episodes)

    def kinds(self) -> Iterator[tuple[Severity, Reason, str | None, _Kind]]:
        """The kinds of findings: errors first, each in the order in which they were met."""
        for severity in Severity:
            for key, kind in self._kinds.items():
                if key[0] is severity:
                    yield *key, kind

    def as_dict(self) -> dict[str, object]:
        """The counts, and the findings that are kept."""
        reasons: Counter[str] = Counter()
        for (_, reason, _), kind in self._kinds.items():
            reasons[str(reason)] += kind.count
        return {
            "num_episodes": self.num_episodes,
            "num_bad_episodes": self.num_bad_episodes,
            "num_errors": self.num(Severity.ERROR),
            "num_warnings": self.num(Severity.WARNING),
            "reasons": dict(reasons),
            "findings": [finding.as_dict() for *_, kind in self.kinds() for finding in kind.shown],
        }


def print_findings(source: str, tally: Tally) -> None:
    """Print what was found, for a person."""
    for severity, reason, feature, kind in tally.kinds():
        about = f" {feature}" if feature else ""
        spread = f" in {_number(kind.num_episodes, 'episode')}" if kind.num_episodes > 1 else ""
        count = f": {kind.count:,}{spread}" if kind.count > 1 else ""
        typer.echo(f"{severity}  {reason}{about}{count}")
        for finding in kind.shown:
            typer.echo(f"  {_place(finding)}: {finding.detail}")
        if kind.count > len(kind.shown):
            typer.echo(f"  … and {kind.count - len(kind.shown):,} more (--json lists all)")
    if tally.num(Severity.ERROR) or tally.num(Severity.WARNING):
        typer.echo()
    typer.echo(
        f"{source}: {_number(tally.num_episodes, 'episode')},"
        f" {tally.num_bad_episodes:,} of them bad;"
        f" {_number(tally.num(Severity.ERROR), 'error')},"
        f" {_number(tally.num(Severity.WARNING), 'warning')}"
    )
    if any(reason is Reason.VIDEO_MISSING for _, reason, *_ in tally.kinds()):
        typer.echo("States and actions can be used without the videos: --without-video")


def _place(finding: Finding) -> str:
    if finding.episode_id is None:
        return finding.origin or "the dataset"
    frame = "" if finding.frame_index is None else f" frame {finding.frame_index:,}"
    return f"{finding.episode_id}{frame}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
