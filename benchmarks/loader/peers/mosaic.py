"""MosaicML Streaming: MDS shards of 64 MB, its default shuffle (py1e)."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from benchmarks.loader.data import CHUNK, opened
from benchmarks.loader.work import BATCH, collate, sample


def _stand_in_for_torchvision() -> None:
    """Streaming imports it for data sets of pictures, which are not used here; it wants CUDA."""
    package = types.ModuleType("torchvision")
    # Who only asks whether it is installed looks for this.
    package.__spec__ = ModuleSpec("torchvision", None)
    for name, part in (("datasets", "VisionDataset"), ("transforms.functional", "to_tensor")):
        module = types.ModuleType(f"torchvision.{name}")
        setattr(module, part, type(part, (), {}))
        sys.modules[module.__name__] = module
    sys.modules["torchvision"] = package
    sys.modules["torchvision.transforms"] = types.ModuleType("torchvision.transforms")


_stand_in_for_torchvision()

import streaming.base.util  # noqa: E402
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset  # noqa: E402

VARIANTS = ("mosaic",)

_COLUMNS = {
    "audio": {"idx": "int", "id": "str", "label": "int", "generator": "str", "audio": "bytes"},
    "records": {"idx": "int", "id": "str", "label": "int", "data": "bytes"},
    "frames": {
        "idx": "int",
        "episode": "int",
        "frame": "int",
        "task": "str",
        "state": "ndarray:float32:14",
        "action": f"ndarray:float32:{CHUNK},14",
        "cam0": "bytes",
        "cam1": "bytes",
    },
}


def place(folder: Path, dataset: str, _variant: str) -> Path:
    """Where the copy lies."""
    return folder / "mosaic" / dataset


def write(folder: Path, dataset: str, variant: str) -> None:
    """Shards of 64 MB."""
    data = opened(folder / "data", dataset)
    target = str(place(folder, dataset, variant))
    with MDSWriter(out=target, columns=_COLUMNS[dataset], size_limit=64 << 20) as writer:
        for row in range(len(data)):
            writer.write(data.record(row))


def stream(folder: Path, dataset: str, variant: str, mode: str, workers: int) -> Any:
    """The stream of an epoch."""
    streaming.base.util.clean_stale_shared_memory()
    work = sample(dataset, mode)

    class Dataset(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            return work(super().__getitem__(index))

    source = str(place(folder, dataset, variant))
    return StreamingDataLoader(
        Dataset(local=source, shuffle=True, batch_size=BATCH, shuffle_seed=1),
        batch_size=BATCH,
        num_workers=workers,
        collate_fn=collate,
    )
