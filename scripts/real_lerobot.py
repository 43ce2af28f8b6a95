"""Imports the real `lerobot` in an interpreter of its own: for scripts and benchmarks.

`lerobot` 0.4 wants torchvision, whose compiled operators do not load beside every build of torch.
Nothing that is used here needs them: their names are declared, so that the import goes through.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height,"
    " int pooled_width, int sampling_ratio, bool aligned) -> Tensor",
)


def prepare() -> None:
    """Let `import lerobot` work, offline. Call it before that import, once."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    # Hugging Face's datasets keep a copy of every Parquet file they open.
    os.environ.setdefault("HF_HOME", tempfile.mkdtemp(prefix="real-lerobot-"))
    warnings.filterwarnings("ignore")
    import torch

    try:
        import torchvision  # noqa: F401
    except (ImportError, OSError, RuntimeError):
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in _OPERATORS:
            library.define(operator)
        # The declarations go with the object.
        torch._declared_for_torchvision = library  # type: ignore[attr-defined]


def readable(root: Path) -> Path:
    """The dataset at `root`, or where it is of version 2.1 what `lerobot`'s converter makes of it.

    The converter works on a copy in a temporary folder.
    """
    import json
    import shutil

    version = json.loads((root / "meta/info.json").read_text())["codebase_version"]
    if version == "v2.1":
        from lerobot.datasets.v30.convert_dataset_v21_to_v30 import convert_dataset

        below = Path(tempfile.mkdtemp(prefix="real-lerobot-"))
        shutil.copytree(root, below / "export")
        convert_dataset("export", root=below, push_to_hub=False)
        print(f"{root.name} is of version 2.1: lerobot's own converter made 3.0 of a copy")
        root = below / "export"
    return root


def open_dataset(root: Path, **options: Any) -> Any:
    """The dataset at `root`, of version 3.0, by `lerobot`'s own class."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset(f"local/{root.name}", root=root, **options)
