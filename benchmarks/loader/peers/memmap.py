"""The limit: numpy memory maps of the flat files.

memmap        batches filled in a DataLoader's `__getitems__`
limit_1t, limit_2t  no DataLoader: one or two threads fill batches, audio into reused ones
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.loader.data import CROP, SIDE, Audio, Frames, Records, opened
from benchmarks.loader.work import BATCH, fill, new_tensor

VARIANTS = ("memmap", "limit_1t", "limit_2t")


def place(folder: Path, dataset: str, _variant: str) -> Path:
    """Where the copy lies: it is the data itself."""
    name = {"audio": "audio.bin", "frames": "jpg.bin", "records": "records.bin"}[dataset]
    return folder / "data" / name


def write(folder: Path, dataset: str, variant: str) -> None:
    """Nothing is copied."""


class _Batches(Dataset):  # type: ignore[type-arg]
    def __init__(self, folder: Path, dataset: str, mode: str) -> None:
        self.data, self.mode = opened(folder / "data", dataset), mode

    def __len__(self) -> int:
        return len(self.data)

    def __getitems__(self, rows: Any, audio: torch.Tensor | None = None) -> dict[str, Any]:
        rows, data = np.asarray(rows), self.data
        batch: dict[str, Any] = {"idx": torch.as_tensor(rows)}
        if isinstance(data, Audio):
            audio = new_tensor((len(rows), CROP), torch.float32) if audio is None else audio
            out = audio.numpy()
            for place_, row in enumerate(rows.tolist()):
                fill(out[place_], data.clip(row), row)
            return {
                **batch,
                "label": torch.as_tensor(data.label[rows]),
                "audio": audio[: len(rows)],
            }
        if isinstance(data, Records):
            out = new_tensor((len(rows), data.data.shape[1]), torch.int16)
            for place_, row in enumerate(rows.tolist()):
                out.numpy()[place_] = data.data[row]
            return {**batch, "label": torch.as_tensor(data.label[rows]), "data": out}
        return {**batch, **self._frames(data, rows)}

    def _frames(self, data: Frames, rows: np.ndarray) -> dict[str, Any]:
        batch: dict[str, Any] = {
            "state": torch.from_numpy(data.state[rows]),
            "action": torch.from_numpy(data.chunk(rows)),
            "task": [data.task(row) for row in rows.tolist()],
        }
        pictures = [data.jpegs(row) for row in rows.tolist()]
        for camera in (0, 1):
            encoded = [pair[camera] for pair in pictures]
            if self.mode == "raw":
                batch[f"cam{camera}"] = encoded
            else:
                import simplejpeg

                out = new_tensor((len(rows), SIDE, SIDE, 3), torch.uint8)
                for place_, picture in enumerate(encoded):
                    out.numpy()[place_] = simplejpeg.decode_jpeg(picture)
                batch[f"cam{camera}"] = out
        return batch


class _Shuffled:
    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows

    def __len__(self) -> int:
        return self.num_rows

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(0).permutation(self.num_rows).tolist())


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    batches = _Batches(folder, dataset, mode)
    if variant.startswith("limit"):
        return _threads(batches, int(variant[-2]))
    return DataLoader(
        batches, BATCH, sampler=_Shuffled(len(batches)), num_workers=workers, collate_fn=_as_is
    )


def _as_is(batch: Any) -> Any:
    return batch


def _threads(batches: _Batches, num_threads: int) -> Iterator[dict[str, Any]]:
    order = np.random.default_rng(0).permutation(len(batches))
    audio = isinstance(batches.data, Audio)
    reused = [torch.empty(BATCH, CROP) if audio else None for _ in range(2 * num_threads)]
    pending: deque[Any] = deque()
    with ThreadPoolExecutor(num_threads) as threads:
        for number, begin in enumerate(range(0, len(order), BATCH)):
            if len(pending) == 2 * num_threads - 1:
                yield pending.popleft().result()
            rows, buffer = order[begin : begin + BATCH], reused[number % (2 * num_threads)]
            pending.append(threads.submit(batches.__getitems__, rows, buffer))
        while pending:
            yield pending.popleft().result()
