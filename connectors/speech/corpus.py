"""The opened corpus that every connector here returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from connectors.speech.rows import Row, to_batches
from connectors.tree import Tree
from datalake.uri import Location

__all__ = ["ProtocolCorpus"]


@dataclass(frozen=True)
class ProtocolCorpus:
    """A `datalake.connector.Corpus` made of a function that reads rows and folders of audio."""

    source: str
    root: Location
    read: Callable[[], Iterator[Row]]
    """Reads the protocol from its start at each call."""
    extra: tuple[pa.Field, ...] = ()
    claims_every_file: bool = True
    audio_folders: tuple[str, ...] = ("",)
    """Relative to `root`."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """What the protocol says: columns `ROWS`, then `extra`."""
        return to_batches(self.read(), self.extra)

    def files(self) -> Iterator[pa.RecordBatch]:
        """The audio files below the audio folders: columns `FILES`."""
        return Tree(self.root).files(self.audio_folders)
