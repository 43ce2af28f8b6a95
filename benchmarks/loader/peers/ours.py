"""The lake: tables in Lance, read in place.

    datalake          `order="exact"`
    datalake_blocks   `order="blocks"` with an eighth of the data as working set
    datalake_decoded  pictures decoded once and kept (`keep="decoded"`); the epoch measured is the
                      second one

`workers` are threads here; with none each batch is made when it is asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance  # noqa: F401 - nobody's imports are timed
import pyarrow as pa

from benchmarks.loader.data import CHUNK, CROP, RATE_HZ, Audio, Records, opened
from benchmarks.loader.peers.our_episodes import source_of, write_episodes
from benchmarks.loader.work import BATCH
from datalake.loader import Loader, Rows, Utterances
from datalake.schema import UTTERANCES, media_field
from datalake.tables import create_table, open_table

VARIANTS = ("datalake", "datalake_blocks", "datalake_decoded")

_ROWS_A_BATCH = 200


def place(folder: Path, dataset: str, _variant: str) -> Path:
    """Where the copy lies."""
    return folder / "datalake" / dataset


def write(folder: Path, dataset: str, variant: str) -> None:
    """A table of WAV files, of records, or an episode set with pictures."""
    data, target = opened(folder / "data", dataset), place(folder, dataset, variant)
    if isinstance(data, Audio):
        table = create_table(target / "corpus.lance", UTTERANCES)
        rows = pa.RecordBatchReader.from_batches(UTTERANCES, _utterances(data))
        table.append(rows)
    elif isinstance(data, Records):
        schema = pa.schema(
            [("id", pa.string()), ("label", pa.int64()), media_field("data", "audio")]
        )
        batches = (
            pa.RecordBatch.from_pylist(
                [data.record(row) for row in range(begin, begin + _ROWS_A_BATCH)], schema
            )
            for begin in range(0, len(data), _ROWS_A_BATCH)
        )
        table = create_table(target / "records.lance", schema)
        table.append(pa.RecordBatchReader.from_batches(schema, batches))
    else:
        write_episodes(data, target)


def _records(data: Records, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(data), _ROWS_A_BATCH):
        records = [data.record(row) for row in range(begin, begin + _ROWS_A_BATCH)]
        columns = [[record[name] for record in records] for name in schema.names]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
        )


def _utterances(data: Audio) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(data), _ROWS_A_BATCH):
        rows = range(begin, min(begin + _ROWS_A_BATCH, len(data)))
        records = [data.record(row) for row in rows]
        systems = [record["generator"] for record in records]
        spoof = [system != "bonafide" for system in systems]
        columns: dict[str, Any] = {
            "utt_id": [f"bench/{record['id']}" for record in records],
            "source": ["bench"] * len(rows),
            "generator": [
                s if is_spoof else None for s, is_spoof in zip(systems, spoof, strict=True)
            ],
            "label": ["spoof" if is_spoof else "bonafide" for is_spoof in spoof],
            "domain": [
                f"bench/{s}" if is_spoof else "bench"
                for s, is_spoof in zip(systems, spoof, strict=True)
            ],
            "duration_s": [len(data.clip(row)) / RATE_HZ for row in rows],
            "sample_rate_hz": [RATE_HZ] * len(rows),
            "num_channels": [1] * len(rows),
            "codec": ["pcm_s16le"] * len(rows),
            "audio": [_wave(record["audio"]) for record in records],
        }
        arrays = [
            pa.array(columns.get(field.name, [None] * len(rows)), field.type)
            for field in UTTERANCES
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=UTTERANCES)


def _wave(samples: bytes) -> bytes:
    """A WAV file of 16-bit samples."""
    size = len(samples)
    form = struct.pack("<IHHIIHH", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
    head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + form
    return b"".join((head, b"data", struct.pack("<I", size), samples))


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    target = place(folder, dataset, variant)
    if dataset == "audio":
        table = open_table(target / "corpus.lance")
        source: Any = Utterances(table, num_samples=CROP, pad="zeros")
    elif dataset == "records":
        table = open_table(target / "records.lance")
        source = Rows(table, ["label", "data"], as_array={"data": "int16"})
    else:
        source = source_of(target, CHUNK, decode=mode == "jpeg", keep=variant.endswith("decoded"))
    order = "blocks" if variant.endswith("blocks") else "exact"
    loader = Loader(source, batch_size=BATCH, order=order, seed=1, num_threads=workers)
    if variant.endswith("decoded"):
        for _ in loader:
            pass
    return _named(loader)


def _named(loader: Any) -> Iterator[dict[str, Any]]:
    """Under the names of the other peers. Our 1 is bona fide, theirs is spoof."""
    for batch in loader:
        batch["idx"] = batch["row_index"]
        if "audio" in batch:
            batch["label"] = 1 - batch["label"]
        if "observation.state" in batch:
            batch["state"] = batch["observation.state"]
            batch["cam0"], batch["cam1"] = (
                batch["observation.images.cam0"],
                batch["observation.images.cam1"],
            )
        yield batch
        # Nothing of it may be held while the next one is made.
        del batch
