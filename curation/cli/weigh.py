"""`curate weigh`: say how often each row is drawn, and save that under a name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from curation.cli.selection import DOMAINS_SHOWN, print_selection, selection_facts
from curation.selection import WeightOptions
from curation.selection import weigh as weigh_rows
from datalake.cli import console
from datalake.lake import Lineage

__all__ = ["weigh"]


def weigh(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table to weigh.")],
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="doss, temperature, class_balanced, uniform, natural, doremi, or one of your own.",
        ),
    ] = "doss",
    cap: Annotated[
        int | None, typer.Option(help="DOSS: rows that a domain counts for at most (N_c).")
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="DOSS, temperature: exponent of a domain's size, 0 all alike."),
    ] = None,
    ratio: Annotated[
        float,
        typer.Option(help="DOSS, uniform, DoReMi: bona fide draws for each spoof draw (rho)."),
    ] = 1.0,
    beta: Annotated[
        float, typer.Option(help="Class-balanced: b, towards 1 for domains alike.")
    ] = WeightOptions.beta,
    losses: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="DoReMi: a proxy's losses, as `curate proxy` writes."),
    ] = None,
    step_size: Annotated[
        float, typer.Option(help="DoReMi: how fast weights follow the losses (eta).")
    ] = WeightOptions.step_size,
    smoothing: Annotated[
        float, typer.Option(help="DoReMi: the share spread evenly at each step (c).")
    ] = WeightOptions.smoothing,
    max_repeat: Annotated[
        float | None, typer.Option(help="Most draws of one row expected in an epoch, 1 or more.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the ranks within domains.")] = 0,
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
    """Keep every row of a table, and say how often its domain is drawn.

    A weight is the number of draws that a row can expect in an epoch; their mean is 1. Train with
    `datalake.loader.Weighted(source, selection)`.
    """
    lake = session.open_lake()
    source = lake[table]
    inputs = {table: source.version}
    if within is not None:
        inputs[within] = lake.selection_table(within).version
    selection = weigh_rows(
        source,
        table_name=table,
        method=method,
        cap=cap,
        alpha=alpha,
        ratio=ratio,
        beta=beta,
        losses=losses,
        step_size=step_size,
        smoothing=smoothing,
        max_repeat=max_repeat,
        seed=seed,
        where=where,
        within=None if within is None else lake.selection(within),
        name=name or "",
    )
    version = None
    if name is not None:
        lineage = Lineage(
            "weigh",
            config={"method": method, **selection.parameters},
            inputs=inputs,
        )
        version = lake.save_selection(selection, lineage)
    if session.as_json:
        console.print_json(selection_facts(selection, version))
    else:
        print_selection(selection, version, None if show_all else DOMAINS_SHOWN)
