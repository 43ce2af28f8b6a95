"""Hugging Face datasets: `hf_arrow` map-style on Arrow files, `hf_stream` streamed Parquet with a
buffer of 1,000 rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from benchmarks.loader.data import CHUNK, opened
from benchmarks.loader.peers.arrow import batches, schema
from benchmarks.loader.peers.memmap import _Shuffled
from benchmarks.loader.work import BATCH, collate, sample

VARIANTS = ("hf_arrow", "hf_stream")


def place(folder: Path, dataset: str, variant: str) -> Path:
    """Where the copy lies."""
    return folder / variant / dataset


def write(folder: Path, dataset: str, variant: str) -> None:
    """Arrow files by datasets' own writer, or Parquet in row groups of 256."""
    data, target = opened(folder / "data", dataset), place(folder, dataset, variant)
    rows = batches(data, schema(dataset))
    target.mkdir(parents=True)
    if variant == "hf_arrow":
        table = pa.Table.from_batches(list(rows))
        datasets.Dataset(table).save_to_disk(str(target), max_shard_size="500MB")
        return
    writer, size = None, 0
    for number, batch in enumerate(rows):
        if writer is None or size > 64 << 20:
            if writer is not None:
                writer.close()
            path = target / f"p-{number:05d}.parquet"
            writer, size = pq.ParquetWriter(path, batch.schema, compression="none"), 0
        writer.write_batch(batch, row_group_size=256)
        size += batch.nbytes
    assert writer is not None
    writer.close()


class _Collate:
    def __init__(self, dataset: str, mode: str) -> None:
        self.sample = sample(dataset, mode)

    def __call__(self, records: Any) -> Any:
        for record in records:
            if "action" in record:
                record["action"] = record["action"].reshape(CHUNK, 14)
        return collate([self.sample(record) for record in records])


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    datasets.disable_progress_bars()
    source, work = place(folder, dataset, variant), _Collate(dataset, mode)
    if variant == "hf_arrow":
        rows = datasets.load_from_disk(str(source))
        rows = rows.with_format("numpy") if dataset == "frames" else rows
        order = _Shuffled(len(rows))
        return DataLoader(rows, BATCH, sampler=order, num_workers=workers, collate_fn=work)
    files = sorted(str(path) for path in source.glob("*.parquet"))
    rows = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    rows = rows.with_format("numpy") if dataset == "frames" else rows
    rows = rows.shuffle(seed=1, buffer_size=1000)
    return StatefulDataLoader(rows, BATCH, num_workers=workers, collate_fn=work)
