"""All commands of `curate`."""

from __future__ import annotations

import logging

from curation.cli import audit
from curation.cli.dedup import dedup
from curation.cli.drop import drop
from curation.cli.embed import embed
from curation.cli.explain import explain
from curation.cli.mask import mask
from curation.cli.measure import measure
from curation.cli.probe import probe
from curation.cli.proxy import proxy
from curation.cli.score import score
from curation.cli.select import select
from curation.cli.split import split
from curation.cli.study import study
from curation.cli.weigh import weigh
from datalake.cli import console

__all__ = ["app"]

app = console.new_app("Choose what to train on, and judge the choice.")
console.command(app)(score)
console.command(app)(select)
console.command(app)(weigh)
console.command(app)(explain)
console.command(app)(probe)
console.command(app)(proxy)
console.command(app)(measure)
console.command(app)(mask)
console.command(app)(embed)
console.command(app)(drop)
console.command(app)(dedup)
console.command(app)(split)
console.command(app)(study)
app.add_typer(audit.app, name="audit")


@app.callback()
def _curate() -> None:
    """Choose what to train on, and judge the choice."""
    logging.basicConfig(format="%(levelname)s: %(message)s")
