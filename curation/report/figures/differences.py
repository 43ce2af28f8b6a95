"""Paired differences to each baseline, with intervals and corrected p-values."""

from __future__ import annotations

from typing import Any, Final

from curation.report.analysis import ProtocolFindings
from curation.report.style import (
    BETTER,
    GRID,
    INK,
    MUTED,
    WORSE,
    Figure,
    new_figure,
    styled,
)
from curation.report.wording import budget_text

__all__ = ["differences_figure"]

_AT_WINS: Final = 1.045
_AT_P: Final = 1.125
"""Columns of numbers right of the axes, in widths of those."""


def differences_figure(found: ProtocolFindings, level: float, unit: str) -> Figure:
    """A panel a baseline, a line a method and budget; left of the zero line the method is better.

    An interval that holds 0 is drawn grey: colour is for what the interval shows.
    """
    rows = found.comparisons.table.to_pylist()
    baselines = list(dict.fromkeys(row["baseline"] for row in rows))
    panels = [[row for row in rows if row["baseline"] == name][::-1] for name in baselines]
    heights = [len(panel) + 0.9 for panel in panels]
    with styled():
        figure = new_figure(7.4, 0.85 + 0.29 * sum(heights) + 0.2 * len(panels))
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)
        for axes, name, panel in zip(grid[:, 0], baselines, panels, strict=True):
            _draw(axes, panel)
            axes.set_title(f"Against {name}")
        for at, text in ((_AT_WINS, f"{unit}s\nwon"), (_AT_P, "p\n(Holm)")):
            grid[0, 0].annotate(
                text, (at, 1.0), xycoords="axes fraction", va="bottom", ha="center", fontsize=8.5,
                color=MUTED,
            )  # fmt: skip
        grid[-1, 0].set_xlabel("Difference of EER in percentage points (below 0: lower EER)")
        note = f"one {unit}: no interval"
        if any(row["num_units"] > 1 for row in rows):
            note = f"line: {level:.0%} t interval over {unit}s, not corrected; grey: it holds 0"
        figure.supxlabel(note, fontsize=8.5, color=MUTED, x=0.99, ha="right")
    return figure


def _draw(axes: Any, panel: list[dict[str, Any]]) -> None:
    several_budgets = len({row["budget_rows"] for row in panel}) > 1
    axes.axvline(0, color=INK, linewidth=0.9)
    for place, row in enumerate(panel):
        low, high = row["difference_low"], row["difference_high"]
        shown = low is not None and (low > 0 or high < 0)
        color = MUTED if not shown else BETTER if high < 0 else WORSE
        if low is not None:
            axes.plot(
                [100 * low, 100 * high], [place, place], color=color, linewidth=2.2,
                solid_capstyle="round",
            )  # fmt: skip
        axes.plot(
            100 * row["difference"], place, marker="o", markersize=7, color=color,
            markeredgecolor="white", markeredgewidth=1.1, zorder=4,
        )  # fmt: skip
        for at, text in (
            (_AT_WINS, f"{row['num_better']}/{row['num_units']}"),
            (_AT_P, f"{row['p_holm']:.3g}"),
        ):
            axes.annotate(
                text, (at, place), xycoords=("axes fraction", "data"), va="center", ha="center",
                fontsize=9,
            )  # fmt: skip
    names = [
        f"{row['arm']}, {budget_text(row['budget_rows'])}" if several_budgets else row["arm"]
        for row in panel
    ]
    axes.set_yticks(range(len(panel)), names)
    axes.set_ylim(-0.6, len(panel) - 0.4)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=GRID)
