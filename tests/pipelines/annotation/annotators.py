"""Annotators for tests: what they give is easily computed by hand."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datalake.lake import Lake, Lineage
from datalake.pipelines.annotation import Annotate
from datalake.schema import media_field
from datalake.tables import Table

SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("sha256", pa.string()),
        pa.field("duration_s", pa.float64()),
        media_field("audio", "audio"),
    ]
)


def rows(start: int, stop: int, size: int = 40) -> pa.Table:
    audio = [bytes([i % 251]) * (size + i % 7) for i in range(start, stop)]
    return pa.table(
        {
            "utt_id": [f"u{i}" for i in range(start, stop)],
            "sha256": [f"sha{i}" for i in range(start, stop)],
            "duration_s": [float(i % 4) for i in range(start, stop)],
            "audio": audio,
        },
        schema=SCHEMA,
    )


def make_table(lake: Lake, num_rows: int, *, format: str = "lance", name: str = "t") -> Table:  # noqa: A002
    made = lake.create(name, SCHEMA, format=format, lineage=Lineage("test"))
    half = num_rows // 2
    made = made.append(rows(0, half)) if half else made
    return made.append(rows(half, num_rows)) if num_rows else made


@dataclass(frozen=True)
class Bytes:
    """The number of bytes, and a vector of it; rows whose audio begins with `bad` fail."""

    bad: int = -1
    scale: float = 1.0
    calls: str = ""
    """A file that gets a byte a row."""
    kill_at: int = -1
    """SIGKILL to the own process when the row of this first byte comes."""
    raises: bool = False

    reads = ("audio",)

    @property
    def adds(self) -> pa.Schema:
        return pa.schema(
            [
                pa.field("length", pa.float32(), metadata={b"unit": b"bytes"}),
                pa.field("vector", pa.list_(pa.float32(), 3)),
            ]
        )

    @property
    def settings(self) -> dict[str, object]:
        return {"name": "bytes", "scale": self.scale}

    def open(self) -> Annotate:
        return self._annotate

    def _annotate(self, data: pa.Table) -> pa.Table:
        audio = data["audio"].to_pylist()
        if self.raises:
            raise ValueError("no such thing")
        if self.calls:
            with Path(self.calls).open("ab") as file:
                file.write(b"." * len(audio))
        if any(each[0] == self.kill_at for each in audio):
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(10)
        bad = [each[0] == self.bad for each in audio]
        values = [
            None if no else self.scale * len(each) for each, no in zip(audio, bad, strict=True)
        ]
        vectors: list[Any] = [
            None if no else (np.arange(3) * each[0]).tolist()
            for each, no in zip(audio, bad, strict=True)
        ]
        return pa.table(
            {
                "vector": pa.array(vectors, self.adds.field("vector").type),
                "length": pa.array(values, pa.float32()),
                "error": [f"damaged: byte {each[0]}" if no else None
                          for each, no in zip(audio, bad, strict=True)],
            }
        )  # fmt: skip
