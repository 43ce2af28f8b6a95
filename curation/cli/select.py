"""`curate select`: choose rows to train on and save them under a name."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from curation.cli.selection import DOMAINS_SHOWN, print_selection, selection_facts
from curation.selection import RealMode, Unit
from curation.selection import select as select_rows
from datalake.cli import console
from datalake.errors import InputError
from datalake.lake import Lineage

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
    seed: Annotated[int, typer.Option(help="Seed of the order within domains.")] = 0,
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
    show_all: Annotated[
        bool, typer.Option("--all", help=f"Show all domains, not the {DOMAINS_SHOWN} largest.")
    ] = False,
) -> None:
    """Choose rows of a table to train on, and save them as a selection.

    Selections of one seed nest: a larger cap or budget adds rows and takes none away. Only the key
    columns are read.
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
