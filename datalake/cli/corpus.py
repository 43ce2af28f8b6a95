"""`detect` and `quarantine`: what a corpus is, and which of its rows were refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Final

import typer

from datalake import detection
from datalake.cli import console
from datalake.episodes import episode_sets
from datalake.errors import InputError, NotFoundError, nearest
from datalake.quarantine import QUARANTINE_SUFFIX, Reason
from datalake.uri import locate

__all__ = ["detect", "quarantine"]

_SHOWN: Final = ["reason", "path", "utt_id", "detail"]
_SHOWN_OF_EPISODES: Final = [
    "reason", "episode_id", "frame_index", "feature", "origin", "detail"
]  # fmt: skip


def detect(
    session: console.Session,
    path: Annotated[str, typer.Argument(metavar="PATH_OR_URI", help="The corpus.")],
) -> None:
    """Name the format of a corpus and the evidence for it."""
    found = detection.detect(locate(path, session.storage))
    if session.as_json:
        console.print_json([asdict(evidence) for evidence in found])
        return
    if not found:
        raise NotFoundError(
            "No connector recognises this corpus",
            where=path,
            fix="Describe it with a manifest (CSV, TSV, JSONL or Parquet) and ingest that",
        )
    for evidence in found:
        typer.echo(f"{evidence.connector}  {evidence.confidence:.2f}")
        for seen in evidence.found:
            typer.echo(f"  {seen}")


def quarantine(
    session: console.Session,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The table or episode set that was ingested into.")
    ],
    reason: Annotated[
        str | None, typer.Option(metavar="CODE", help="Only rows refused for this reason.")
    ] = None,
    num_rows: Annotated[
        int, typer.Option("--rows", "-n", min=0, help="Print at most so many rows.")
    ] = 20,
) -> None:
    """Say why rows or episodes were refused: a count by reason, then each of them."""
    where = None if reason is None else f"reason = '{_known(reason)}'"
    lake = session.open_lake()
    refused_name = name.removesuffix(QUARANTINE_SUFFIX) + QUARANTINE_SUFFIX
    rows: console.Rows = []
    counted: list[tuple[str, int]] = []
    if refused_name in lake:
        refused = lake[refused_name]
        of_episodes = "episode_id" in refused.schema.names
        shown = _SHOWN_OF_EPISODES if of_episodes else _SHOWN
        reasons = refused.scan(["reason"], where=where).read_all().column("reason")
        rows = refused.scan(shown, where=where, limit=num_rows).read_all()
        counted = Counter(reasons.to_pylist()).most_common()
    else:
        of_episodes = name in episode_sets(lake)
        if not of_episodes:
            # Asking for the table itself tells a table without refusals from a wrong name.
            lake[name]
    if session.as_json:
        console.print_json({"reasons": dict(counted), "rows": rows})
    elif not counted:
        typer.echo(f"No {'episode' if of_episodes else 'row'} of {name} was refused")
    else:
        what = "num_episodes" if of_episodes else "num_rows"
        console.print_table([{"reason": code, what: count} for code, count in counted])
        typer.echo()
        console.print_table(rows)


def _known(reason: str) -> Reason:
    try:
        return Reason(reason)
    except ValueError as error:
        raise InputError(f"There is no reason {reason!r}", fix=nearest(reason, Reason)) from error
