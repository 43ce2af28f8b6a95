"""`curate select`: choose rows to train on and save them under a name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final, cast

import pyarrow as pa
import typer

from curation.manifest import ratio_reached, remarks, totals
from curation.selection import RealMode
from curation.selection import select as select_rows
from datalake.cli import console
from datalake.errors import InputError
from datalake.lake import Lineage, Selection

__all__ = ["select"]

_DOMAINS_SHOWN: Final = 20


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
    budget: Annotated[int | None, typer.Option(help="Random: rows in all.")] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="SELECTION", help="Random: as many rows as a saved selection has."),
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Consider only rows for which this holds.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Save under this name; without, only show."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help=f"Show all domains, not the {_DOMAINS_SHOWN} largest.")
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
        where=where,
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
        console.print_json(_facts(selection, version))
    else:
        _print(selection, version, None if show_all else _DOMAINS_SHOWN)


def _facts(selection: Selection, version: int | None) -> dict[str, object]:
    return {
        "name": selection.name or None,
        "version": version,
        "table": selection.table,
        "table_version": selection.table_version,
        "method": selection.method,
        "parameters": selection.parameters,
        "num_rows": len(selection),
        "ratio_reached": ratio_reached(selection.manifest),
        "remarks": remarks(selection.manifest, selection.parameters),
        "totals": {label: asdict(sums) for label, sums in totals(selection.manifest).items()},
        "manifest": selection.manifest,
    }


def _print(selection: Selection, version: int | None, num_shown: int | None) -> None:
    shown = selection.manifest.slice(0, num_shown)
    console.print_table(_lines(shown))
    if hidden := selection.manifest.num_rows - shown.num_rows:
        typer.echo(f"… and {hidden:,} smaller domains (--all shows them)")
    typer.echo()
    console.print_table(
        [
            {
                "label": label,
                "domains": sums.num_domains,
                "rows": sums.num_rows,
                "kept": sums.num_kept,
                "hours": _rounded(sums.hours),
                "hours kept": _rounded(sums.hours_kept),
                "effective domains": round(sums.num_effective_domains, 2),
                "after": round(sums.num_effective_domains_kept, 2),
            }
            for label, sums in totals(selection.manifest).items()
        ]
    )
    typer.echo()
    console.print_pairs(
        {
            "selection": f"{selection.name}, version {version}" if version else "not saved (--as)",
            "table": f"{selection.table}, version {selection.table_version}",
            "method": selection.method,
            **{key: value for key, value in selection.parameters.items() if value is not None},
            "ratio reached": _rounded(ratio_reached(selection.manifest)),
        }
    )


def _lines(manifest: pa.Table) -> list[dict[str, Any]]:
    return [
        {
            "domain": row["domain"],
            "label": row["label"],
            "rows": row["num_rows"],
            "kept": row["num_kept"],
            "hours": _rounded(row["hours"]),
            "hours kept": _rounded(row["hours_kept"]),
            "retention": _rounded(row["retention"]),
            "binds": row["binds"],
        }
        for row in manifest.to_pylist()
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
