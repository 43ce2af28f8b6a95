"""Run a study: every cell of its grid that is not known yet, wherever the executor works."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from curation.study.cells import Cell, CellOutcome, CellStore, cells_of
from curation.study.design import StudyDesign
from curation.study.folds import FoldName, Folds, folds_of
from curation.study.job import CellJob, detector_design, read_side_keys
from curation.study.results import MIXTURES, RESULTS, check_results
from datalake.lake import Lake, Lineage
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.run import ProgressSink
from datalake.tables.failures import translated
from datalake.uri import Location

__all__ = ["StudyPlan", "StudyRun", "plan_study", "run_study"]


@dataclass(frozen=True)
class StudyPlan:
    """What a study will do."""

    design: StudyDesign
    table_version: int
    table_run: str
    """The run that made that version; empty where it is not on record."""
    folds: tuple[dict[str, object], ...]
    """Facts of each fold (`Fold.facts`)."""
    skipped: tuple[tuple[FoldName, str], ...]
    """Folds that cannot be made, with the reason."""
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class StudyRun:
    """What a study came to."""

    plan: StudyPlan
    results: pa.Table
    """`RESULTS`, of the cells that did not fail."""
    mixtures: pa.Table
    """`MIXTURES`, of the same."""
    failures: tuple[tuple[Cell, str], ...]
    """Cells that failed in this run, with the reason."""
    num_kept: int
    """Cells that were known already."""
    remarks: tuple[str, ...]
    """What a person should know: of methods that did not do what their options suggest."""
    folder: Path


def plan_study(lake: Lake, design: StudyDesign) -> StudyPlan:
    """Find the folds and the cells. Reads the keys of the table: some 300 bytes of memory a row.

    Raises:
        NotFoundError: the table, the detector, or what a fold is to hold out is not there.
        SchemaError: the table lacks a key column.
        InputError: a protocol has no fold that can be made, or the design cannot be used.
    """
    detector_design(design)
    table = lake[design.table]
    keys = read_side_keys(table, design.where)
    found: list[Folds] = [folds_of(keys, plan) for plan in design.protocols]
    names = [fold.name for folds in found for fold in folds.made]
    return StudyPlan(
        design=design,
        table_version=table.version,
        table_run=next(
            (e.run_id for e in lake.log(design.table) if e.version == table.version), ""
        ),
        folds=tuple(fold.facts(keys) for folds in found for fold in folds.made),
        skipped=tuple((each.name, each.reason) for folds in found for each in folds.skipped),
        cells=tuple(cells_of(design, names)),
    )


def run_study(
    lake: Lake,
    design: StudyDesign,
    folder: Path,
    *,
    executor: Executor | None = None,
    progress: ProgressSink | None = None,
    on_failure: Callable[[Cell, str], None] | None = None,
) -> StudyRun:
    """Train and test all cells that the folder does not have, and gather what all came to.

    A cell that fails is recorded with its reason and tried again by the next run; the others go on.
    A run that was killed loses the cells it was at. Results depend on the design, the table's
    version and the toolkit's, not on the executor, the number of workers, or how often the run was
    interrupted.

    Writes `cells/`, `failed/`, `study.json`, `results.parquet` and `mixtures.parquet`.

    Args:
        lake: where the table is; workers must reach it.
        design: the study.
        folder: what it writes to.
        executor: where cells are worked; None for this process.
        progress: is told how many cells are done.
        on_failure: called for each cell that fails.

    Raises:
        LakeError: see `plan_study`; or the folder cannot be written.
    """
    plan = plan_study(lake, design)
    store = CellStore(folder, design, plan.table_version, plan.table_run)
    lineage = Lineage("study", config=design.as_dict(), inputs={design.table: plan.table_version})
    _write_plan(folder, plan, lineage)
    outcomes: dict[int, CellOutcome] = {}
    for index, cell in enumerate(plan.cells):
        known = store.read(cell)
        if known is not None:
            outcomes[index] = replace(known, index=index)
    num_kept = len(outcomes)
    missing = [index for index in range(len(plan.cells)) if index not in outcomes]
    if missing:
        job = CellJob(
            str(lake.location), design, plan.table_version,
            tuple(plan.cells[index] for index in missing),
        )  # fmt: skip
        if progress is not None:
            progress.update(0, total=len(missing), unit="cells")
        # Closing ends what workers are still at when this run is interrupted.
        with (
            executor or LocalExecutor() as running,
            closing(running.run(job, len(missing))) as done,
        ):
            for count, outcome in enumerate(done, start=1):
                index = missing[outcome.index]
                cell = plan.cells[index]
                store.write(cell, outcome)
                outcomes[index] = replace(outcome, index=index)
                if outcome.failure and on_failure is not None:
                    on_failure(cell, outcome.failure)
                if progress is not None:
                    progress.update(count, note=cell.method.name)
    ordered = [outcomes[index] for index in sorted(outcomes)]
    run = StudyRun(
        plan=plan,
        results=check_results(_table([row for each in ordered for row in each.results], RESULTS)),
        mixtures=_table([row for each in ordered for row in each.mixture], MIXTURES),
        failures=tuple((plan.cells[each.index], each.failure) for each in ordered if each.failure),
        num_kept=num_kept,
        remarks=tuple(_remarks(plan.cells, ordered)),
        folder=folder,
    )
    for name, table in (("results", run.results), ("mixtures", run.mixtures)):
        _write(folder / f"{name}.parquet", table)
    return run


def _table(rows: Sequence[Any], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


def _remarks(cells: Sequence[Cell], outcomes: Sequence[CellOutcome]) -> list[str]:
    """Remarks on the choices by method and budget: how often, and the first of them."""
    counts: Counter[tuple[str, int | None]] = Counter()
    first: dict[tuple[str, int | None], str] = {}
    versions = set()
    for outcome in outcomes:
        cell = cells[outcome.index]
        place = (cell.method.name, cell.budget_rows)
        for remark in outcome.record.get("remarks", ()):
            counts[place] += 1
            first.setdefault(place, remark)
        if "code_version" in outcome.record:
            versions.add(outcome.record["code_version"])
    remarks = []
    for (name, budget), text in first.items():
        rows = "all rows" if budget is None else f"{budget:,} rows"
        remarks.append(f"{name}, {rows}, in {counts[name, budget]:,} cells: {text}")
    if len(versions) > 1:
        remarks.append(
            f"The cells were trained by {len(versions)} commits of the toolkit: "
            f"{', '.join(sorted(versions))}. Remove the folder cells/ to train all by one."
        )
    return remarks


def _write_plan(folder: Path, plan: StudyPlan, lineage: Lineage) -> None:
    facts = {
        "lineage": lineage.properties(),
        "table_version": plan.table_version,
        "num_cells": len(plan.cells),
        "folds": list(plan.folds),
        "skipped_folds": [
            {"protocol": name.protocol, "fold": name.fold, "reason": reason}
            for name, reason in plan.skipped
        ],
        "design": plan.design.as_dict(),
    }
    target = folder / "study.json"
    with translated(Location(str(target)), "Writing the plan of a study"):
        partial = target.with_name(".study.json.partial")
        partial.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        partial.replace(target)


def _write(target: Path, table: pa.Table) -> None:
    with translated(Location(str(target)), "Writing the results of a study"):
        partial = target.with_name(f".{target.name}.partial")
        pq.write_table(table, partial)
        partial.replace(target)
