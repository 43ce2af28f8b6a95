"""Grain over ArrayRecord: a uniform shuffle by index; `grain_threads` reads with two threads."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grain
import numpy as np
import torch
from absl import flags, logging

from benchmarks.loader.data import CHUNK, opened
from benchmarks.loader.work import BATCH, collate_arrays, sample

VARIANTS = ("grain", "grain_threads")

_SHARD_BYTES = 64 << 20


def place(folder: Path, dataset: str, _variant: str) -> Path:
    """Where the copy lies."""
    return folder / "grain" / dataset


def write(folder: Path, dataset: str, variant: str) -> None:
    """Records of a small header and the payload, in groups of one, uncompressed."""
    from array_record.python.array_record_module import ArrayRecordWriter

    data, writer, size, number = opened(folder / "data", dataset), None, 0, 0
    target = place(folder, dataset, variant)
    target.mkdir(parents=True)
    for row in range(len(data)):
        if writer is None or size > _SHARD_BYTES:
            if writer is not None:
                writer.close()
            path = target / f"r-{number:05d}.array_record"
            writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
            number, size = number + 1, 0
        packed = _packed(data.record(row))
        writer.write(packed)
        size += len(packed)
    assert writer is not None
    writer.close()


def _packed(record: dict[str, Any]) -> bytes:
    parts = {
        name: value.tobytes() if isinstance(value, np.ndarray) else value
        for name, value in record.items()
        if isinstance(value, bytes | np.ndarray)
    }
    head = {name: value for name, value in record.items() if name not in parts}
    head["parts"] = {name: len(value) for name, value in parts.items()}
    text = json.dumps(head).encode()
    return b"".join([struct.pack("<I", len(text)), text, *parts.values()])


class _Unpack:
    def __init__(self, dataset: str, mode: str) -> None:
        self.sample = sample(dataset, mode)

    def __call__(self, packed: bytes) -> dict[str, Any]:
        (length,) = struct.unpack_from("<I", packed)
        record, view, begin = json.loads(packed[4 : 4 + length]), memoryview(packed), 4 + length
        for name, size in record.pop("parts").items():
            record[name] = view[begin : begin + size]
            begin += size
        for name, shape in (("state", (14,)), ("action", (CHUNK, 14))):
            if name in record:
                record[name] = np.frombuffer(record[name], np.float32).reshape(shape)
        return self.sample(record)


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    logging.set_verbosity(logging.ERROR)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(sys.argv[:1])
    files = sorted(str(path) for path in place(folder, dataset, variant).iterdir())
    examples = (
        grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
        .shuffle(seed=1)
        .map(_Unpack(dataset, mode))
        .batch(BATCH, batch_fn=collate_arrays)
    )
    options = grain.ReadOptions(num_threads=2 if workers else 1, prefetch_buffer_size=4)
    batches = examples.to_iter_dataset(options)
    if workers and variant == "grain":
        batches = batches.mp_prefetch(
            grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=2)
        )
    return _tensors(batches)


def _tensors(batches: Any) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield {
            name: torch.from_numpy(value)
            if isinstance(value, np.ndarray) and value.dtype != object
            else value
            for name, value in batch.items()
        }
