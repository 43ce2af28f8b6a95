"""The report as one HTML file that needs nothing beside it: no script, no font, no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from typing import Final

from curation.report.sections import Picture, Section
from curation.report.style import svg
from curation.report.tables import TextTable

__all__ = ["page"]

_STYLE: Final = """
:root { color: #222; background: #fff; }
body { font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif;
  margin: 0 auto; max-width: 62rem; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .75rem; padding-top: .75rem; border-top: 1px solid #ddd; }
p.lead { color: #555; margin-top: 0; }
nav { font-size: .9rem; } nav a { margin-right: 1rem; white-space: nowrap; } a { color: #0072b2; }
ul { padding-left: 1.2rem; } li { margin: .3rem 0; max-width: 48rem; }
figure { margin: 1.5rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .9rem; max-width: 48rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; margin: 1.25rem 0;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem .3rem 0; text-align: right; vertical-align: top; }
th { border-bottom: 1.5px solid #222; font-weight: 600; }
td { border-bottom: 1px solid #e8e8e8; }
.name { text-align: left; overflow-wrap: anywhere; } td.number { white-space: nowrap; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } nav { display: none; }
  figure, tr { break-inside: avoid; } }
"""


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole document. Everything that comes from data is escaped."""
    links = "".join(
        f'<a href="#s{index}">{escape(section.title)}</a> '
        for index, section in enumerate(sections)
    )  # fmt: skip
    body = "".join(_section(index, section) for index, section in enumerate(sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n<nav>{links}</nav>\n'
        f"{body}</body>\n</html>\n"
    )


def _section(index: int, section: Section) -> str:
    parts = [f'<section id="s{index}">\n<h2>{escape(section.title)}</h2>\n']
    if section.sentences:
        items = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in section.sentences)
        parts.append(f"<ul>\n{items}</ul>\n")
    parts += [_picture(picture) for picture in section.pictures]
    parts += [_table(table) for table in section.tables]
    return "".join([*parts, "</section>\n"])


def _picture(picture: Picture) -> str:
    # As an image, not as elements of the page: two figures' ids cannot meet.
    data = base64.b64encode(svg(picture.figure).encode()).decode()
    return (
        f'<figure><img alt="{escape(picture.caption)}" src="data:image/svg+xml;base64,{data}">\n'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>\n"
    )


def _table(table: TextTable) -> str:
    kinds = ["name" if i < table.num_names else "number" for i in range(len(table.headings))]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="{kind}">{escape(cell)}</{tag}>'
            for kind, cell in zip(kinds, cells, strict=True)
        )

    body = "".join(f"<tr>{line(cells, 'td')}</tr>\n" for cells in table.lines)
    return (
        f'<div class="wide"><table>\n<thead><tr>{line(table.headings, "th")}</tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table></div>\n"
    )
