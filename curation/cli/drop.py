"""`curate drop`: leave out rows that break rules, each with its reason."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow.compute as pc
import typer

from curation.cli.drops_file import check_drops_file, write_drops
from curation.cli.episodes import table_of
from curation.cli.selection import selection_facts
from curation.quality.drops import Drops, find_drops, parse_rule
from curation.selection.passing import select_passing
from datalake.cli import console
from datalake.errors import InputError
from datalake.lake import Lineage, Selection
from datalake.tables import Table

__all__ = ["drop"]


def drop(
    session: console.Session,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table or episode set.")],
    rule: Annotated[
        list[str],
        typer.Option(
            metavar="RULE",
            help="'clipping_share > .01', 'snr_db is missing', 'duration_s is an outlier by source "
            "at 5' or 'jerk_p95 is an outlier by embodiment and task'; repeatable.",
        ),
    ],
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Judge only rows for which this holds.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Save what is kept as a selection."),
    ] = None,
    drops: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write each drop with its reason (.parquet or .csv)."),
    ] = None,
) -> None:
    """Drop rows that break a rule, and keep the rest as a selection.

    The table stays as it is. Each drop has a reason, the value and the bound.
    """
    check_drops_file(drops)
    rules = [parse_rule(text) for text in rule]
    lake = session.open_lake()
    table = table_of(lake, table)
    source = lake[table]
    found = find_drops(source, rules, where=where)
    kept = _kept(source, table, found, rule, where, name or "")
    version = None
    if name is not None:
        version = lake.save_selection(
            kept, Lineage("drop", config=dict(kept.parameters), inputs={table: source.version})
        )
    if drops is not None:
        write_drops(found.rows, drops)
    counts = {
        pair["values"]: pair["counts"] for pair in pc.value_counts(found.rows["reason"]).to_pylist()
    }
    if session.as_json:
        console.print_json(
            {
                **selection_facts(kept, version),
                "num_judged": found.num_rows,
                "num_dropped": found.num_dropped,
                "reasons": counts,
            }
        )
        return
    lines = [{"reason": reason, "rows": count} for reason, count in sorted(counts.items())]
    console.print_table(lines, columns=("reason", "rows"))
    typer.echo()
    console.print_pairs(
        {
            "judged": found.num_rows,
            "dropped": found.num_dropped,
            "kept": len(kept),
            "selection": f"{name}, version {version}" if name else "not saved (--as)",
            **({"drops": str(drops)} if drops is not None else {}),
        }
    )


def _kept(
    source: Table, table: str, found: Drops, rules: list[str], where: str | None, name: str
) -> Selection:
    """The rows that break no rule, as a selection of all domains."""
    if found.kept.num_rows == 0:
        raise InputError(
            "Every row breaks a rule", where=source.uri, found=f"{found.num_rows:,} drops",
            fix="Look at the drops' values and thresholds (--drops FILE) and loosen a rule",
        )  # fmt: skip
    return select_passing(
        source,
        found.kept,
        table_name=table,
        name=name,
        method="drop",
        parameters={"rules": rules, "where": where},
        where=where,
    )
