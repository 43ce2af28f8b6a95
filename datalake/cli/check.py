"""`datalake check`: what is wrong with a robot dataset, before any of it is ingested."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Final

import typer

from datalake.cli import console
from datalake.cli.findings import Tally, print_findings
from datalake.cli.pairs import read_pairs
from datalake.detection import connector as connector_named
from datalake.detection import recognise
from datalake.episodes.check import check_corpus
from datalake.episodes.validation import Checks
from datalake.errors import InputError
from datalake.recording import EpisodeCorpus, Severity
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
    """Say what is wrong with a robot dataset.

    Looks at its metadata, episodes and videos, and writes nothing. Errors are what an ingest would
    quarantine an episode for, or what keeps it from the whole dataset; warnings do not stop it.
    Exits 3 if there are errors.
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
    tally = Tally(shown)
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
        print_findings(corpus.source, tally)
    if tally.num(Severity.ERROR):
        raise typer.Exit(_REFUSED)
