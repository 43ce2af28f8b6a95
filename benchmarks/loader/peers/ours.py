"""The lake: tables in Lance, read in place.

    datalake          `order="exact"`
    datalake_blocks   `order="blocks"` with an eighth of the data as working set
    datalake_decoded  pictures decoded once and kept (`keep="decoded"`); the epoch measured is the
                      second one

`workers` are threads here; 0 workers is one thread.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.loader.data import CHUNK, CROP, RATE_HZ, Audio, Records, opened
from benchmarks.loader.work import BATCH
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
        from benchmarks.loader.peers.our_episodes import write_episodes

        write_episodes(data, target)


def _utterances(data: Audio) -> Iterator[pa.RecordBatch]:
    for begin in range(0, len(data), _ROWS_A_BATCH):
        rows = []
        for row in range(begin, min(begin + _ROWS_A_BATCH, len(data))):
            record = data.record(row)
            bonafide = record["generator"] == "bonafide"
            rows.append(
                {
                    "utt_id": f"bench/{record['id']}",
                    "source": "bench",
                    "generator": None if bonafide else record["generator"],
                    "label": "bonafide" if bonafide else "spoof",
                    "domain": "bench" if bonafide else f"bench/{record['generator']}",
                    "duration_s": len(data.clip(row)) / RATE_HZ,
                    "sample_rate_hz": RATE_HZ,
                    "num_channels": 1,
                    "codec": "pcm_s16le",
                    "audio": _wave(record["audio"]),
                }
            )
        yield pa.RecordBatch.from_pylist(rows, UTTERANCES)


def _wave(samples: bytes) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE_HZ)
        out.writeframes(samples)
    return file.getvalue()


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    from datalake.loader import Loader, Rows, Utterances

    target = place(folder, dataset, variant)
    if dataset == "audio":
        table = open_table(target / "corpus.lance")
        source: Any = Utterances(table, num_samples=CROP, pad="zeros")
    elif dataset == "records":
        table = open_table(target / "records.lance")
        source = Rows(table, ["label", "data"], as_array={"data": "int16"})
    else:
        from benchmarks.loader.peers.our_episodes import source_of

        source = source_of(target, CHUNK, decode=mode == "jpeg", keep=variant.endswith("decoded"))
    order = "blocks" if variant.endswith("blocks") else "exact"
    loader = Loader(source, batch_size=BATCH, order=order, seed=1, num_threads=workers or 1)
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
                batch["observation.images.0"],
                batch["observation.images.1"],
            )
        yield batch
        # Nothing of it may be held while the next one is made.
        del batch
