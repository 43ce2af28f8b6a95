"""A scaling law: what it says of each variable, and how well it tells what it was fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from curation.report.style import GRID, INK, MUTED, SERIES, Figure, new_figure, styled
from curation.study.scaling import Fit
from curation.study.scaling_points import Variable

__all__ = ["scaling_figure"]

_NAMES: Final = {
    "num_rows": "utterances trained on",
    "hours": "hours trained on",
    "num_sources": "sources trained on",
    "num_generators": "generators trained on",
}
_REACH: Final = 2.0
"""How far past the largest of the design a curve goes, dashed: a warning more than a forecast."""


def scaling_figure(points: pa.Table, fit: Fit) -> Figure:
    """A panel a variable with the others held in the middle of the design, and one of the fit.

    Points are moved along the law to that middle, so that what scatters is what the law misses.
    """
    kept = points.filter(pa.array(points["eer"].to_numpy() > 0))
    columns = {name: kept[name].to_numpy().astype(float) for name in fit.variables}
    observed = kept["eer"].to_numpy()
    middle = {name: float(np.exp(np.log(values).mean())) for name, values in columns.items()}
    num_points = len(observed)
    fitted = np.array(
        [fit.predict(**{n: float(v[i]) for n, v in columns.items()}).eer for i in range(num_points)]
    )
    with styled():
        num_panels = len(fit.variables) + 1
        figure = new_figure(min(3.4 * num_panels, 11.5), 3.5)
        grid = figure.subplots(1, num_panels, squeeze=False)[0]
        ends = []
        for axes, name in zip(grid, fit.variables, strict=False):
            at_middle = np.array(
                [fit.predict(**{**middle, name: float(value)}).eer for value in columns[name]]
            )
            _curve(axes, fit, name, middle)
            axes.plot(
                columns[name], 100 * observed * at_middle / fitted, linestyle="none", marker="o",
                markersize=4.5, color=INK, alpha=0.5, markeredgewidth=0,
            )  # fmt: skip
            axes.set_xlabel(_NAMES[name])
            axes.set_xscale("log")
            axes.set_yscale("log")
            ends.append(axes.get_ylim())
        # One scale of EERs, so that slopes compare.
        for axes, name in zip(grid, fit.variables, strict=False):
            axes.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
            _round_ticks(axes.yaxis)
            levels = np.unique(columns[name])
            _round_ticks(axes.xaxis, levels if len(levels) <= 6 else None)
            axes.grid(color=GRID)
        grid[0].set_ylabel("EER in %")
        _agreement(grid[-1], observed, fitted)
        title = grid[0].set_title(f"Law {fit.law}:  {_with_powers(fit.formula)}")
        title.set_parse_math(True)
    return figure


def _curve(axes: Any, fit: Fit, name: Variable, middle: Mapping[Variable, float]) -> None:
    low, high = fit.ranges[name]
    for start, stop, style in ((low, high, "-"), (high, high * _REACH, "--")):
        xs = np.geomspace(start, stop, 40)
        predictions = [fit.predict(**{**middle, name: float(x)}) for x in xs]
        values = [100 * prediction.eer for prediction in predictions]
        axes.plot(xs, values, style, color=SERIES[0], linewidth=1.8)
        lows = [prediction.low for prediction in predictions if prediction.low is not None]
        highs = [prediction.high for prediction in predictions if prediction.high is not None]
        if len(lows) == len(xs) and style == "-":
            axes.fill_between(
                xs, 100 * np.array(lows), 100 * np.array(highs), color=SERIES[0], alpha=0.18,
                linewidth=0,
            )  # fmt: skip


def _agreement(axes: Any, observed: Any, fitted: Any) -> None:
    both = 100 * np.concatenate([observed, fitted])
    ends = [both.min() / 1.08, both.max() * 1.08]
    axes.plot(ends, ends, color=MUTED, linewidth=1)
    axes.plot(
        100 * fitted, 100 * observed, linestyle="none", marker="o", markersize=4.5, color=INK,
        alpha=0.5, markeredgewidth=0,
    )  # fmt: skip
    axes.set_xlabel("EER that the law gives, %")
    axes.set_ylabel("EER that was found, %")
    axes.set_title("All points")
    axes.set_xscale("log")
    axes.set_yscale("log")
    _round_ticks(axes.xaxis)
    _round_ticks(axes.yaxis)
    axes.grid(color=GRID)


def _round_ticks(axis: Any, levels: Any = None) -> None:
    """Ticks of a log axis written out: at the levels given, or else at round numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    ratio = high / low
    subs = (1,) if ratio > 300 else (1, 2, 5) if ratio > 4 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8)
    axis.set_major_locator(LogLocator(subs=subs) if levels is None else FixedLocator(levels))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 100 else f"{value:.3g}")
    )
    axis.set_minor_locator(NullLocator())


def _with_powers(formula: str) -> str:
    """The formula in mathematical type: exponents raised."""
    terms = []
    for word in formula.split():
        base, caret, power = word.partition("^")
        terms.append(f"{base}^{{{power}}}" if caret else "E_0" if word == "E0" else word)
    return "$" + r"\,".join(terms).replace(r"\,+\,", " + ").replace(r"\,=\,", " = ") + "$"
