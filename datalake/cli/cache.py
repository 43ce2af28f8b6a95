"""`datalake cache`: what the cache of blocks on this machine holds, and making room."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from datalake.blocks.cache import BlockCache, CacheStats
from datalake.cli import console
from datalake.errors import NotFoundError, StoreError, nearest

__all__ = ["app", "clear", "show"]

app = console.new_app("The copies of table data on this machine, which loaders share.")


def show(context: typer.Context, session: console.Session) -> None:
    """Show the cache of this machine: its directory and budget, and what it holds of which table.

    It is in $DATALAKE_CACHE, else in $XDG_CACHE_HOME/datalake or ~/.cache/datalake.
    """
    if context.invoked_subcommand is not None:
        return
    stats = _stats(BlockCache())
    if session.as_json:
        console.print_json(asdict(stats))
        return
    console.print_pairs(
        {
            "directory": stats.directory,
            "budget": console.size(stats.budget_bytes),
            "held": console.size(stats.num_bytes),
            "blocks": stats.num_blocks,
        }
    )
    if stats.tables:
        typer.echo()
        console.print_table(
            [
                {"table": uri, "blocks": share.num_blocks, "size": console.size(share.num_bytes)}
                for uri, share in stats.tables.items()
            ]
        )


app.callback(invoke_without_command=True)(console.with_session(show))


@console.command(app, "clear")
def clear(
    session: console.Session,
    table: Annotated[
        str | None, typer.Option("--table", metavar="URI", help="Only blocks of this table.")
    ] = None,
) -> None:
    """Remove the blocks that no process uses. Loaders fetch again what they need again."""
    cache = BlockCache()
    before = _stats(cache)
    if table is not None and table not in before.tables:
        raise NotFoundError(
            f"The cache holds nothing of {table}",
            where=before.directory,
            fix=nearest(table, before.tables),
        )
    try:
        num_removed, num_in_use = cache.clear(table)
    except OSError as error:
        raise _refused(cache, error) from error
    freed = before.num_bytes - _stats(cache).num_bytes
    if session.as_json:
        console.print_json(
            {"num_removed": num_removed, "num_bytes": freed, "num_in_use": num_in_use}
        )
        return
    kept = f"; {num_in_use} are in use and stay" if num_in_use else ""
    typer.echo(f"{num_removed} blocks ({console.size(freed)}) are removed{kept}")


def _stats(cache: BlockCache) -> CacheStats:
    try:
        return cache.stats()
    except OSError as error:
        raise _refused(cache, error) from error


def _refused(cache: BlockCache, error: OSError) -> StoreError:
    return StoreError(
        "The cache cannot be used",
        where=str(cache.directory),
        expected="a directory on a local disk that this user may write to",
        found=str(error),
        fix="Change its permissions, or set DATALAKE_CACHE to another directory",
    )
