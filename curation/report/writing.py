"""Write a report: the page, its Markdown, the figures, and the tables behind them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as as_csv

from curation.report.analysis import analyse
from curation.report.markdown import markdown
from curation.report.page import page
from curation.report.record import StudyRecord
from curation.report.sections import sections_of
from curation.report.style import png
from curation.report.wording import counted
from curation.study.arms import Measure
from curation.study.comparisons import Unit
from curation.study.intervals import NUM_RESAMPLES
from curation.study.results import PROTOCOL_TITLES
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["write_report"]


def write_report(
    record: StudyRecord,
    folder: Path,
    *,
    title: str | None = None,
    baselines: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    measure: Measure = "pooled",
    over: Unit = "fold",
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> list[Path]:
    """Write what a study found, for a person to read.

    `report.html` stands alone; `report.md` has the same tables, and links to `figures/*.png`;
    `means_<protocol>.csv` and `comparisons_<protocol>.csv` have the numbers unrounded. The same
    record and options give the same bytes.

    Args:
        record: the study.
        folder: made if it is not there; files of the same names are replaced.
        title: of the page; None for one that names the table.
        baselines: what the other methods are compared with; None for those of the design.
        methods: what is compared with them; None for all. Fewer questions need fewer folds.
        measure: what a cell's EER is: `pooled` or `macro`.
        over: the unit of tests and of intervals of differences: `fold` or `seed`.
        level: of the intervals.
        num_resamples: of bootstraps over folds.
        seed: of bootstraps and refits.

    Returns:
        The paths written, the page first.

    Raises:
        InputError, NotFoundError: a baseline or an option cannot be used.
        StoreError: the folder cannot be written.
    """
    analysis = analyse(
        record, baselines=baselines, methods=methods, measure=measure, over=over, level=level,
        num_resamples=num_resamples, seed=seed,
    )  # fmt: skip
    sections = sections_of(analysis)
    table = record.facts.get("design", {}).get("table")
    title = title or (f"Study of {table}" if table else "Study")
    results = record.results
    num_cells = results.group_by(
        ["method", "parameters", "budget_rows", "protocol", "fold", "seed"]
    )
    counts = (
        (num_cells.aggregate([]).num_rows, "training"),
        (len(set(results["method"].to_pylist())), "method"),
        (len(analysis.seeds), "seed"),
    )
    protocols = "; ".join(PROTOCOL_TITLES[each.protocol].lower() for each in analysis.protocols)
    lead = f"{', '.join(counted(*each) for each in counts)}: {protocols}."
    files: dict[str, bytes] = {
        "report.html": page(title, lead, sections).encode(),
        "report.md": markdown(title, lead, sections, "figures").encode(),
    }
    for section in sections:
        for picture in section.pictures:
            files[f"figures/{picture.name}.png"] = png(picture.figure)
    for found in analysis.protocols:
        files[f"means_{found.protocol}.csv"] = _csv(found.means.table)
        if found.comparisons.table.num_rows:
            files[f"comparisons_{found.protocol}.csv"] = _csv(found.comparisons.table)
    paths = []
    with translated(Location(str(folder)), "Writing the report of a study"):
        for name, content in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{target.name}.partial")
            partial.write_bytes(content)
            partial.replace(target)
            paths.append(target)
    return paths


def _csv(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    as_csv.write_csv(table, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content
