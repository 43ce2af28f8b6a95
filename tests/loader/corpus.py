"""A corpus whose samples say which they are: sample k of every clip is k / 32768."""

from __future__ import annotations

import inspect
import io
import wave
from typing import Any

import numpy as np
import pyarrow as pa

from datalake.audio import encode_flac
from datalake.lake import Selection
from datalake.lake.selection import SELECTION_ROWS
from datalake.loader import Loader, Utterances
from datalake.schema import media_field
from datalake.tables import Table

SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("domain", pa.string()),
        pa.field("label", pa.string()),
        media_field("audio", "audio"),
    ]
)
LABELS = ("bonafide", "spoof", None)


def num_samples(row: int) -> int:
    """The length of a row's clip: between 40 and 439 samples."""
    return 40 + row * 37 % 400


def clip(row: int) -> np.ndarray:
    """What a row decodes to."""
    return np.arange(num_samples(row), dtype=np.float32) / 32768


def wav(samples: np.ndarray) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes((samples * 32768).astype("<i2").tobytes())
    return out.getvalue()


def rows(count: int, *, broken: int | None = None) -> pa.Table:
    """Rows of WAV and FLAC in turn; the bytes of `broken` are no audio."""
    audio = [(encode_flac(clip(row), 16000) if row % 2 else wav(clip(row))) for row in range(count)]
    if broken is not None:
        audio[broken] = b"no audio at all"
    return pa.table(
        {
            "utt_id": [f"made/{row:04d}" for row in range(count)],
            "domain": [f"made/{row % 4}" for row in range(count)],
            "label": [LABELS[row % 3] for row in range(count)],
            "audio": pa.array(audio, pa.large_binary()),
        },
        schema=SCHEMA,
    )


def select(chosen: list[int], *, version: int, table: str = "corpus") -> Selection:
    """A selection of rows with weights 0, 1, 2, …"""
    return Selection(
        name="chosen",
        table=table,
        table_version=version,
        rows=pa.table(
            {
                "row_index": pa.array(chosen, pa.uint64()),
                "utt_id": [f"made/{row:04d}" for row in chosen],
                "domain": [f"made/{row % 4}" for row in chosen],
                "rank": pa.array(range(len(chosen)), pa.uint64()),
                "weight": pa.array(range(len(chosen)), pa.float64()),
            },
            schema=SELECTION_ROWS,
        ),
        manifest=pa.table({"domain": ["made/0"]}),
        method="by hand",
        parameters={},
    )


def stream(table: Table, **arguments: Any) -> Loader:
    """A loader of a table of speech, with arguments of either."""
    own = inspect.signature(Utterances).parameters
    source = {name: value for name, value in arguments.items() if name in own}
    rest = {name: value for name, value in arguments.items() if name not in own}
    return Loader(Utterances(table, **source), **rest)
