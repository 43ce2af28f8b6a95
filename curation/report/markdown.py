"""The report as Markdown: its sentences and tables, with links to the figures' files."""

from __future__ import annotations

from collections.abc import Sequence

from curation.report.sections import Section
from curation.report.tables import TextTable

__all__ = ["markdown"]


def markdown(title: str, lead: str, sections: Sequence[Section], figures: str) -> str:
    """The whole document.

    Args:
        title: its heading.
        lead: the line under it.
        sections: what it says.
        figures: the folder of the figures, as the document's links have it.
    """
    blocks = [f"# {_plain(title)}", _plain(lead)]
    for section in sections:
        blocks.append(f"## {_plain(section.title)}")
        if section.sentences:
            blocks.append("\n".join(f"- {_plain(sentence)}" for sentence in section.sentences))
        blocks += [
            f"![{_plain(picture.caption)}]({figures}/{picture.name}.png)"
            for picture in section.pictures
        ]
        blocks += [_table(table) for table in section.tables]
    return "\n\n".join(blocks) + "\n"


def _table(table: TextTable) -> str:
    marks = ["---" if i < table.num_names else "---:" for i in range(len(table.headings))]
    return "\n".join(
        f"| {' | '.join(map(_plain, cells))} |" for cells in (table.headings, marks, *table.lines)
    )


def _plain(text: str) -> str:
    """Text that stays what it is: no bars that end a cell, no tags, no new lines."""
    kept = " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
    # Names such as doss_k_center hold no emphasis; stars might.
    return kept.replace("*", "\\*")
