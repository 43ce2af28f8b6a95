"""How many domains a method's training set is worth."""

from __future__ import annotations

from collections.abc import Sequence

from curation.report.analysis import ArmMixture
from curation.report.style import GRID, INK, MUTED, SERIES, Figure, new_figure, styled
from curation.report.wording import budget_text

__all__ = ["diversity_figure"]


def diversity_figure(mixtures: Sequence[ArmMixture]) -> Figure:
    """The effective number of domains of each arm, beside the rows that it keeps."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ordered = sorted(mixtures, key=lambda mixture: mixture.n_eff)
    places = range(len(ordered))
    with styled():
        figure = new_figure(7.4, 1.0 + 0.29 * len(ordered))
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
        for axes, values in (
            (left, [mixture.n_eff for mixture in ordered]),
            (right, [mixture.num_rows for mixture in ordered]),
        ):
            axes.hlines(places, 0, values, color=GRID, linewidth=2.5)
            axes.plot(
                values, places, linestyle="none", marker="o", markersize=7, color=SERIES[0],
                markeredgecolor="white", markeredgewidth=1.1,
            )  # fmt: skip
            for place, value in zip(places, values, strict=True):
                text = f"{value:.1f}" if axes is left else f"{value:,.0f}"
                axes.annotate(
                    text, (value, place), xytext=(8, 0), textcoords="offset points", va="center",
                    fontsize=9, color=INK,
                )  # fmt: skip
            axes.set_xlim(0, 1.2 * max(*values, 1e-9))
            axes.spines["left"].set_visible(False)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
            axes.tick_params(axis="y", length=0)
        num_domains = max((len(mixture.domains) for mixture in ordered), default=0)
        if num_domains and num_domains <= left.get_xlim()[1] * 1.5:
            left.axvline(num_domains, color=MUTED, linewidth=1, linestyle=":")
            left.set_xlim(0, max(left.get_xlim()[1], num_domains * 1.1))
            left.annotate(
                f"all {num_domains} equal ", (num_domains, len(ordered) - 0.45), ha="right",
                va="bottom", fontsize=8.5, color=MUTED,
            )  # fmt: skip
        left.set_yticks(places, [f"{m.arm}, {budget_text(m.budget_rows)}" for m in ordered])
        left.set_ylim(-0.6, len(ordered) - 0.1)
        left.set_xlabel("effective number of domains")
        right.set_xlabel("rows kept")
    return figure
