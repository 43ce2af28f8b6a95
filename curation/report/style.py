"""How figures look: matplotlib without a screen, colours that colour-blind readers can tell."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

from datalake.errors import MissingPackageError

try:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
except ImportError as error:
    raise MissingPackageError.of("matplotlib", "report", "The report of a study") from error

__all__ = [
    "BETTER",
    "GRID",
    "INK",
    "MUTED",
    "SERIES",
    "WORSE",
    "Figure",
    "new_figure",
    "png",
    "styled",
    "svg",
]

# Okabe and Ito's palette, without its yellow, which is too light for thin lines.
SERIES: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
BETTER: Final = "#0072B2"
WORSE: Final = "#D55E00"
MUTED: Final = "#767676"
INK: Final = "#222222"
GRID: Final = "#E4E4E4"

_SETTINGS: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 9,
    "axes.labelsize": 9.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    # Names are data: a dollar in one is a dollar.
    "text.parse_math": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "white",
    # The same bytes for the same study.
    "svg.hashsalt": "study",
    "svg.fonttype": "path",
}


@contextmanager
def styled() -> Iterator[None]:
    """Figures made inside look as they should; the caller's settings stay as they are."""
    # Its stubs list every setting's name; a plain dict does not fit them.
    with mpl.rc_context(cast("Any", _SETTINGS)):
        yield


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches, bound to no window."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def svg(figure: Figure) -> str:
    """The figure as an SVG element, the same text for the same figure."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def png(figure: Figure, *, dots_per_inch: int = 160) -> bytes:
    """The figure as a PNG file."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return buffer.getvalue()
