"""`compact`, `cleanup` and `rm`: keeping a lake small and in order."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from datalake.cli import console
from datalake.cli.sets import everything, is_set, refuse_part, table_name, table_of
from datalake.episodes.care import cleanup_episodes, drop_episodes
from datalake.episodes.episode_set import PARTS, EpisodeSet, open_episodes
from datalake.errors import InputError
from datalake.lake import Lake, Lineage
from datalake.tables import Table

__all__ = ["cleanup", "compact", "rm"]

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A table, episode set or selection.")]


def compact(
    session: console.Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A table or an episode set.")],
) -> None:
    """Rewrite small pieces of a table or set into larger ones. Its rows stay the same."""
    lake = session.open_lake()
    refuse_part(lake, name, "compact")
    before: Table | EpisodeSet
    after: Table | EpisodeSet
    if is_set(lake, name):
        before = open_episodes(lake, name)
        lineage = Lineage("compact", inputs={name: before.version})
        after = before.to_write().compact(lineage=lineage)
    else:
        before = lake[table_name(lake, name)]
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
        typer.Argument(metavar="NAME", help="A table, episode set or selection; if left out, all."),
    ] = None,
    older_than_days: Annotated[
        float, typer.Option("--older-than-days", min=0.0, help="Keep what is younger.")
    ] = 14.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove old versions and files nobody committed. The latest and tagged versions stay."""
    lake = session.open_lake()
    if name:
        refuse_part(lake, name, "cleanup")
    age = dt.timedelta(days=older_than_days)
    reports = [
        {
            "name": each,
            **asdict(
                cleanup_episodes(lake, each, older_than=age, dry_run=dry_run)
                if is_set(lake, each)
                else table_of(lake, each).cleanup(older_than=age, dry_run=dry_run)
            ),
        }
        for each in ([name] if name else everything(lake))
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
    """Remove a table, episode set or selection with all of its versions."""
    lake = session.open_lake()
    refuse_part(lake, name, "rm")
    tables = [f"{name}.{part}" for part in PARTS] if is_set(lake, name) else [name]
    is_table = tables[0] in lake
    num_rows = table_of(lake, name).count_rows()
    if not yes:
        _ask(lake, name, num_rows, tables if is_table else [])
    if is_set(lake, name):
        drop_episodes(lake, name)
    elif is_table:
        lake.drop(name)
    else:
        lake.drop_selection(name)
    if session.as_json:
        console.print_json({"name": name, "removed": True})
    else:
        typer.echo(f"{name} is removed")


def _ask(lake: Lake, name: str, num_rows: int, tables: list[str]) -> None:
    """Ask whether `name`, which is these tables (or a selection), may go."""
    broken = [selection for table in tables for selection in lake.selections_of(table)]
    what = "episodes" if len(tables) > 1 else "rows"
    question = f"Remove {name} ({num_rows:,} {what}, all versions)"
    if broken:
        question += f", without which the selections {', '.join(broken)} cannot be loaded"
    print(f"{question}? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    answer = sys.stdin.readline()
    if not answer:
        # Standard input is closed: nobody can agree, and nobody ended the line.
        print(file=sys.stderr)  # noqa: T201
    if answer.strip().lower() not in {"y", "yes"}:
        raise InputError("Nothing was removed", fix="Agree, or pass --yes")
