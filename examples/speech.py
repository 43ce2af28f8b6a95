"""What the examples of this folder share: a small corpus, a small model, and a record of rows.

`corpus` opens the table `corpus` of a lake, and makes it of 150 clips of noise and tones first
where there is none. `record` notes which rows a rank trained on; a real training needs no such
thing, it is here to show that over a stop each row comes exactly once.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import datalake
from datalake.audio import encode_flac
from datalake.lake import Lineage
from datalake.loader import Utterances
from datalake.schema import media_field

NUM_ROWS = 150
RATE_HZ = 16_000
SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string(), nullable=False),
        pa.field("label", pa.string()),
        media_field("audio", "audio"),
    ]
)


def corpus(folder: Path) -> Utterances:
    """The clips of the lake's table; of several processes that ask, one makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    lake = datalake.open_lake(folder)
    with (folder / ".making").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if "corpus" not in lake:
            lake.create("corpus", SCHEMA, lineage=Lineage("make", {"rows": NUM_ROWS}))
        if not lake["corpus"].count_rows():
            lake["corpus"].append(_rows())
    return Utterances.from_lake(lake, "corpus", columns=["utt_id"], num_samples=RATE_HZ // 4)


def _rows() -> pa.Table:
    rng = np.random.default_rng(0)
    clips = []
    for row in range(NUM_ROWS):
        time_s = np.arange(RATE_HZ // 4 + 8 * row) / RATE_HZ
        tone = np.sin(2 * np.pi * 440 * time_s) * (row % 2)
        clip = 0.2 * tone + rng.normal(0, 0.1, len(time_s))
        clips.append(encode_flac(clip.astype(np.float32), RATE_HZ))
    return pa.table(
        {
            "utt_id": [f"made/{row:03d}" for row in range(NUM_ROWS)],
            "label": [("bonafide", "spoof")[row % 2] for row in range(NUM_ROWS)],
            "audio": pa.array(clips, pa.large_binary()),
        },
        schema=SCHEMA,
    )


def new_model() -> torch.nn.Module:
    """From (batch, samples) to one score each, (batch, 1); the same at each call."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, -1)),
        torch.nn.Conv1d(1, 8, kernel_size=400, stride=160),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool1d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(8, 1),
    )


def loss_of(model: torch.nn.Module, batch: Mapping[str, Any]) -> torch.Tensor:
    """The mean loss of a batch by its weights; repeats that fill the last step count nothing."""
    scores = model(batch["audio"]).squeeze(1)
    weight = batch["weight"] * ~batch["is_pad"]
    losses = binary_cross_entropy_with_logits(scores, batch["label"].float(), reduction="none")
    return (weight * losses).sum() / weight.sum().clamp(min=1)


def record(folder: Path, rank: int, batch: Mapping[str, Any]) -> None:
    """Note what a rank trained on, a line a step: epoch and rows."""
    rows = batch["row_index"][~batch["is_pad"]].tolist()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"rank{rank}.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": batch["epoch"], "rows": rows}) + "\n")
