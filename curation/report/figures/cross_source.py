"""The cross-source matrix as a heat map that can be read without its colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from curation.report.figures.heat_map import draw_heat_map, ink_on
from curation.report.style import Figure, new_figure, styled
from curation.report.wording import budget_text
from curation.study.cross_source import CrossMatrix

__all__ = ["cross_source_figure"]


def cross_source_figure(matrices: Sequence[CrossMatrix]) -> Figure:
    """A panel an arm, rows trained on, columns tested on, one colour scale; the number in each.

    The diagonal, where training and test are of one source, is framed where there is a value.
    """
    num_columns = min(len(matrices), 2)
    num_lines = math.ceil(len(matrices) / num_columns)
    num_trained = max(len(matrix.trained_on) for matrix in matrices)
    num_tested = max(len(matrix.tested_on) for matrix in matrices)
    width = num_columns * (1.6 + 0.62 * num_tested) + 1
    top = float(np.nanmax([np.nanmax(matrix.eers) for matrix in matrices]))
    with styled():
        figure = new_figure(max(width, 4.6), num_lines * (0.9 + 0.42 * num_trained) + 1.2)
        sources = {(matrix.trained_on, matrix.tested_on) for matrix in matrices}
        # Names once for all panels, if they are the same.
        share: Literal["all", "none"] = "all" if len(sources) == 1 else "none"
        grid = figure.subplots(num_lines, num_columns, squeeze=False, sharex=share, sharey=share)
        images = [
            _draw(axes, matrix, max(top, 0.01))
            for axes, matrix in zip(grid.flat, matrices, strict=False)
        ]
        for axes in grid.flat[len(matrices) :]:
            axes.set_visible(False)
        figure.supxlabel("tested on", fontsize=9.5)
        figure.supylabel("trained on", fontsize=9.5)
        bar = figure.colorbar(images[0], ax=grid, shrink=0.8, aspect=18 * num_lines, pad=0.02)
        bar.set_label("EER in %")
        bar.outline.set_visible(False)
    return figure


def _draw(axes: Any, matrix: CrossMatrix, top: float) -> Any:
    values = 100 * matrix.eers
    image = draw_heat_map(axes, values, matrix.trained_on, matrix.tested_on, 100 * top)
    for row, trained in enumerate(matrix.trained_on):
        for column, tested in enumerate(matrix.tested_on):
            value = values[row, column]
            color = ink_on(value, 100 * top)
            axes.text(
                column, row, "–" if np.isnan(value) else f"{value:.1f}", ha="center", va="center",
                color=color, fontsize=9, fontweight="bold" if trained == tested else "normal",
            )  # fmt: skip
            if trained == tested and not np.isnan(value):
                axes.add_patch(_frame(column - 0.46, row - 0.43, color))
    axes.set_title(f"{matrix.arm}, {budget_text(matrix.budget_rows)}")
    return image


def _frame(x: float, y: float, color: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), 0.92, 0.86, fill=False, edgecolor=color, linewidth=1.4)
