"""What each method makes of each domain: its share of the draws, or how much of it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from curation.report.analysis import ArmMixture
from curation.report.figures.heat_map import draw_heat_map, ink_on
from curation.report.style import Figure, new_figure, styled
from curation.report.wording import budget_text

__all__ = ["MAX_ARMS", "MAX_DOMAINS", "mixtures_figure"]

MAX_DOMAINS: Final = 30
"""More are not drawn: the table of mixtures has all of them."""

MAX_ARMS: Final = 24
"""Likewise: as many columns as can be read side by side."""

_TITLES: Final = {"mass": "Share of the draws in %", "retention": "Rows kept of each domain in %"}


def mixtures_figure(
    mixtures: Sequence[ArmMixture], shown: Literal["mass", "retention"] = "mass"
) -> Figure:
    """Domains by arms, the largest domains on top, with their rows in brackets.

    A dot marks domains that a limit bound in most cells.
    """
    num_arms, mixtures = len(mixtures), mixtures[:MAX_ARMS]
    sizes = {share.domain: share.num_rows for mixture in mixtures for share in mixture.domains}
    domains = sorted(sizes, key=lambda domain: (-sizes[domain], domain))
    drawn = domains[:MAX_DOMAINS]
    shares = [{share.domain: share for share in mixture.domains} for mixture in mixtures]
    values = np.array(
        [
            [100 * getattr(by[domain], shown) if domain in by else np.nan for by in shares]
            for domain in drawn
        ]
    )
    top = 100.0 if shown == "retention" else max(float(np.nanmax(values)), 0.1)
    # A few large domains would leave all others one colour.
    power = 1.0 if shown == "retention" else 0.5
    with styled():
        figure = new_figure(min(3.0 + 0.62 * len(mixtures), 14), 1.9 + 0.27 * len(drawn))
        axes = figure.subplots()
        image = draw_heat_map(
            axes,
            values,
            [f"{domain}  ({sizes[domain]:,.0f})" for domain in drawn],
            [f"{m.arm}, {budget_text(m.budget_rows)}" for m in mixtures],
            top,
            power=power,
        )
        for (row, column), value in np.ndenumerate(values):
            text = "–"
            if not np.isnan(value):
                binds = shares[column][drawn[row]].binds > 0.5
                text = f"{value:.{0 if shown == 'retention' else 1}f}{' •' if binds else ''}"
            axes.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                fontsize=8,
                color=ink_on(value, top, power=power),
            )
        more = len(domains) - len(drawn)
        note = f"; {more} smaller domains not shown" if more else ""
        if num_arms > MAX_ARMS:
            note += f"; {num_arms - MAX_ARMS} more arms not shown"
        axes.set_title(f"{_TITLES[shown]}; • a limit binds{note}")
        bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=24, pad=0.02)
        bar.outline.set_visible(False)
    return figure
