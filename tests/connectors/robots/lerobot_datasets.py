"""Small LeRobot datasets in the layouts of versions 2.0, 2.1 and 3.0, written with pyarrow.

Their video files hold a few bytes each: connectors do not open them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CAMERA = "observation.images.top"
FPS = 10
LENGTHS = (5, 3, 4)
TASKS = ("pick the cube", "place the cube")
FEATURES: dict[str, dict[str, Any]] = {
    "observation.state": {"dtype": "float32", "shape": [2], "names": {"motors": ["x", "y"]}},
    "observation.pose": {"dtype": "float64", "shape": [2, 3], "names": None},
    "observation.wrist": {"dtype": "image", "shape": [4, 4, 3], "names": ["height", "width", "c"]},
    CAMERA: {"dtype": "video", "shape": [4, 4, 3], "names": ["height", "width", "channels"]},
    "action": {"dtype": "float32", "shape": [2], "names": [["x", "y"]]},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "note": {"dtype": "string", "shape": [1], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}


def frames(episode: int, length: int, first: int) -> pa.Table:
    """The rows of an episode as LeRobot lays them down."""
    rng = np.random.default_rng(episode)
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.table(
        {
            "observation.state": _vectors(rng.normal(size=(length, 2)).astype("f4")),
            "observation.pose": pa.array(
                rng.normal(size=(length, 2, 3)).tolist(), pa.list_(pa.list_(pa.float64()))
            ),
            "observation.wrist": pa.array(
                [
                    {"bytes": b"png%d.%d" % (episode, frame), "path": None}
                    for frame in range(length)
                ],
                picture,
            ),
            "action": pa.array(
                rng.normal(size=(length, 2)).astype("f4").tolist(), pa.list_(pa.float32())
            ),
            "next.done": np.arange(length) == length - 1,
            "note": [f"é{frame}" for frame in range(length)],
            "timestamp": (np.arange(length) / FPS).astype("f4"),
            "frame_index": np.arange(length),
            "episode_index": np.full(length, episode),
            "index": np.arange(first, first + length),
            "task_index": np.full(length, episode % 2),
        }
    )


def _vectors(values: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _info(version: str, lengths: Sequence[int], **more: object) -> dict[str, Any]:
    return {
        "codebase_version": version,
        "robot_type": "toy_arm",
        "total_episodes": len(lengths),
        "total_frames": sum(lengths),
        "total_tasks": len(TASKS),
        "chunks_size": 2 if version != "v3.0" else 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(lengths) - 1}", "test": f"{len(lengths) - 1}:{len(lengths)}"},
        "features": FEATURES,
        "a_key_of_a_later_release": 1,
        **more,
    }


def _lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_v2(root: Path, *, version: str = "v2.1", lengths: Sequence[int] = LENGTHS) -> Path:
    """Write a dataset of version 2.0 or 2.1 below `root`."""
    (root / "meta").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(_info(version, lengths)))
    _lines(root / "meta/tasks.jsonl", [{"task_index": i, "task": t} for i, t in enumerate(TASKS)])
    _lines(
        root / "meta/episodes.jsonl",
        [
            {"episode_index": i, "tasks": [TASKS[i % 2]], "length": length}
            for i, length in enumerate(lengths)
        ],
    )
    if version == "v2.1":
        _lines(
            root / "meta/episodes_stats.jsonl",
            [
                {"episode_index": i, "stats": {"action": {"min": [i, i], "count": [length]}}}
                for i, length in enumerate(lengths)
            ],
        )
    first = 0
    for episode, length in enumerate(lengths):
        data = root / f"data/chunk-{episode // 2:03d}/episode_{episode:06d}.parquet"
        video = root / f"videos/chunk-{episode // 2:03d}/{CAMERA}/episode_{episode:06d}.mp4"
        for path in (data, video):
            path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(frames(episode, length, first), data)
        video.write_bytes(b"video %d" % episode)
        first += length
    return root


def write_v3(
    root: Path,
    *,
    lengths: Sequence[int] = LENGTHS,
    files: Sequence[Sequence[int]] = ((0, 1), (2,)),
    task_column: str = "__index_level_0__",
) -> Path:
    """Write a dataset of version 3.0 below `root`; `files` says which episodes share a file."""
    (root / "meta/episodes/chunk-000").mkdir(parents=True)
    (root / "meta/info.json").write_text(json.dumps(_info("v3.0", lengths)))
    pq.write_table(
        pa.table({"task_index": list(range(len(TASKS))), task_column: list(TASKS)}),
        root / "meta/tasks.parquet",
    )
    starts = np.concatenate([[0], np.cumsum(lengths)])
    rows = []
    for number, episodes in enumerate(files):
        data = root / f"data/chunk-000/file-{number:03d}.parquet"
        video = root / f"videos/{CAMERA}/chunk-000/file-{number:03d}.mp4"
        for path in (data, video):
            path.parent.mkdir(parents=True, exist_ok=True)
        video.write_bytes(b"video %d" % number)
        tables = [frames(i, lengths[i], int(starts[i])) for i in episodes]
        with pq.ParquetWriter(data, tables[0].schema) as writer:
            for table in tables:
                writer.write_table(table)
        from_s = 0.0
        for i in episodes:
            rows.append(
                {
                    "episode_index": i,
                    "tasks": [TASKS[i % 2]],
                    "length": lengths[i],
                    "data/chunk_index": 0,
                    "data/file_index": number,
                    "dataset_from_index": int(starts[i]),
                    "dataset_to_index": int(starts[i + 1]),
                    f"videos/{CAMERA}/chunk_index": 0,
                    f"videos/{CAMERA}/file_index": number,
                    f"videos/{CAMERA}/from_timestamp": from_s,
                    f"videos/{CAMERA}/to_timestamp": from_s + lengths[i] / FPS,
                    "stats/action/min": [float(i)] * 2,
                    "stats/action/count": [lengths[i]],
                    "meta/episodes/chunk_index": 0,
                    "meta/episodes/file_index": 0,
                }
            )
            from_s += lengths[i] / FPS
    pq.write_table(pa.Table.from_pylist(rows), root / "meta/episodes/chunk-000/file-000.parquet")
    return root
