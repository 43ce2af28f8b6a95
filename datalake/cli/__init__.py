"""The command `datalake`."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line of this process."""
    from datalake.cli import console
    from datalake.cli.app import app

    console.run(app, "datalake")
