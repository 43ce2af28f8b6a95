"""The command `curate`, which is also `datalake curate`."""

from __future__ import annotations

import logging
from typing import NoReturn

from curation import cli_audit
from curation.cli_dedup import dedup
from curation.cli_drop import drop
from curation.cli_embed import embed
from curation.cli_measure import measure
from curation.cli_probe import probe
from curation.cli_score import score
from curation.cli_select import select
from curation.cli_split import split
from curation.cli_weigh import weigh
from datalake.cli import console

__all__ = ["app", "main"]

app = console.new_app("Choose what to train on, and judge the choice.")
console.command(app)(score)
console.command(app)(select)
console.command(app)(weigh)
console.command(app)(probe)
console.command(app)(measure)
console.command(app)(embed)
console.command(app)(drop)
console.command(app)(dedup)
console.command(app)(split)
app.add_typer(cli_audit.app, name="audit")


@app.callback()
def _curate() -> None:
    """Choose what to train on, and judge the choice."""
    logging.basicConfig(format="%(levelname)s: %(message)s")


def main() -> NoReturn:
    """Run the command line of this process."""
    console.run(app, "curate")
