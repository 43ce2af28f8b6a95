"""`curate explain`: why rows are in a selection, or out of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from curation.selection.explanation import Summary, Verdict, summarize
from curation.selection.explanation import explain as explain_rows
from datalake.cli import console
from datalake.errors import InputError

__all__ = ["explain"]


def explain(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table selected from.")],
    selection: Annotated[str, typer.Argument(metavar="SELECTION", help="A saved selection of it.")],
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Rows, by their ids; without, what each step did."),
    ] = None,
    version: Annotated[
        int | None, typer.Option(help="A version of the selection; without, the latest.")
    ] = None,
) -> None:
    """Say why each row is in or out, and by which numbers.

    Found anew from the selection's parameters and the version of the table that it was made from:
    which predicate, earlier selection, rule or kept duplicate refused the row, or how many rows of
    its domain come before it and how many the domain keeps.
    """
    lake = session.open_lake()
    chosen = lake.selection(selection, version)
    if chosen.table != table:
        raise InputError(
            f"{selection} is not a selection of {table}",
            expected=f"the table {chosen.table}",
            fix=f"curate explain {chosen.table} {selection}",
        )
    if ids:
        verdicts = explain_rows(lake, chosen, ids)
        if session.as_json:
            console.print_json([asdict(verdict) for verdict in verdicts])
        else:
            console.print_table([_line(verdict) for verdict in verdicts])
        return
    summary = summarize(lake, chosen)
    if session.as_json:
        console.print_json(_facts(summary))
    else:
        _print(summary)


def _line(verdict: Verdict) -> dict[str, Any]:
    return {
        "id": verdict.utt_id,
        "row": verdict.row_index,
        "in": verdict.is_kept,
        "reason": verdict.reason,
        "domain": verdict.domain,
        "place": verdict.place,
        "of": verdict.num_rows,
        "kept": verdict.num_kept,
        "weight": None if verdict.weight is None else round(verdict.weight, 4),
        "why": verdict.text,
    }


def _facts(summary: Summary) -> dict[str, Any]:
    return {
        "name": summary.name,
        "table": summary.table,
        "table_version": summary.table_version,
        "method": summary.method,
        "num_rows": summary.num_rows,
        "num_selected": summary.num_selected,
        "steps": [asdict(step) for step in summary.steps],
        "binding": summary.binding,
        "totals": {label: asdict(sums) for label, sums in summary.totals.items()},
        "within": None if summary.within is None else _facts(summary.within),
    }


def _print(summary: Summary) -> None:
    console.print_table(_steps(summary))
    typer.echo()
    if summary.binding.num_rows:
        console.print_table(
            [
                {
                    "domain that binds": row["domain"],
                    "rows": row["num_rows"],
                    "kept": row["num_kept"],
                    "share": round(row["mass"], 3),
                }
                for row in summary.binding.to_pylist()
            ]
        )
    else:
        typer.echo("No domain binds.")
    typer.echo()
    console.print_table(
        [
            {
                "label": label,
                "domains": sums.num_domains,
                "rows": sums.num_rows,
                "kept": sums.num_kept,
                "effective domains": round(sums.num_effective_domains, 2),
                "after": round(sums.num_effective_domains_kept, 2),
            }
            for label, sums in summary.totals.items()
        ]
    )


def _steps(summary: Summary) -> list[dict[str, Any]]:
    """From the table to the selection; those of an earlier selection first."""
    earlier = [] if summary.within is None else _steps(summary.within)
    table = f"{summary.table}, version {summary.table_version}"
    lines = [{"selection": summary.name, "step": table, "refused": None, "left": summary.num_rows}]
    for step in summary.steps:
        facts = ", ".join(
            str(value) if key == step.reason else f"{key} {value}"
            for key, value in step.facts.items()
            if value is not None
        )
        lines.append(
            {
                "selection": summary.name,
                "step": f"{step.reason} ({facts})" if facts else step.reason,
                "refused": step.num_refused,
                "left": step.num_left,
            }
        )
    return [*earlier, *lines]
