"""`ls`, `info` and `head`: what a lake, a table and its rows look like."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from datalake.cli import console
from datalake.cli.sets import is_set, table_of
from datalake.episodes.episode_set import PARTS, EpisodeSet, episode_sets, open_episodes
from datalake.episodes.masks import is_mask, open_mask
from datalake.episodes.schema import EPISODES
from datalake.errors import NotFoundError
from datalake.lake import Lake
from datalake.tables import Table

__all__ = ["head", "info", "ls"]

# Counting reads the columns whole.
_COUNTED_ROWS: Final = 1_000_000
_COUNTED: Final = {"labels": "label", "domains": "domain"}
_VALUES_SHOWN: Final = 20


def ls(session: console.Session) -> None:
    """List the tables, episode sets and selections of a lake."""
    lake = session.open_lake()
    contents = lake.contents()
    sets = episode_sets(lake, [entry.name for entry in contents["tables"]])
    entries: list[dict[str, Any]] = [_describe_line(lake, name) for name in sets]
    entries += [
        {"name": entry.name, "kind": kind.removesuffix("s"), **asdict(entry)}
        for kind, listed in contents.items()
        for entry in listed
        if entry.name not in {f"{name}.{part}" for name in sets for part in PARTS}
    ]
    entries.sort(key=lambda entry: (entry["kind"] == "selection", entry["name"]))
    if session.as_json:
        console.print_json(entries)
        return
    counts = ["num_episodes", "num_frames"] if sets else []
    console.print_table(entries, columns=["name", "kind", "format", "version", *counts])


def info(
    session: console.Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A table, episode set or selection.")],
    counts: Annotated[
        bool | None,
        typer.Option(
            help=f"Count labels and domains; by default up to {_COUNTED_ROWS:,} rows.",
        ),
    ] = None,
) -> None:
    """Describe a table, episode set or selection. Rows, bytes, versions, columns, domains."""
    lake = session.open_lake()
    if is_set(lake, name):
        _print_set(session, open_episodes(lake, name))
        return
    if name in lake.selections():
        facts, sections = _describe_selection(lake, name)
    else:
        table = table_of(lake, name)
        facts, sections = _describe_table(table, name, counts)
        if is_mask(table):
            mask = open_mask(lake, name)
            facts |= {
                "kind": "mask",
                "set": mask.set_name,
                "set_version": mask.set_version,
                "num_frames_masked": mask.num_frames,
                "parameters": mask.parameters,
                "digest": mask.digest,
            }
            sections = {"reasons": mask.by_reason(), **sections}
    if session.as_json:
        console.print_json({**facts, **sections})
        return
    console.print_pairs({**facts, "num_bytes": console.size(facts["num_bytes"])})
    for title, rows in sections.items():
        typer.echo(f"\n{title}")
        console.print_table(rows[:_VALUES_SHOWN] if title in _COUNTED else rows)
        if title in _COUNTED and len(rows) > _VALUES_SHOWN:
            typer.echo(f"… and {len(rows) - _VALUES_SHOWN:,} rarer ones (--json lists all)")


def head(
    session: console.Session,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A table, an episode set (its episodes) or selection."),
    ],
    num_rows: Annotated[
        int, typer.Option("--rows", "-n", min=1, help="At most so many rows.")
    ] = 10,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Only these columns, in this order.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only rows for which this holds.")
    ] = None,
) -> None:
    """Print the first rows of a table or selection. Media show what they weigh."""
    table = table_of(session.open_lake(), name)
    wanted = [column.strip() for column in columns.split(",")] if columns else None
    left_out: list[str] = []
    if wanted is None and not session.as_json and table.schema.names == EPISODES.names:
        # An episode's features and statistics are pages of their own.
        left_out = [field.name for field in table.schema if pa.types.is_nested(field.type)]
        wanted = [column for column in table.schema.names if column not in left_out]
    rows = table.scan(wanted, where=where, limit=num_rows).read_all()
    if session.as_json:
        console.print_json(rows)
    else:
        console.print_table(rows)
        if left_out:
            typer.echo(
                f"Not shown: {', '.join(left_out)} (--columns, --json, or datalake episodes show)",
                err=True,
            )


def _describe_line(lake: Lake, name: str) -> dict[str, Any]:
    """An episode set in `ls`. One that cannot be opened is listed all the same."""
    table = lake[f"{name}.episodes"]
    line = {
        "name": name,
        "kind": "episode set",
        "format": table.format,
        "version": table.version,
        "num_episodes": table.count_rows(),
        "num_frames": None,
    }
    with suppress(NotFoundError):
        line["num_frames"] = open_episodes(lake, name).frames.count_rows()
    return line


def _print_set(session: console.Session, opened: EpisodeSet) -> None:
    from datalake.cli.episodes import describe_set, print_sections

    facts, sections = describe_set(opened)
    if session.as_json:
        console.print_json({**facts, **sections})
        return
    console.print_pairs({**facts, "num_bytes": console.size(facts["num_bytes"])})
    print_sections(sections)


def _describe_table(
    table: Table, name: str, counts: bool | None
) -> tuple[dict[str, Any], dict[str, console.Rows]]:
    versions = table.versions()
    num_rows = table.count_rows()
    facts = {
        "name": name,
        "kind": "table",
        "format": table.format,
        "uri": table.uri,
        "version": table.version,
        "num_versions": len(versions),
        "created_at": versions[0].created_at,
        "changed_at": versions[-1].created_at,
        "num_rows": num_rows,
        "num_bytes": table.num_bytes(),
    }
    sections: dict[str, console.Rows] = {"columns": _columns(table.schema)}
    if counts or (counts is None and num_rows <= _COUNTED_ROWS):
        for title, column in _COUNTED.items():
            if column in table.schema.names and num_rows:
                sections[title] = _count(table, column)
    return facts, sections


def _describe_selection(lake: Lake, name: str) -> tuple[dict[str, Any], dict[str, console.Rows]]:
    table = lake.selection_table(name)
    selection = lake.selection(name)
    facts = {
        "name": name,
        "kind": "selection",
        "uri": table.uri,
        "version": table.version,
        "num_versions": len(table.versions()),
        "table": selection.table,
        "table_version": selection.table_version,
        "method": selection.method,
        "parameters": selection.parameters,
        "digest": selection.digest,
        "num_rows": len(selection),
        "num_bytes": table.num_bytes(),
    }
    return facts, {"manifest": selection.manifest}


def _columns(schema: pa.Schema) -> list[dict[str, object]]:
    return [
        {
            "column": field.name,
            "type": console.media_kind(field) or str(field.type),
            "nullable": field.nullable,
        }
        for field in schema
    ]


def _count(table: Table, column: str) -> list[dict[str, object]]:
    """How many rows each value of a column has, the most frequent first."""
    counted: Counter[str | None] = Counter()
    for batch in table.scan([column]):
        for pair in batch.column(column).value_counts().to_pylist():
            counted[pair["values"]] += pair["counts"]
    return [{column: value, "num_rows": rows} for value, rows in counted.most_common()]
