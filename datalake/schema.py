"""The canonical columns, and how a column says that it holds media.

Media columns (encoded audio, images, video) are `large_binary` fields that carry the metadata
`datalake.media`. Formats store them uncompressed and apart, since their bytes are compressed
already: a scan of other columns never touches them.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

__all__ = [
    "BONAFIDE",
    "MEDIA_KEY",
    "QUARANTINE",
    "SPOOF",
    "UTTERANCES",
    "is_media",
    "media_field",
]

BONAFIDE: Final = "bonafide"
SPOOF: Final = "spoof"

MEDIA_KEY: Final = b"datalake.media"


def media_field(name: str, kind: str) -> pa.Field:
    """A column of encoded media. `kind` is `audio`, `image` or `video`."""
    return pa.field(name, pa.large_binary(), metadata={MEDIA_KEY: kind.encode()})


def is_media(field: pa.Field) -> bool:
    """Whether the column holds encoded media."""
    return MEDIA_KEY in (field.metadata or {})


UTTERANCES: Final = pa.schema(
    [
        # Unique in a table and the same on every run: `<source>/<the corpus's own id>`.
        pa.field("utt_id", pa.string(), nullable=False),
        # The corpus a row came from.
        pa.field("source", pa.string(), nullable=False),
        # The TTS, VC or vocoder system that made a spoof; null for bona fide.
        pa.field("generator", pa.string()),
        # `bonafide` or `spoof`; null where the corpus does not say (a blind evaluation set).
        pa.field("label", pa.string()),
        # `<source>` for bona fide, `<source>/<generator>` for spoof; null without a label.
        pa.field("domain", pa.string()),
        pa.field("speaker_id", pa.string()),
        pa.field("language", pa.string()),
        # train, dev, eval, or what the corpus calls it.
        pa.field("split", pa.string()),
        pa.field("duration_s", pa.float64()),
        pa.field("sample_rate_hz", pa.int32()),
        pa.field("num_channels", pa.int16()),
        # How the stored bytes are encoded: pcm_s16le, pcm_f32le, flac, vorbis, opus, mp3, aac.
        pa.field("codec", pa.string()),
        # Of the original file's bytes, in hexadecimal.
        pa.field("sha256", pa.string()),
        media_field("audio", "audio"),
    ]
)
"""One row an utterance. Connectors append what else their protocol holds, as strings."""

QUARANTINE: Final = pa.schema(
    [
        pa.field("part_id", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("utt_id", pa.string()),
        # A value of `datalake.quarantine.Reason`.
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""One row a refused file or protocol row."""
