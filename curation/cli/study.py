"""`curate study`: train over a grid of methods, budgets, folds and seeds, and say who wins."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from datalake.cli import console
from datalake.cli.execution import ExecutorOption, QuietOption, RayAddressOption, WorkersOption
from datalake.errors import MissingPackageError, StoppedError
from datalake.pipelines.choice import decided, named_executor

if TYPE_CHECKING:
    from curation.study.run import StudyPlan, StudyRun

__all__ = ["study"]

# The report's words; it cannot be imported without the package for figures.
_TITLES: Final = {
    "logo": "Leave one generator out",
    "loso": "Leave one source out",
    "cross": "Train on one source, test on the others",
}


def study(
    session: console.Session,
    design: Annotated[
        Path, typer.Argument(metavar="DESIGN.yaml", help="What to compare, and how.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where results are kept.  [default: DESIGN.study beside the file]"
        ),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the folds and count the cells.")
    ] = False,
    executor: ExecutorOption = "auto",
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    quiet: QuietOption = False,
) -> None:
    """Compare ways to choose training data: leave-one-generator-out, leave-one-source-out, or
    source against source.

    A cell is a method, a budget, a fold and a seed: rows are chosen on the training side alone, a
    detector is trained on them and judged on what it has not heard. Each cell's result is written
    once: a study that was killed goes on where it stopped. A cell that fails is recorded with its
    reason, and the exit code is 1.
    """
    from curation.study.design import read_design
    from curation.study.run import plan_study, run_study

    asked = read_design(design)
    lake = session.open_lake()
    if plan:
        _show_plan(plan_study(lake, asked), session.as_json)
        return
    folder = out if out is not None else design.with_suffix(".study")
    with ExitStack() as stack:
        progress = None if quiet else stack.enter_context(console.Progress("study", unit="cells"))
        choice = named_executor(executor, workers, address=ray_address, debug=session.debug)
        run = run_study(
            lake,
            asked,
            folder,
            # Cells are small: a cluster has to be asked for, or be up already.
            executor=decided(choice, 0),
            progress=progress,
            on_failure=lambda cell, reason: typer.echo(f"failed: {cell}: {reason}", err=True),
        )
    report = _report(run) if run.results.num_rows else None
    if session.as_json:
        console.print_json({**_facts(run), "report": None if report is None else str(report)})
    else:
        _print(run)
        if report is not None:
            typer.echo(report)
    if run.failures:
        cell, reason = run.failures[0]
        raise StoppedError(
            f"{len(run.failures):,} of {len(run.plan.cells):,} cells failed",
            where=str(cell),
            found=reason,
            fix=f"All reasons are in {folder / 'failed'}; run the study again to try them again",
        )


def _report(run: StudyRun) -> Path | None:
    """Write the report; its page. None where the package for figures is missing."""
    try:
        from curation.report import StudyRecord, write_report
    except MissingPackageError as error:
        typer.echo(f"note: {error}", err=True)
        return None
    record = StudyRecord.read(
        run.folder,
        remarks=run.remarks,
        failures=tuple(f"{cell}: {reason}" for cell, reason in run.failures),
    )
    page, *_ = write_report(record, run.folder / "report", baselines=_baselines(run))
    return page


def _show_plan(plan: StudyPlan, as_json: bool) -> None:
    skipped = [
        {"protocol": name.protocol, "fold": name.fold, "reason": reason}
        for name, reason in plan.skipped
    ]
    if as_json:
        console.print_json(
            {"folds": list(plan.folds), "skipped_folds": skipped, "num_cells": len(plan.cells)}
        )
        return
    console.print_table([dict(each) for each in plan.folds])
    for each in skipped:
        typer.echo(f"left out: {each['protocol']} {each['fold']}: {each['reason']}")
    typer.echo(f"\n{len(plan.cells):,} cells")


def _facts(run: StudyRun) -> dict[str, Any]:
    return {
        "folder": str(run.folder),
        "num_cells": len(run.plan.cells),
        "num_kept": run.num_kept,
        "failures": [{**cell.columns, "reason": reason} for cell, reason in run.failures],
        "skipped_folds": [
            {"protocol": name.protocol, "fold": name.fold, "reason": reason}
            for name, reason in run.plan.skipped
        ],
        "remarks": list(run.remarks),
        "protocols": {
            protocol: {
                "means": means.table,
                "comparisons": compared.table,
                "remarks": [*means.remarks, *compared.remarks],
            }
            for protocol, (means, compared) in _found(run).items()
        },
    }


def _found(run: StudyRun) -> dict[str, tuple[Any, Any]]:
    """Means and comparisons by protocol, of those that have results."""
    from curation.study.comparisons import compare
    from curation.study.statistics import mean_eers

    known: dict[str, set[str]] = {}
    for line in run.results.select(["protocol", "method"]).to_pylist():
        known.setdefault(line["protocol"], set()).add(line["method"])
    design = run.plan.design
    return {
        plan.protocol: (
            mean_eers(run.results, plan.protocol),
            compare(
                run.results,
                plan.protocol,
                _baselines(run),
                methods=[name for name in design.compared if name in known[plan.protocol]],
            ),
        )
        for plan in design.protocols
        if plan.protocol in known
    }


def _baselines(run: StudyRun) -> list[str]:
    """The baselines of which a cell did not fail, under each protocol."""
    lines = run.results.select(["protocol", "method"]).to_pylist()
    known = {(line["protocol"], line["method"]) for line in lines}
    protocols = {protocol for protocol, _ in known}
    return [
        name
        for name in run.plan.design.baselines
        if all((protocol, name) in known for protocol in protocols)
    ]


def _print(run: StudyRun) -> None:
    for protocol, (means, compared) in _found(run).items():
        typer.echo(f"{_TITLES[protocol]}\n")
        console.print_table([_mean_line(row) for row in means.table.to_pylist()])
        if compared.table.num_rows:
            typer.echo()
            console.print_table([_pair_line(row) for row in compared.table.to_pylist()])
        for remark in dict.fromkeys((*means.remarks, *compared.remarks)):
            typer.echo(f"note: {remark}")
        typer.echo()
    for name, reason in run.plan.skipped:
        typer.echo(f"left out: {name}: {reason}")
    for remark in run.remarks:
        typer.echo(f"note: {remark}")
    typer.echo(
        f"{len(run.plan.cells):,} cells, {run.num_kept:,} of them known before; {run.folder}"
    )


def _mean_line(row: dict[str, Any]) -> dict[str, object]:
    return {
        "method": row["arm"],
        "budget": "all" if row["budget_rows"] is None else row["budget_rows"],
        "rows used": round(row["num_rows_used"]),
        "N_eff": f"{row['n_eff']:.1f}",
        "folds": row["num_folds"],
        "seeds": row["num_seeds"],
        "EER %": _percent(row["eer"]),
        "95 % interval": _interval(row["eer_low"], row["eer_high"]),
        "sd over seeds": _percent(row["seed_sd"]),
        "worst fold": f"{row['worst_fold']} {_percent(row['worst_eer'])}",
    }


def _pair_line(row: dict[str, Any]) -> dict[str, object]:
    return {
        "method": row["arm"],
        "against": row["baseline"],
        "budget": "all" if row["budget_rows"] is None else row["budget_rows"],
        "difference": f"{100 * row['difference']:+.2f}",
        "95 % interval": _interval(row["difference_low"], row["difference_high"], signed=True),
        "better in": f"{row['num_better']}/{row['num_units']}",
        "p": f"{row['p_value']:.3f}",
        "p (Holm)": f"{row['p_holm']:.3f}",
    }


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def _interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    if low is None or high is None:
        return ""
    sign = "+" if signed else ""
    return f"{100 * low:{sign}.2f} – {100 * high:{sign}.2f}"
