"""What a source reads of which table, and how: in place, in blocks, or by the table itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from datalake.blocks.layout import Layout
from datalake.blocks.reader import TableReader
from datalake.errors import InputError
from datalake.loader.sources.source import Source

__all__ = ["ReadColumn", "columns_of", "readers_of"]


@dataclass(frozen=True)
class ReadColumn:
    """A column that a source reads through its reader."""

    reader: TableReader
    layout: Layout
    is_mapped: bool
    """Read in place: nothing comes from a store and nothing is cached."""

    @property
    def is_media(self) -> bool:
        """Whether its values are bytes, which are read in blocks of megabytes."""
        return self.layout.kind == "media"


def columns_of(source: Source) -> list[ReadColumn]:
    """The columns that the source reads by row.

    Of an episode set those of its frames; videos are read file by file, which is not planned.

    Raises:
        InputError: the source does not say what it reads.
    """
    return [
        ReadColumn(reader, reader.layout(name), reader.is_mapped(name))
        for reader, names in readers_of(source)
        for name in names
    ]


def readers_of(source: Source) -> Iterator[tuple[TableReader, list[str]]]:
    """The readers of a source, and which columns it reads with each."""
    own: Any = source
    windows = getattr(own, "windows", None)
    if windows is not None:
        yield windows._reader, [*windows._narrow, *windows._wide]
        return
    for name in ("_columns_read", "_columns"):
        if hasattr(own, "_reader") and hasattr(own, name):
            yield own._reader, list(getattr(own, name))
            return
    raise InputError(
        "A run of this source cannot be planned",
        expected="Utterances, Rows or EpisodeWindows",
        found=type(source).__name__,
    )
