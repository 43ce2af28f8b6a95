"""`compact`, `cleanup` and `rm`: keeping a lake small and in order."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from datalake.cli import console
from datalake.errors import InputError
from datalake.lake import Lake, Lineage

__all__ = ["cleanup", "compact", "rm"]

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A table or selection.")]


def compact(
    session: console.Session, name: Annotated[str, typer.Argument(metavar="TABLE", help="A table.")]
) -> None:
    """Rewrite small pieces of a table into larger ones. Its rows stay the same."""
    before = session.open_lake()[name]
    lineage = Lineage("compact", inputs={name: before.version})
    after = before.compact(properties=lineage.properties())
    report = {"name": name, "version_before": before.version, "version": after.version}
    if session.as_json:
        console.print_json(report)
    elif after.version == before.version:
        typer.echo(f"{name} has nothing to compact")
    else:
        typer.echo(f"{name} is compacted in version {after.version}")


def cleanup(
    session: console.Session,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A table or selection; all of them if not given."),
    ] = None,
    older_than_days: Annotated[
        float, typer.Option("--older-than-days", min=0.0, help="Keep what is younger.")
    ] = 14.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove old versions and files nobody committed. The latest and tagged versions stay."""
    lake = session.open_lake()
    age = dt.timedelta(days=older_than_days)
    reports = [
        {"name": each, **asdict(lake.open(each).cleanup(older_than=age, dry_run=dry_run))}
        for each in ([name] if name else lake.tables() + lake.selections())
    ]
    if session.as_json:
        console.print_json(reports)
        return
    console.print_table(
        [{**report, "num_bytes": console.size(report["num_bytes"])} for report in reports],
        columns=["name", "num_versions", "num_bytes", "dry_run"],
    )


def rm(
    session: console.Session,
    name: _Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove a table or selection with all of its versions."""
    lake = session.open_lake()
    is_table = name in lake
    table = lake.open(name)
    if not yes:
        _ask(lake, name, table.count_rows(), is_table)
    if is_table:
        lake.drop(name)
    else:
        lake.drop_selection(name)
    if session.as_json:
        console.print_json({"name": name, "removed": True})
    else:
        typer.echo(f"{name} is removed")


def _ask(lake: Lake, name: str, num_rows: int, is_table: bool) -> None:
    broken = lake.selections_of(name) if is_table else []
    question = f"Remove {name} ({num_rows:,} rows, all versions)"
    if broken:
        question += f", without which the selections {', '.join(broken)} cannot be loaded"
    print(f"{question}? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    answer = sys.stdin.readline()
    if not answer:
        # Standard input is closed: nobody can agree, and nobody ended the line.
        print(file=sys.stderr)  # noqa: T201
    if answer.strip().lower() not in {"y", "yes"}:
        raise InputError("Nothing was removed", fix="Agree, or pass --yes")
