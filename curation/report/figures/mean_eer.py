"""Mean EER by method and budget: dots with intervals, over the folds they are means of."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from curation.report.analysis import ProtocolFindings
from curation.report.style import GRID, INK, MUTED, SERIES, Figure, new_figure, styled
from curation.report.wording import budget_text

__all__ = ["mean_eer_figure"]

_CHANCE: Final = 50.0
"""What a coin reaches, in %: marked where it is in sight."""


def mean_eer_figure(found: ProtocolFindings, baselines: Collection[str], level: float) -> Figure:
    """A panel a budget, a line a method, the best on top; baselines in grey.

    Dots and not bars: names stay readable, and the scale need not start at 0.
    """
    rows = found.means.table.to_pylist()
    budgets = sorted({row["budget_rows"] for row in rows}, key=lambda b: (b is None, b or 0))
    panels = [
        sorted((row for row in rows if row["budget_rows"] == budget), key=lambda row: -row["eer"])
        for budget in budgets
    ]
    heights = [len(panel) + 0.9 for panel in panels]
    with styled():
        figure = new_figure(7.4, 0.85 + 0.29 * sum(heights) + 0.2 * len(panels))
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, budget, panel in zip(grid[:, 0], budgets, panels, strict=True):
            _draw(axes, panel, found, baselines)
            axes.set_title("All rows" if budget is None else f"At most {budget_text(budget)}")
        last = grid[-1, 0]
        low, high = last.get_xlim()
        last.set_xlim(max(low, 0), high)
        last.set_xlabel("EER in %, lower is better")
        several = any(row["num_folds"] > 1 for row in rows)
        note = "dot: mean over folds and seeds" if several else "dot: mean over seeds of one fold"
        if several:
            note += f"   line: {level:.0%} t interval over folds   ticks: single folds"
        figure.supxlabel(note, fontsize=8.5, color=MUTED, x=0.99, ha="right")
    return figure


def _draw(
    axes: Any, panel: list[dict[str, Any]], found: ProtocolFindings, baselines: Collection[str]
) -> None:
    for place, row in enumerate(panel):
        is_baseline = row["arm"] in baselines or row["method"] in baselines
        color = MUTED if is_baseline else SERIES[0]
        folds = found.fold_means[row["arm"], row["budget_rows"]].values()
        if row["eer_low"] is not None:
            ends = [100 * row["eer_low"], 100 * row["eer_high"]]
            axes.plot(ends, [place, place], color=color, linewidth=2.2, solid_capstyle="round")
            axes.plot(
                [100 * fold for fold in folds], [place] * len(folds), linestyle="none",
                marker="|", markersize=8, color=INK, alpha=0.45, markeredgewidth=0.9,
            )  # fmt: skip
        axes.plot(
            100 * row["eer"], place, marker="o", markersize=7, color=color,
            markeredgecolor="white", markeredgewidth=1.1, zorder=4,
        )  # fmt: skip
        axes.annotate(
            f"{100 * row['eer']:.2f}", (1.01, place), xycoords=("axes fraction", "data"),
            va="center", fontsize=9, color=color if is_baseline else INK,
        )  # fmt: skip
    if axes.get_xlim()[1] > _CHANCE:
        axes.axvline(_CHANCE, color=MUTED, linewidth=0.9, linestyle=":")
    axes.set_yticks(range(len(panel)), [row["arm"] for row in panel])
    axes.set_ylim(-0.6, len(panel) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID)
