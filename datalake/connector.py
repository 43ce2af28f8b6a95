"""What a connector is: it reads a foreign corpus's layout and protocol, and no audio.

A connector recognises a corpus (`detect`) and opens it. Robot data open as an `EpisodeCorpus`
(`datalake.recording`), speech as a `Corpus`, which streams two things: the rows its protocol
promises and the files that lie there. The pipeline joins them, so that a row
without a file and a file without a row are found in one place, for every format alike.

Connectors are found by the entry point group `datalake.connectors`, built-ins included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from datalake.recording import EpisodeCorpus
from datalake.uri import Location

__all__ = ["AUDIO_SUFFIXES", "FILES", "ROWS", "Connector", "Corpus", "Evidence", "OptionSpec"]

AUDIO_SUFFIXES: Final = frozenset(
    {".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".mp4", ".aac", ".aif", ".aiff"}
)

ROWS: Final = pa.schema(
    [
        # The corpus's own id; `<source>/<file_id>` becomes `utt_id`.
        pa.field("file_id", pa.string(), nullable=False),
        # Relative to the corpus's root, with forward slashes.
        pa.field("path", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("generator", pa.string()),
        pa.field("label", pa.string()),
        pa.field("speaker_id", pa.string()),
        pa.field("language", pa.string()),
        pa.field("split", pa.string()),
        # Where the row stands, for messages: `<protocol file>:<line>`; null if from the path alone.
        pa.field("origin", pa.string()),
        # A reason code and its detail if the row itself cannot be used; both null otherwise.
        pa.field("refused", pa.string()),
        pa.field("refused_detail", pa.string()),
    ]
)
"""The columns of every batch of `Corpus.rows`, in this order; protocol columns (strings) follow."""

FILES: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        # Null for what has the name of a file and cannot be read as one, such as a dangling link.
        pa.field("size_bytes", pa.int64()),
        # Changes when the bytes do: the store's etag, or the modification time in nanoseconds.
        # Where there is no size: why the file cannot be read, for a person.
        pa.field("stamp", pa.string(), nullable=False),
    ]
)
"""The columns every batch of `Corpus.files` has."""


@dataclass(frozen=True)
class Evidence:
    """Why a connector thinks that a path is its format."""

    connector: str
    confidence: float
    """From 0 to 1. Named protocol files give about .9, a mere folder of audio .2."""
    found: tuple[str, ...]
    """What was seen, as short sentences for a person."""


@dataclass(frozen=True)
class OptionSpec:
    """One option of a connector, given as `--option name=value`."""

    name: str
    help: str
    default: str | None = None


@runtime_checkable
class Corpus(Protocol):
    """An opened corpus. Both streams are made anew at each call and hold one batch in memory."""

    @property
    def source(self) -> str:
        """The corpus's name, by which a later ingest knows it again."""
        ...

    @property
    def root(self) -> Location:
        """What `path` is relative to."""
        ...

    @property
    def extra(self) -> tuple[pa.Field, ...]:
        """The protocol columns that rows carry beyond `ROWS`, all strings."""
        ...

    @property
    def claims_every_file(self) -> bool:
        """Whether a file without a row is a fault (it is quarantined) or none of our business."""
        ...

    def rows(self) -> Iterator[pa.RecordBatch]:
        """What the protocol says, in a stable order: columns `ROWS`, then `extra`."""
        ...

    def files(self) -> Iterator[pa.RecordBatch]:
        """The audio files below the corpus's audio folders: columns `FILES`."""
        ...


@runtime_checkable
class Connector(Protocol):
    """Recognises and opens one format. Stateless; `name` is its entry point's name."""

    name: str
    options: tuple[OptionSpec, ...]

    def detect(self, root: Location) -> Evidence | None:
        """Whether `root` looks like this format; reads names and a few lines only."""
        ...

    def open(self, root: Location, options: Mapping[str, str]) -> Corpus | EpisodeCorpus:
        """Open the corpus: a `Corpus` of utterances or an `EpisodeCorpus` of robot data.

        Raises:
            InputError: the layout is not this format's, or an option is unknown or wrong.
            NotFoundError: a protocol file is missing.
        """
        ...
