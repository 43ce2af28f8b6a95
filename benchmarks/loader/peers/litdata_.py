"""LitData: chunks of 64 MB, its default shuffle, StreamingDataLoader."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import litdata

from benchmarks.loader.data import opened
from benchmarks.loader.work import BATCH, collate, sample

VARIANTS = ("litdata",)


def place(folder: Path, dataset: str, _variant: str) -> Path:
    """Where the copy lies."""
    return folder / "litdata" / dataset


@functools.cache
def _data(folder: Path, dataset: str) -> Any:
    return opened(folder / "data", dataset)


def _record(row: int, *, folder: Path, dataset: str) -> Any:
    return _data(folder, dataset).record(row)


def write(folder: Path, dataset: str, variant: str) -> None:
    """Chunks of 64 MB by one process."""
    # Its own work folders: it empties the default ones of whatever lies there.
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(folder / "litdata-work" / "cache")
    os.environ["DATA_OPTIMIZER_DATA_CACHE_FOLDER"] = str(folder / "litdata-work" / "data")
    litdata.optimize(
        fn=functools.partial(_record, folder=folder, dataset=dataset),
        inputs=list(range(len(_data(folder, dataset)))),
        output_dir=str(place(folder, dataset, variant)),
        chunk_bytes="64MB",
        num_workers=1,
        keep_data_ordered=True,
        reorder_files=False,
        verbose=False,
    )


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    work = sample(dataset, mode)

    class Dataset(litdata.StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            return work(super().__getitem__(index))

    source = str(place(folder, dataset, variant))
    return litdata.StreamingDataLoader(
        Dataset(source, shuffle=True, drop_last=False, seed=1),
        batch_size=BATCH,
        num_workers=workers,
        collate_fn=collate,
    )
