"""The tables of a report, as headings and lines of text: the page and Markdown show the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from curation.report.analysis import Analysis, ArmMixture, MethodScaling, ProtocolFindings
from curation.report.wording import as_percent, as_points, budget_text, counted
from curation.study.results import PROTOCOL_TITLES

__all__ = [
    "TextTable",
    "bindings_table",
    "comparisons_table",
    "design_table",
    "laws_table",
    "means_table",
]


@dataclass(frozen=True)
class TextTable:
    """Headings and lines, all text; the first `num_names` columns are names, the rest numbers."""

    headings: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    num_names: int = 1


def means_table(found: ProtocolFindings, level: float) -> TextTable:
    """Mean EER by method and budget."""
    headings = (
        "method", "budget", "EER", f"{level:.0%} over folds", "bootstrap", "sd over seeds",
        "worst fold", "folds × seeds", "rows used", "N_eff",
    )  # fmt: skip
    lines = [
        (
            row["arm"],
            budget_text(row["budget_rows"]),
            as_percent(row["eer"]),
            _interval(row["eer_low"], row["eer_high"]),
            _interval(row["bootstrap_low"], row["bootstrap_high"]),
            as_points(row["seed_sd"]),
            f"{row['worst_fold']}: {as_percent(row['worst_eer'], 1)}",
            f"{row['num_folds']} × {row['num_seeds']}",
            f"{row['num_rows_used']:,.0f}",
            f"{row['n_eff']:.1f}",
        )
        for row in sorted(
            found.means.table.to_pylist(),
            key=lambda row: (row["budget_rows"] is None, row["budget_rows"] or 0, row["eer"]),
        )
    ]
    return TextTable(headings, tuple(lines), num_names=2)


def comparisons_table(found: ProtocolFindings, level: float, unit: str) -> TextTable:
    """Paired differences to the baselines."""
    headings = (
        "method", "budget", "against", "difference", f"{level:.0%} over {unit}s", "bootstrap",
        "relative", f"{unit}s won", "p", "p (Holm)", "smallest p",
    )  # fmt: skip
    lines = [
        (
            row["arm"],
            budget_text(row["budget_rows"]),
            row["baseline"],
            as_points(row["difference"], signed=True),
            _interval(row["difference_low"], row["difference_high"], signed=True),
            _interval(row["bootstrap_low"], row["bootstrap_high"], signed=True),
            "–" if row["relative"] is None else f"{100 * row['relative']:+.1f} %",
            f"{row['num_better']} of {row['num_units']}",
            f"{row['p_value']:.3g}" + ("" if row["exact"] else " (drawn)"),
            f"{row['p_holm']:.3g}",
            f"{row['smallest_p']:.3g}",
        )
        for row in found.comparisons.table.to_pylist()
    ]
    return TextTable(headings, tuple(lines), num_names=3)


def laws_table(found: MethodScaling) -> TextTable:
    """The laws of a method, the best by leave-one-out first, and those refused."""
    lines: list[tuple[str, ...]] = []
    if found.scaling is not None:
        for fit in found.scaling.fits:
            numbers = []
            for name, value in fit.parameters.items():
                low, high = fit.intervals.get(name, (None, None))
                within = "" if low is None else f" ({low:.3g} to {high:.3g})"
                numbers.append(f"{name} = {value:.3g}{within}")
            lines.append(
                (
                    fit.law, fit.formula, "; ".join(numbers), f"{100 * fit.fit_error:.1f} %",
                    f"{100 * fit.loo_error:.1f} %",
                )
            )  # fmt: skip
        lines += [
            (law, f"not fitted: {reason}", "", "–", "–")
            for law, reason in found.scaling.refused.items()
        ]
    headings = ("law", "formula", "parameters (interval)", "error of fit", "leave-one-out error")
    return TextTable(headings, tuple(lines), num_names=3)


def bindings_table(mixtures: tuple[ArmMixture, ...]) -> TextTable:
    """What each arm keeps, and the domains that its limits bind."""
    lines = []
    for mixture in mixtures:
        bound = [share for share in mixture.domains if share.binds > 0.5]
        names = ", ".join(share.domain for share in bound[:6])
        more = f", and {len(bound) - 6} more" if len(bound) > 6 else ""
        lines.append(
            (
                mixture.arm,
                budget_text(mixture.budget_rows),
                f"{len(bound)} of {len(mixture.domains)}: {names}{more}" if bound else "none",
                f"{mixture.n_eff:.1f}",
                f"{mixture.num_rows:,.0f}",
            )
        )
    headings = ("method", "budget", "domains that a limit binds", "N_eff", "rows used")
    return TextTable(headings, tuple(lines), num_names=3)


def design_table(analysis: Analysis) -> TextTable:
    """What was run: the data and their version, methods, folds, seeds, training, lineage."""
    facts = analysis.record.facts
    design: Mapping[str, Any] = facts.get("design", {})
    lines: list[tuple[str, str]] = []
    if design.get("table"):
        version = facts.get("table_version")
        lines.append(("table", f"{design['table']}" + (f", version {version}" if version else "")))
    if design.get("where"):
        lines.append(("rows", str(design["where"])))
    if design.get("detector"):
        reads = f" on {design['embedding']}" if design.get("embedding") else ""
        lines.append(("detector", f"{design['detector']}{reads}"))
    for found in analysis.protocols:
        folds = sorted({fold for means in found.fold_means.values() for fold in means})
        shown = ", ".join(folds[:12]) + (", …" if len(folds) > 12 else "")
        lines.append(
            (PROTOCOL_TITLES[found.protocol].lower(), f"{counted(len(folds), 'fold')}: {shown}")
        )
    seeds = analysis.seeds
    lines.append(("seeds", f"{len(seeds)}: {', '.join(map(str, seeds[:20]))}"))
    lines.append(("baselines", ", ".join(analysis.baselines) or "none"))
    methods = {
        (row["arm"], row["parameters"])
        for found in analysis.protocols
        for row in found.means.table.to_pylist()
    }
    lines += [(f"method {arm}", _plain(json.loads(text))) for arm, text in sorted(methods)]
    if design.get("training"):
        lines.append(("training", _plain(design["training"])))
    lines += [
        (name.removeprefix("datalake."), str(value))
        for name, value in facts.get("lineage", {}).items()
        if name != "datalake.config"  # The design, which stands above.
    ]
    measure = {
        "pooled": "over all trials of a fold's test",
        "macro": "mean over the spoof domains of a fold's test",
    }[analysis.measure]
    lines.append(("EER of a cell", measure))
    return TextTable(("what", "value"), tuple(lines), num_names=2)


def _plain(values: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
    return shown or "no parameters"


def _interval(low: float | None, high: float | None, *, signed: bool = False) -> str:
    if low is None or high is None:
        return "–"
    sign = "+" if signed else ""
    return f"{100 * low:{sign}.2f} to {100 * high:{sign}.2f}"
