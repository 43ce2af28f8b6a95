"""`curate embed`: add a column of embeddings to a table."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from curation.embed.embedder import load_embedder
from datalake.cli import console
from datalake.cli.execution import ExecutorOption, QuietOption, RayAddressOption, WorkersOption
from datalake.errors import InputError
from datalake.pipelines.annotation import annotate
from datalake.pipelines.choice import named_executor

__all__ = ["embed"]


def embed(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table; <set>.episodes.")],
    with_: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="NAME",
            help="lfcc_stats, logmel_stats, speaker, hf_audio, hf_image, keyframes, trajectory, "
            "or an embedder of your own.",
        ),
    ],
    model: Annotated[
        str | None, typer.Option(metavar="PATH", help="Folder of a Hugging Face model.")
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(metavar="N", help="Layer whose output is taken; -1 is the last."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Audio or image column, or camera of an episode set."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:N.")
    ] = None,
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="COLUMN", help="Name of the column; else the embedder's."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Embed only rows for which this holds.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a column that is there.")
    ] = False,
    executor: ExecutorOption = "auto",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Embed each row and add the vectors as a column, in one commit.

    The audio, pictures or frames are read, not rewritten. Rows that cannot be embedded have nulls
    and are counted, with the reason. A run that was killed goes on where it stood.
    """
    lake = session.open_lake()
    lake[table]  # Before anything is loaded: whether it is there.
    embedder = load_embedder(
        with_, lake, table, model=model, layer=layer, column=column, device=device
    )
    names = embedder.adds.names
    if as_ is not None and len(names) != 1:
        raise InputError(
            f"The embedder {with_} adds several columns, which cannot have one name",
            found=", ".join(names),
        )
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("embed"))
        report = annotate(
            lake,
            table,
            embedder,
            columns=None if as_ is None else {names[0]: as_},
            where=where,
            replace=replace,
            executor=named_executor(executor, workers, address=ray_address, debug=session.debug),
            progress=progress,
        )
    if session.as_json:
        console.print_json(report.as_dict())
    else:
        typer.echo(report)
