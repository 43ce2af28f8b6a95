"""The command `curate`, which is also `datalake curate`."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line of this process."""
    from curation.cli.app import app
    from datalake.cli import console

    console.run(app, "curate")
