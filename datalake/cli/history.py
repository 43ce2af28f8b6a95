"""`log`, `versions` and `tag`: the versions of a table or selection and what made them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from datalake.cli import console
from datalake.cli.sets import table_name, table_of
from datalake.lake import LogEntry

__all__ = ["log", "tag", "versions"]

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A table, episode set or selection.")]


def log(session: console.Session, name: _Name) -> None:
    """Say what made each version. The run, its configuration, code and input versions."""
    lake = session.open_lake()
    entries = lake.log(table_name(lake, name))
    if session.as_json:
        console.print_json([asdict(entry) for entry in entries])
    else:
        console.print_table([_log_row(entry) for entry in entries])


def versions(session: console.Session, name: _Name) -> None:
    """List the versions that can be read, with their tags. The oldest comes first."""
    found = table_of(session.open_lake(), name).versions()
    if session.as_json:
        console.print_json([asdict(info) for info in found])
        return
    console.print_table(
        [
            {"version": info.version, "created_at": info.created_at, "tags": info.tags}
            for info in found
        ]
    )


def tag(
    session: console.Session,
    name: _Name,
    tag: Annotated[str, typer.Argument(metavar="TAG", help="The tag.")],
    version: Annotated[
        int | None, typer.Option(help="The version to name; the latest if not given.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move the tag if it is there.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tag instead.")] = False,
) -> None:
    """Name a version. A named version outlives clean-up."""
    table = table_of(session.open_lake(), name)
    if remove:
        table.untag(tag)
    else:
        table = table.at(version)
        table.tag(tag, replace=replace)
    done = {"name": name, "tag": tag, "version": None if remove else table.version}
    if session.as_json:
        console.print_json(done)
    elif remove:
        typer.echo(f"{tag} is removed from {name}")
    else:
        typer.echo(f"{tag} is version {table.version} of {name}")


def _log_row(entry: LogEntry) -> dict[str, object]:
    return {
        "version": entry.version,
        "created_at": entry.created_at,
        "operation": entry.operation,
        "inputs": entry.inputs,
        "config": entry.config_sha256[:12],
        "code": entry.code_version,
        "run_id": entry.run_id,
        "tags": entry.tags,
    }
