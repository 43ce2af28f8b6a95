"""`datalake check`: what is wrong with a robot dataset, before any of it is ingested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

from datalake.cli import console
from datalake.cli.pairs import read_pairs
from datalake.detection import connector as connector_named
from datalake.episodes.check import check_corpus
from datalake.episodes.validation import Checks
from datalake.errors import InputError
from datalake.pipelines.recognition import recognise
from datalake.quarantine import Reason
from datalake.recording import EpisodeCorpus, Finding, Severity
from datalake.uri import locate

__all__ = ["check"]

_REFUSED: Final = 3


def check(
    session: console.Session,
    path: Annotated[str, typer.Argument(metavar="PATH_OR_URI", help="The dataset.")],
    connector: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The dataset's format; left out, it is recognised."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the connector; may be repeated."),
    ] = None,
    without_video: Annotated[
        bool, typer.Option("--without-video", help="Leave the video files alone.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Decode every video to its end.")] = False,
    tolerance: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How far a timestamp may be off; LeRobot's default."),
    ] = Checks.timestamp_tolerance_s,
    max_findings: Annotated[
        int | None,
        typer.Option(
            min=0, help="Show so many findings of a kind (3 if left out; all with --json)."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Say what is wrong with a robot dataset: its metadata, episodes and videos. Writes nothing.

    Errors are what an ingest would quarantine an episode for, or what keeps it from the whole
    dataset; warnings do not stop it. Exits 3 if there are errors.
    """
    checks = Checks(timestamp_tolerance_s=tolerance)
    if deep and without_video:
        raise InputError("Either --deep or --without-video can be asked for", found="both")
    root = locate(path, session.storage)
    if connector is None:
        evidence = recognise(root)
        connector = evidence.connector
        if not quiet:
            typer.echo(f"{connector}: {'; '.join(evidence.found)}", err=True)
    corpus = connector_named(connector).open(
        root, read_pairs("An option of the connector", option or ())
    )
    if not isinstance(corpus, EpisodeCorpus):
        raise InputError(
            "Only robot datasets can be checked",
            where=path,
            found=f"a corpus of audio ({connector})",
            fix="Ingest it with --dry-run: that names the bad files",
        )
    shown = max_findings if max_findings is not None else (None if session.as_json else 3)
    tally = _Tally(shown)
    with ExitStack() as stack:
        progress = None
        if not quiet:
            progress = stack.enter_context(console.Progress("check", unit="episodes"))

        def tell(done: int, total: int) -> None:
            tally.num_episodes = total
            if progress is not None:
                progress.update(done, total=total)

        for finding in check_corpus(
            corpus, checks, with_video=not without_video, deep=deep, progress=tell
        ):
            tally.add(finding)
    if session.as_json:
        console.print_json({"connector": connector, "source": corpus.source, **tally.as_dict()})
    else:
        _print(corpus.source, tally)
    if tally.num(Severity.ERROR):
        raise typer.Exit(_REFUSED)


@dataclass
class _Kind:
    """Findings of one severity, reason and feature."""

    count: int = 0
    shown: list[Finding] = field(default_factory=list)
    last_episode: str | None = None
    num_episodes: int = 0


class _Tally:
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


def _print(source: str, tally: _Tally) -> None:
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
