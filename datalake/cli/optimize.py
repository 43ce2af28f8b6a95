"""`datalake optimize`."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from datalake.blocks.cache import BlockCache
from datalake.blocks.filling import Filled, fill
from datalake.blocks.reader import TableReader
from datalake.cli import console
from datalake.cli.amounts import read_bytes
from datalake.cli.execution import QuietOption
from datalake.cli.sets import is_set, table_of
from datalake.errors import InputError, SchemaError, StoreError
from datalake.lake import Lake, Lineage
from datalake.tables import Table

__all__ = ["optimize"]

_LOCAL_THREADS = 4
_REMOTE_THREADS = 16
# Other columns are read by the table itself, a batch at a time.
_BY_TABLE = "by the table, uncached"


def optimize(
    session: console.Session,
    name: Annotated[str, typer.Argument(metavar="TABLE", help="A table of the lake.")],
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Only these columns; else all.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(metavar="N", help="The version that will be streamed.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The cache; else the one of this machine.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Of the cache, such as 200GB.")
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Rewrite small pieces first, as a new version.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Blocks that are fetched at a time.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Make the first epoch of a table as fast as the later ones.

    Loaders need no copy of a table: columns that lie in this machine's files as they are get read
    in place. All others are read through this machine's cache, which this command fills beforehand.
    It can be stopped and started again.
    """
    lake = session.open_lake()
    if is_set(lake, name):
        raise InputError(
            f"{name} is an episode set, and no table",
            where=str(lake.location),
            fix=f"Name one of its tables: {name}.frames or {name}.videos",
        )
    table = table_of(lake, name)
    if compact:
        table = _compacted(lake, name, table, version)
    elif version is not None:
        table = table.at(version)
    store = BlockCache(cache, budget_bytes=None if budget is None else read_bytes("budget", budget))
    reader = TableReader(table, cache=store)
    found = _looked_at(reader, _wanted(table, columns))
    blocks = [line["column"] for line in found if line["num_blocks"]]
    most = _REMOTE_THREADS if reader.is_remote else min(_LOCAL_THREADS, os.cpu_count() or 1)
    with ExitStack() as stack:
        bar = None if quiet else stack.enter_context(console.Progress("optimize", unit="MB"))
        try:
            filled = fill(
                reader,
                blocks,
                num_threads=threads or most,
                progress=None if bar is None else lambda done: _show(bar, done),
            )
            budget_bytes = store.budget_bytes
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                "The cache cannot be used",
                where=str(store.directory),
                found=str(error),
                fix="Give another directory on a local disk (--cache)",
            ) from error
    report: dict[str, Any] = {
        "name": name,
        "version": table.version,
        "cache": str(store.directory),
        "budget_bytes": budget_bytes,
        **asdict(filled),
        "columns": found,
    }
    if session.as_json:
        console.print_json(report)
    else:
        _print(report, filled)


def _compacted(lake: Lake, name: str, table: Table, version: int | None) -> Table:
    if version is not None:
        raise InputError("Only the latest version can be compacted", fix="Leave --version out")
    if name not in lake:
        raise InputError("Only a table can be compacted", where=str(lake.location), found=name)
    lineage = Lineage("compact", inputs={name: table.version})
    return table.compact(properties=lineage.properties())


def _wanted(table: Table, columns: str | None) -> list[str]:
    if columns is None:
        return list(table.schema.names)
    return [column.strip() for column in columns.split(",")]


def _looked_at(reader: TableReader, columns: list[str]) -> list[dict[str, Any]]:
    """How each column is read, and how many blocks of the cache that takes.

    Raises:
        SchemaError: there is no such column.
    """
    found = []
    for column in columns:
        line = {"column": column, "read": _BY_TABLE, "num_blocks": 0, "num_bytes": 0}
        found.append(line)
        try:
            layout = reader.layout(column)
        except SchemaError:
            raise
        except InputError:
            continue
        if reader.is_mapped(column):
            line["read"] = "in place"
            continue
        line["read"] = "in blocks, cached"
        line["num_blocks"] = layout.num_blocks
        line["num_bytes"] = layout.num_rows * layout.row_bytes
    return found


def _show(bar: console.Progress, done: Filled) -> None:
    bar.update(
        done.bytes_fetched // 1_000_000, note=f"{done.num_there:,} of {done.num_blocks:,} blocks"
    )


def _print(report: dict[str, Any], filled: Filled) -> None:
    console.print_table(
        [
            {
                "column": line["column"],
                "read": line["read"],
                "blocks": line["num_blocks"],
                "size": console.size(line["num_bytes"]),
            }
            for line in report["columns"]
        ]
    )
    typer.echo()
    if not filled.num_blocks:
        typer.echo("Nothing is to be done: all of it is read where it lies")
        return
    typer.echo(
        f"{filled.num_there:,} of {filled.num_blocks:,} blocks are in {report['cache']}, "
        f"{filled.num_fetched:,} of them ({console.size(filled.bytes_fetched)}) fetched now"
    )
    if filled.stopped == "budget":
        budget = console.size(report["budget_bytes"])
        typer.echo(
            f"The cache's budget of {budget} holds no more; all takes about "
            f"{console.size(filled.bytes_in_all)} (--budget, or stream with order=blocks)"
        )
    elif filled.stopped == "room":
        typer.echo("The cache has no room for more: its disk is full, or what it holds is in use")
