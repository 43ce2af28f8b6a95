"""Protocols without a header: lines of fields between spaces, as the ASVspoof challenges write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from connectors.tree import Tree

__all__ = ["read_fields"]


def read_fields(
    tree: Tree, path: str, layouts: Sequence[Sequence[str]]
) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Read a protocol line by line; empty lines are passed over.

    Args:
        tree: the corpus.
        path: the protocol within it.
        layouts: the columns that a line may have. A line is read by the one of its length.

    Yields:
        The line's number from 1, and its fields by column, or what is wrong with it.
    """
    by_length = {len(layout): layout for layout in layouts}
    expected = " or ".join(str(length) for length in sorted(by_length))
    with tree.open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            fields = line.split()
            if not fields:
                continue
            layout = by_length.get(len(fields))
            if layout is None:
                yield number, f"{len(fields)} fields instead of {expected}"
            elif "\N{REPLACEMENT CHARACTER}" in line:
                yield number, "bytes that are not UTF-8"
            else:
                yield number, dict(zip(layout, fields, strict=True))
