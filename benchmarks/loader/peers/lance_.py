"""Lance: `take` of random batches, its buffers used as they are; `lance_nc` without compression."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.loader.data import CHUNK, CROP, SIDE, opened
from benchmarks.loader.peers.arrow import batches, schema
from benchmarks.loader.peers.memmap import _as_is, _Shuffled
from benchmarks.loader.work import BATCH, fill, new_tensor

VARIANTS = ("lance", "lance_nc")

_ROWS = {"audio": 1000, "frames": 2048, "records": 1000}
_COLUMNS = {
    "audio": ["idx", "label", "audio"],
    "records": ["idx", "label", "data"],
    "frames": ["idx", "task", "state", "action", "cam0", "cam1"],
}


def place(folder: Path, dataset: str, variant: str) -> Path:
    """Where the copy lies."""
    return folder / variant / f"{dataset}.lance"


def write(folder: Path, dataset: str, variant: str) -> None:
    """Fragments of about a thousand rows; frames hold their own action alone."""
    columns = schema(dataset, chunks=False)
    if variant == "lance_nc":
        plain = {"lance-encoding:compression": "none"}
        columns = pa.schema(
            [f.with_metadata(plain) if pa.types.is_binary(f.type) else f for f in columns]
        )
    rows = batches(opened(folder / "data", dataset), columns)
    reader = pa.RecordBatchReader.from_batches(columns, rows)
    target = place(folder, dataset, variant)
    target.parent.mkdir(parents=True, exist_ok=True)
    lance.write_dataset(reader, str(target), max_rows_per_file=_ROWS[dataset])


class _Take(Dataset):  # type: ignore[type-arg]
    def __init__(self, source: Path, dataset: str, mode: str) -> None:
        self.source, self.dataset, self.mode = str(source), dataset, mode
        self.num_rows = lance.dataset(self.source).count_rows()
        self.opened: Any = None

    def __len__(self) -> int:
        return int(self.num_rows)

    def __getitems__(self, rows: list[int]) -> dict[str, Any]:
        if self.opened is None:
            self.opened = lance.dataset(self.source)
            if self.dataset == "frames":
                self._load_actions()
        table = self.opened.take(rows, columns=_COLUMNS[self.dataset])
        index = table["idx"].to_numpy()
        batch: dict[str, Any] = {"idx": torch.as_tensor(index.copy())}
        if self.dataset == "frames":
            return {**batch, **self._frames(table, index)}
        batch["label"] = torch.as_tensor(table["label"].to_numpy().copy())
        if self.dataset == "records":
            out = new_tensor((len(rows), 32000), torch.int16)
            for at, view in enumerate(_views(table["data"])):
                out.numpy()[at] = np.frombuffer(view, "<i2")
            return {**batch, "data": out}
        audio = new_tensor((len(rows), CROP), torch.float32)
        for at, view in enumerate(_views(table["audio"])):
            fill(audio.numpy()[at], np.frombuffer(view, "<i2"), int(index[at]))
        return {**batch, "audio": audio}

    def _load_actions(self) -> None:
        # Windows of actions come from a table at the side, read once.
        table = self.opened.to_table(columns=["action", "episode"])
        self.actions = table["action"].combine_chunks().flatten().to_numpy().reshape(-1, 14)
        episode = table["episode"].to_numpy()
        ends = np.append(np.flatnonzero(np.diff(episode)), len(episode) - 1)
        self.last = ends[np.searchsorted(ends, np.arange(len(episode)))]

    def _frames(self, table: pa.Table, index: np.ndarray) -> dict[str, Any]:
        state = table["state"].combine_chunks().flatten().to_numpy().reshape(-1, 14)
        rows = np.minimum(index[:, None] + np.arange(CHUNK), self.last[index][:, None])
        batch: dict[str, Any] = {
            "state": torch.from_numpy(state.copy()),
            "action": torch.from_numpy(self.actions[rows]),
            "task": table["task"].to_pylist(),
        }
        for name in ("cam0", "cam1"):
            encoded = [bytes(view) for view in _views(table[name])]
            if self.mode == "raw":
                batch[name] = encoded
            else:
                import simplejpeg

                out = new_tensor((len(encoded), SIDE, SIDE, 3), torch.uint8)
                for at, picture in enumerate(encoded):
                    out.numpy()[at] = simplejpeg.decode_jpeg(picture)
                batch[name] = out
        return batch


def _views(column: pa.ChunkedArray) -> list[memoryview]:
    views = []
    for chunk in column.chunks:
        _, offsets, data = chunk.buffers()
        kind = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
        ends = np.frombuffer(offsets, kind)[chunk.offset : chunk.offset + len(chunk) + 1]
        whole = memoryview(data)
        views += [whole[a:b] for a, b in itertools.pairwise(ends)]
    return views


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    rows = _Take(place(folder, dataset, variant), dataset, mode)
    context = {"multiprocessing_context": "spawn"} if workers else {}
    return DataLoader(
        rows, BATCH, sampler=_Shuffled(len(rows)), num_workers=workers, collate_fn=_as_is, **context
    )
