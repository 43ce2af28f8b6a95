"""A heat map whose numbers can be read without its colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from curation.report.style import INK, MUTED

__all__ = ["draw_heat_map", "ink_on"]


def draw_heat_map(
    axes: Any,
    values: npt.NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    top: float,
    *,
    power: float = 1.0,
) -> Any:
    """The cells and the names beside them; what is NaN stays white. Gives the image.

    Colours go with the value to a `power`: below 1 small values stay apart beside a large one.
    """
    from matplotlib.colors import PowerNorm

    image = axes.imshow(values, cmap="cividis", norm=PowerNorm(power, 0, top), aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=35, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(np.arange(len(columns) - 1) + 0.5, minor=True)
    axes.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
    axes.set_axisbelow(False)
    axes.grid(which="minor", color="white", linewidth=1)
    axes.tick_params(which="both", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def ink_on(value: float, top: float, *, power: float = 1.0) -> str:
    """A colour that stands out from a cell's: cividis is dark where values are low."""
    if np.isnan(value):
        return MUTED
    return "white" if (value / top) ** power < 0.5 else INK
