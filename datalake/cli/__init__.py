"""The command `datalake`."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line of this process."""
    try:
        from datalake.cli import console
        from datalake.cli.app import app
    except KeyboardInterrupt:
        sys.exit(130)

    console.run(app, "datalake")
