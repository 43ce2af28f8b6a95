"""The figures of a report, one a file: each takes findings and gives a matplotlib figure."""

from curation.report.figures.cross_source import cross_source_figure
from curation.report.figures.differences import differences_figure
from curation.report.figures.diversity import diversity_figure
from curation.report.figures.mean_eer import mean_eer_figure
from curation.report.figures.mixtures import mixtures_figure
from curation.report.figures.scaling import scaling_figure

__all__ = [
    "cross_source_figure",
    "differences_figure",
    "diversity_figure",
    "mean_eer_figure",
    "mixtures_figure",
    "scaling_figure",
]
