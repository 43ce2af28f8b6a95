"""`curate measure`: add columns of measures to a table."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from curation.cli.episodes import table_of
from curation.quality.measures import load_measure
from datalake.cli import console
from datalake.cli.execution import ExecutorOption, QuietOption, RayAddressOption, WorkersOption
from datalake.cli.pairs import read_pairs
from datalake.pipelines.annotation import annotate
from datalake.pipelines.choice import named_executor

__all__ = ["measure"]


def measure(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table or episode set.")],
    with_: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="NAME",
            help="audio (levels, silence, noise, bandwidth), fingerprint, dnsmos; of episodes "
            "robot (jerk, idle frames, jumps, lag, …), robot_views (frozen, blurred or badly "
            "exposed pictures); or a measure of your own.",
        ),
    ] = "audio",
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="The camera, where a set has several.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Measure only rows for which this holds.")
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="MEASURE=COLUMN", help="Another name for a column; repeatable."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace columns that are there.")
    ] = False,
    executor: ExecutorOption = "auto",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Measure each row and add the values as columns, in one commit.

    Audio, pictures and frames are read, not rewritten. Rows that cannot be measured have nulls and
    are counted, with the reason. A run that was killed goes on where it stood.
    """
    lake = session.open_lake()
    table = table_of(lake, table)
    lake[table]  # Before anything is loaded: whether it is there.
    measures = load_measure(with_, lake, table, column=column)
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("measure"))
        report = annotate(
            lake,
            table,
            measures,
            columns=read_pairs("A column's name", rename or (), expected="MEASURE=COLUMN"),
            where=where,
            replace=replace,
            executor=named_executor(executor, workers, address=ray_address, debug=session.debug),
            progress=progress,
        )
    if session.as_json:
        console.print_json(report.as_dict())
    else:
        typer.echo(report)
