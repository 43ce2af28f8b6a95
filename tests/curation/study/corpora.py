"""A lake with a small table of vectors that a detector can tell apart, in three sources."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from datalake.lake import Lake, Lineage, open_lake

DIMS = 6
SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        *(pa.field(name, pa.string()) for name in ("source", "generator", "label", "domain")),
        pa.field("speaker_id", pa.string()),
        pa.field("sha256", pa.string()),
        pa.field("duration_s", pa.float64()),
        pa.field("vector", pa.list_(pa.float32(), DIMS)),
    ]
)
SPOOFS = {
    ("north", "alpha"): 30,
    ("north", "gamma"): 6,
    ("south", "alpha"): 8,
    ("south", "beta"): 10,
    ("west", "beta"): 10,
    ("west", "gamma"): 8,
}
"""Rows of each spoof domain; each source has 24 bona fide rows of 4 speakers."""


def rows() -> list[dict[str, object]]:
    """All rows."""
    made = []
    for source in ("north", "south", "west"):
        made += [_row(source, None, number, f"{source}-{number % 4}") for number in range(24)]
    for (source, generator), count in SPOOFS.items():
        made += [_row(source, generator, number, None) for number in range(count)]
    return made


def _row(source: str, generator: str | None, number: int, speaker: str | None) -> dict[str, object]:
    name = f"{source}/{generator or 'human'}-{number}"
    rng = np.random.default_rng([len(name), number, *name.encode()])
    vector = rng.normal(0, 1, DIMS)
    vector[0] += 0 if generator else 2
    if generator:
        vector[1 + "abg".index(generator[0])] += 2
    return {
        "utt_id": name,
        "source": source,
        "generator": generator,
        "label": "spoof" if generator else "bonafide",
        "domain": f"{source}/{generator}" if generator else source,
        "speaker_id": speaker,
        "sha256": name,
        "duration_s": 1.0 + number / 8,
        "vector": vector.astype(np.float32).tolist(),
    }


def lake_at(folder: Path, table: list[dict[str, object]] | None = None) -> Lake:
    """A lake with the table `pool`."""
    lake = open_lake(folder)
    made = lake.create("pool", SCHEMA, lineage=Lineage("test"))
    made.append(pa.Table.from_pylist(table or rows(), schema=SCHEMA))
    return lake


DESIGN = """
table: pool
detector: embedding_mlp
embedding: vector
protocols: [logo, loso]
methods:
  - naive
  - random
  - doss
  - {method: doss_weight, alpha: 0.5}
  - {method: semdedup, embedding: vector, threshold: 0.9, budgets: [all]}
budgets: [40, all]
seeds: 2
training: {num_steps: 4, batch_size: 8, check_every: 2, validation_fraction: 0.2}
"""
