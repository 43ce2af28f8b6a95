"""`curate select`: choose rows to train on and save them under a name."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, cast

import typer

from curation.cli.selection import DOMAINS_SHOWN, print_selection, selection_facts
from curation.selection import OrderOptions, RealMode, Unit
from curation.selection import select as select_rows
from datalake.cli import console
from datalake.cli.execution import ExecutorOption, QuietOption, RayAddressOption, WorkersOption
from datalake.errors import InputError
from datalake.lake import Lineage
from datalake.pipelines.choice import decided, named_executor

__all__ = ["select"]


def select(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to select from.")],
    method: Annotated[
        str,
        typer.Option(metavar="NAME", help="doss, random, naive, or a selector of your own."),
    ] = "doss",
    cap: Annotated[
        int | None, typer.Option(help="DOSS: most rows of a spoof domain (N_c).")
    ] = None,
    ratio: Annotated[
        float, typer.Option(help="DOSS: bona fide rows wanted for each spoof row (rho).")
    ] = 1.0,
    real_mode: Annotated[
        str,
        typer.Option(help="DOSS: how bona fide rows are shared out: per_source, total or cap."),
    ] = "per_source",
    order: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Which rows of a domain are kept: hash (any), quality, speaker, density, "
            "k_center, facility_location, or an order of your own.",
        ),
    ] = "hash",
    quality: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="Order quality: a column, or sums and products of some."),
    ] = None,
    lowest_first: Annotated[
        bool, typer.Option("--lowest-first", help="Order quality: the lowest first.")
    ] = False,
    embedding: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Orders density, k_center, facility_location: the vectors."
        ),
    ] = None,
    speaker_column: Annotated[
        str, typer.Option(metavar="COLUMN", help="Order speaker: who speaks.")
    ] = OrderOptions.speaker,
    num_neighbors: Annotated[
        int, typer.Option(help="Order facility_location: most similar rows that count for a row.")
    ] = OrderOptions.num_neighbors,
    num_clusters: Annotated[
        int | None, typer.Option(help="Order density: clusters of a domain.")
    ] = None,
    temperature: Annotated[
        float, typer.Option(help="Order density: low, and complex clusters take all.")
    ] = OrderOptions.temperature,
    seed: Annotated[
        int, typer.Option(help="Seed of the hash that orders rows or breaks ties.")
    ] = 0,
    budget: Annotated[
        float | None,
        typer.Option(help="Random, DOSS: how much to keep in all; finds the cap of DOSS."),
    ] = None,
    unit: Annotated[
        str, typer.Option(help="What the budget counts: rows, hours or bytes.")
    ] = "rows",
    like: Annotated[
        str | None,
        typer.Option(metavar="SELECTION", help="A budget of the rows of a saved selection."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Consider only rows for which this holds.")
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(metavar="SELECTION", help="Consider only rows of this saved selection."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Save under this name; without, only show."),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where vectors are laid out; on Ray all nodes reach it."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help=f"Show all domains, not the {DOMAINS_SHOWN} largest.")
    ] = False,
    executor: ExecutorOption = "auto",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Choose rows of a table to train on, and save them as a selection.

    Selections of one order and seed nest: a larger cap or budget adds rows and takes none away.
    Only the key columns are read, and what the order needs.
    """
    lake = session.open_lake()
    inputs: dict[str, int] = {}
    if like is not None:
        if budget is not None:
            raise InputError(
                "--budget and --like both set the number of rows",
                expected="one of them",
                found=f"--budget {budget} --like {like}",
            )
        budget = len(lake.selection(like))
        inputs[like] = lake.selection_table(like).version
    if within is not None:
        inputs[within] = lake.selection_table(within).version
    source = lake[table]
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("select"))
        choice = named_executor(executor, workers, address=ray_address, debug=session.debug)
        selection = select_rows(
            source,
            table_name=table,
            method=method,
            cap=cap,
            ratio=ratio,
            real_mode=cast("RealMode", real_mode),  # checked by `Options`
            seed=seed,
            budget=budget,
            unit=cast("Unit", unit),  # checked by `Budget`
            where=where,
            within=None if within is None else lake.selection(within),
            order=order,
            order_options=OrderOptions(
                quality=quality,
                lowest_first=lowest_first,
                embedding=embedding,
                speaker=speaker_column,
                num_neighbors=num_neighbors,
                num_clusters=num_clusters,
                temperature=temperature,
            ),
            # Products of vectors use all cores of this machine anyway.
            executor=decided(choice, 0),
            scratch=scratch,
            progress=progress,
            name=name or "",
        )
    version = None
    if name is not None:
        lineage = Lineage(
            "select",
            config={"method": method, **selection.parameters},
            inputs={table: source.version, **inputs},
        )
        version = lake.save_selection(selection, lineage)
    if session.as_json:
        console.print_json(selection_facts(selection, version))
    else:
        print_selection(selection, version, None if show_all else DOMAINS_SHOWN)
