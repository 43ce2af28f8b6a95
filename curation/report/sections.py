"""What stands in a report and in which order: for the page and for Markdown alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from curation.report.analysis import Analysis, MethodScaling
from curation.report.figures import (
    cross_source_figure,
    differences_figure,
    diversity_figure,
    mean_eer_figure,
    mixtures_figure,
    scaling_figure,
)
from curation.report.style import Figure
from curation.report.tables import (
    TextTable,
    bindings_table,
    comparisons_table,
    design_table,
    laws_table,
    means_table,
)
from curation.report.wording import caveats, how_to_read, in_short, verdicts
from curation.study.results import PROTOCOL_TITLES

__all__ = ["Picture", "Section", "sections_of"]

_MAX_MATRICES: Final = 6
"""More matrices than can be compared at a glance are left to the results."""


@dataclass(frozen=True)
class Picture:
    """A figure, the name of its file and what it shows."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Section:
    """A part of a report: sentences, then figures, then tables."""

    title: str
    sentences: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[TextTable, ...] = ()


def sections_of(analysis: Analysis) -> list[Section]:
    """All sections of a report, those of which there is something to say."""
    found = [
        Section("In short", tuple(in_short(analysis))),
        Section("What was run", tables=(design_table(analysis),)),
    ]
    found += [_results(analysis, index) for index in range(len(analysis.protocols))]
    for scaling in analysis.scalings:
        found.append(_scaling(scaling))
    if analysis.mixtures:
        found.append(_mixtures(analysis))
    found.append(Section("Caveats", tuple(caveats(analysis))))
    found.append(Section("How to read this", tuple(how_to_read(analysis))))
    return found


def _results(analysis: Analysis, index: int) -> Section:
    found = analysis.protocols[index]
    protocol = found.protocol
    sentences = verdicts(found, analysis.level, analysis.over)
    pictures = [
        Picture(
            f"mean_eer_{protocol}",
            "Mean EER by method and budget; baselines in grey.",
            mean_eer_figure(found, analysis.baselines, analysis.level),
        )
    ]
    tables = [means_table(found, analysis.level)]
    if found.comparisons.table.num_rows:
        pictures.append(
            Picture(
                f"differences_{protocol}",
                f"Differences to the baselines, paired by fold and seed, with the {analysis.over}s "
                "in which the method has the lower EER.",
                differences_figure(found, analysis.level, analysis.over),
            )
        )
        tables.append(comparisons_table(found, analysis.level, analysis.over))
    if protocol == "cross" and analysis.matrices:
        ranked = sorted(analysis.matrices, key=lambda m: m.arm not in analysis.baselines)
        shown = ranked[:_MAX_MATRICES]
        more = len(analysis.matrices) - len(shown)
        pictures.append(
            Picture(
                "cross_source",
                "EER in % of detectors trained on one source (row) and tested on another (column). "
                "A dash: not tested; a frame: training and test are of one source."
                + (f" {more} more arms are not drawn." if more else ""),
                cross_source_figure(shown),
            )
        )
    return Section(PROTOCOL_TITLES[protocol], tuple(sentences), tuple(pictures), tuple(tables))


def _scaling(found: MethodScaling) -> Section:
    title = f"Scaling of {found.method}: {PROTOCOL_TITLES[found.protocol].lower()}"
    if found.scaling is None:
        return Section(title, (f"No law is fitted: {found.reason}.",))
    best = found.scaling.best
    sentences = [
        f"{found.scaling.num_points} points in {found.scaling.num_cells} cells. Of the laws "
        f"fitted, {best.law} ({best.formula}) tells unseen cells best, with a leave-one-out error "
        f"of {100 * best.loo_error:.1f} %.",
        *best.remarks,
        *found.scaling.remarks,
        "Dashed lines are outside of the design: the law is not tested there.",
    ]
    picture = Picture(
        f"scaling_{found.protocol}_{_file_name(found.method)}",
        "What the best law says of each variable, the others held in the middle of the design "
        "(points moved there along the law), and the law against what was found.",
        scaling_figure(found.points, best),
    )
    return Section(title, tuple(sentences), (picture,), (laws_table(found),))


def _mixtures(analysis: Analysis) -> Section:
    protocol = PROTOCOL_TITLES[analysis.mixture_protocol].lower()
    pictures = (
        Picture(
            "diversity",
            "Effective number of domains that each method trains on, and rows that it keeps.",
            diversity_figure(analysis.mixtures),
        ),
        Picture(
            "mixtures",
            "Each domain's share of the draws, domains of most rows first (rows in brackets).",
            mixtures_figure(analysis.mixtures, "mass"),
        ),
        Picture(
            "retention",
            "The share of each domain's rows that is kept.",
            mixtures_figure(analysis.mixtures, "retention"),
        ),
    )
    sentence = f"Means over the cells of one protocol ({protocol}); a fold lacks what it holds out."
    return Section(
        "What was trained on", (sentence,), pictures, (bindings_table(analysis.mixtures),)
    )


def _file_name(method: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in method)
