"""The options of commands that work in units: where, on how many workers, and how quietly."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from datalake.pipelines.settings import ExecutorName

__all__ = ["ExecutorOption", "QuietOption", "RayAddressOption", "WorkersOption"]

ExecutorOption: TypeAlias = Annotated[
    ExecutorName,
    typer.Option(help="Work on Ray, in this process, or where it suits the amount of work."),
]
WorkersOption: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="How many tasks Ray runs at once.")
]
RayAddressOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="A Ray cluster that is up.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", help="No progress.")]
