"""WebDataset: tar shards of 64 MB, shards shuffled, a shuffle buffer of 1,000 samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import webdataset

from benchmarks.loader.data import CHUNK, opened
from benchmarks.loader.work import BATCH, collate, sample

VARIANTS = ("webdataset",)

_BINARY = {"audio": "pcm", "data": "bin", "cam0": "0.jpg", "cam1": "1.jpg"}


def place(folder: Path, dataset: str, _variant: str) -> Path:
    """Where the copy lies."""
    return folder / "webdataset" / dataset


def write(folder: Path, dataset: str, variant: str) -> None:
    """Tar files of 64 MB."""
    data, target = opened(folder / "data", dataset), place(folder, dataset, variant)
    target.mkdir(parents=True)
    pattern = str(target / "s-%05d.tar")
    with webdataset.ShardWriter(pattern, maxcount=10**9, maxsize=64 << 20, verbose=0) as writer:
        for row in range(len(data)):
            record = data.record(row)
            stored: dict[str, Any] = {"__key__": f"{row:07d}"}
            for name, member in _BINARY.items():
                if name in record:
                    stored[member] = record.pop(name)
            if "state" in record:
                numbers = [record.pop("state"), record.pop("action").reshape(-1)]
                stored["f32"] = np.concatenate(numbers).tobytes()
            stored["json"] = json.dumps(record).encode()
            writer.write(stored)


class _Unpack:
    def __init__(self, dataset: str, mode: str) -> None:
        self.sample = sample(dataset, mode)

    def __call__(self, stored: dict[str, Any]) -> Any:
        record = json.loads(stored["json"])
        record.update((name, stored[m]) for name, m in _BINARY.items() if m in stored)
        if "f32" in stored:
            numbers = np.frombuffer(stored["f32"], np.float32)
            record["state"], record["action"] = numbers[:14], numbers[14:].reshape(CHUNK, 14)
        return self.sample(record)


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    shards = sorted(str(path) for path in place(folder, dataset, variant).glob("*.tar"))
    examples = (
        webdataset.WebDataset(shards, shardshuffle=100, seed=1, empty_check=False)
        .shuffle(1000, seed=1)
        .map(_Unpack(dataset, mode))
        .batched(BATCH, collation_fn=collate)
    )
    return webdataset.WebLoader(examples, batch_size=None, num_workers=workers)
