"""`datalake ingest`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Literal

import typer

from datalake.cli import console
from datalake.cli.execution import ExecutorOption, QuietOption, RayAddressOption, WorkersOption
from datalake.cli.pairs import read_pairs
from datalake.detection import recognise
from datalake.pipelines import ingest as bring_up_to_date
from datalake.pipelines.choice import named_executor
from datalake.pipelines.ingest import Transcoding
from datalake.pipelines.settings import OnError
from datalake.uri import locate

__all__ = ["ingest"]


def ingest(
    session: console.Session,
    path: Annotated[str, typer.Argument(metavar="PATH_OR_URI", help="The corpus or dataset.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The table (of robot data the episode set), made if need be."
        ),
    ],
    connector: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The corpus's format; left out, it is recognised."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the connector; may be repeated."),
    ] = None,
    format: Annotated[  # noqa: A002 - the option's name
        Literal["lance", "delta"] | None,
        typer.Option(help="The format of a new table or set (lance if left out)."),
    ] = None,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="Keep what is bad in NAME.quarantine, only count it, or stop at the first."
        ),
    ] = "quarantine",
    max_bad_fraction: Annotated[
        float | None,
        typer.Option(
            help="Stop if a larger fraction is bad (left out: .01 of utterances, no bound for"
            " episodes, which are few)."
        ),
    ] = None,
    transcode: Annotated[
        Transcoding | None,
        typer.Option(
            help="Not the original bytes: 16 kHz mono FLAC for speech, the others for video."
        ),
    ] = None,
    min_duration: Annotated[float, typer.Option(help="Refuse shorter speech (seconds).")] = 0.0,
    max_duration: Annotated[float, typer.Option(help="Refuse longer speech (seconds).")] = 3600.0,
    part_rows: Annotated[
        int, typer.Option(help="About how many rows of speech a part has in a first ingest.")
    ] = 4096,
    without_video: Annotated[
        bool,
        typer.Option("--without-video", help="Leave out robot features that are videos."),
    ] = False,
    union: Annotated[
        bool,
        typer.Option(
            "--union", help="Let robot data with other features in; what one lacks is null."
        ),
    ] = False,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FEATURE=NAME",
            help="Call a robot feature otherwise, so that one set can hold robots of other"
            " shapes; may be repeated.",
        ),
    ] = None,
    commit_every: Annotated[
        float, typer.Option(help="Commit what is staged at least this often (seconds).")
    ] = 60.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; report what would be done.")
    ] = False,
    executor: ExecutorOption = "auto",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Bring in speech or robot data, or what is new of it.

    A corpus of speech becomes a table, robot data an episode set. What is new is added, what
    changed is replaced, what is gone is kept and counted. A run that stopped or was killed is gone
    on with by running it again. Exits 3 while rows or episodes stand refused, and 1 if too many
    were.
    """
    root = locate(path, session.storage)
    if connector is None:
        evidence = recognise(root)
        connector = evidence.connector
        if not quiet:
            typer.echo(f"{connector}: {'; '.join(evidence.found)}", err=True)
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("ingest"))
        report = bring_up_to_date(
            session.open_lake(create=True),
            root,
            name,
            connector=connector,
            connector_options=read_pairs("An option of the connector", option or ()),
            format=format,
            on_error=on_error,
            max_bad_fraction=max_bad_fraction,
            transcode=transcode,
            min_duration_s=min_duration,
            max_duration_s=max_duration,
            part_rows=part_rows,
            without_video=without_video,
            union=union,
            rename=read_pairs("A new name", rename or (), expected="FEATURE=NAME"),
            commit_every_s=commit_every,
            dry_run=dry_run,
            executor=named_executor(executor, workers, address=ray_address, debug=session.debug),
            progress=progress,
        )
    if session.as_json:
        console.print_json(report.as_dict())
    else:
        typer.echo(report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)
