"""Rows to embed, and the promises that every embedder keeps."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pyarrow as pa

from datalake.pipelines.annotation.annotator import Annotator
from tests.curation.quality.test_audio import file_of, speech

RATE_HZ = 16_000


def clips(*durations_s: float) -> list[np.ndarray]:
    """Voices of these durations, each another one."""
    return [speech(duration_s, seed) for seed, duration_s in enumerate(durations_s)]


def audio_rows(files: list[bytes | None]) -> pa.Table:
    return pa.table({"audio": pa.array(files, pa.large_binary())})


def vectors(made: pa.Table, column: str | None = None) -> np.ndarray:
    """The embeddings of rows that have one: (rows, size)."""
    found = made[column or made.column_names[0]].combine_chunks().drop_null()
    return found.flatten().to_numpy().reshape(len(found), found.type.list_size)


def check_promises(embedder: Annotator, rows: pa.Table) -> pa.Table:
    """A row's vector, bit for bit, whatever is beside it; and what a column says of itself."""
    copy = pickle.loads(pickle.dumps(embedder))
    assert len(pickle.dumps(embedder)) < 20_000
    assert (copy.settings, copy.adds) == (embedder.settings, embedder.adds)
    field = embedder.adds.field(0)
    assert field.type.value_type == pa.float32()
    assert field.nullable
    assert json.loads(field.metadata[b"datalake.embedding"]) == embedder.settings
    assert field.metadata[b"datalake.embedder"].decode() == embedder.settings["embedder"]
    annotate = copy.open()
    whole = annotate(rows.select(list(embedder.reads)))
    assert whole.drop_columns(["error"]).schema.equals(embedder.adds, check_metadata=True)
    alone = [annotate(rows.select(list(embedder.reads)).slice(row, 1)) for row in range(len(rows))]
    assert pa.concat_tables(alone).to_pydict() == whole.to_pydict()
    turned = annotate(rows.select(list(embedder.reads)).take(np.arange(len(rows))[::-1]))
    assert turned.to_pydict() == {
        key: values[::-1] for key, values in whole.to_pydict().items()
    }  # fmt: skip
    is_null = whole[0].is_null().to_pylist()
    assert is_null == [error is not None for error in whole["error"].to_pylist()]
    return whole


def as_files(waves: list[np.ndarray], **how: Any) -> list[bytes | None]:
    return [file_of(wave, **how) for wave in waves]
