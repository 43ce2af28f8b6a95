"""The frames as an episode set, and the stream of its windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.loader.data import SIDE, Frames
from datalake.episodes import EPISODES, create_episodes
from datalake.lake import Lineage, open_lake
from datalake.loader import EpisodeWindows
from datalake.recording import Feature

__all__ = ["source_of", "write_episodes"]

_FPS = 30.0
_CAMERAS = ("observation.images.cam0", "observation.images.cam1")


def write_episodes(data: Frames, folder: Path) -> None:
    """Store the frames, episode by episode."""
    joints = tuple(f"joint_{number}" for number in range(14))
    picture = ((SIDE, SIDE, 3), ("height", "width", "channels"))
    features = (
        Feature("observation.state", "float32", (14,), joints),
        Feature("action", "float32", (14,), joints),
        *(Feature(camera, "image", *picture) for camera in _CAMERAS),
    )
    lineage = Lineage("benchmark")
    made = create_episodes(open_lake(folder), "frames", features, lineage=lineage)
    rows = [_episode(data, number, features) for number in range(data.NUM_BLOCKS)]
    pieces = made.episodes.stager().write(pa.Table.from_pylist(rows, schema=EPISODES))
    frames = made.frames.append(_frames(data, made.frames.schema))
    made.publish(pieces, frames=frames, lineage=lineage)


def _episode(data: Frames, number: int, features: tuple[Feature, ...]) -> dict[str, Any]:
    start, stop = data.episode_starts[number : number + 2].tolist()
    task = data.task(start)
    return {
        **dict.fromkeys(EPISODES.names),
        "episode_id": f"bench/{number:06d}",
        "source": "bench",
        "episode_index": number,
        "embodiment": "arm",
        "task": task,
        "domain": f"bench/arm/{task}",
        "fps": _FPS,
        "length": stop - start,
        "duration_s": (stop - start) / _FPS,
        "tasks": [{"task_index": number % 20, "task": task}],
        "features": [feature.as_row() for feature in features],
        "stats": [],
        "videos": [],
    }


def _frames(data: Frames, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number in range(data.NUM_BLOCKS):
        start, stop = data.episode_starts[number : number + 2].tolist()
        length = stop - start
        columns = [
            pa.array([f"bench/{number:06d}"] * length),
            pa.array(np.arange(length)),
            pa.array(np.arange(length) / _FPS),
            pa.array(np.full(length, number % 20)),
            *(
                pa.FixedSizeListArray.from_arrays(pa.array(values[start:stop].reshape(-1)), 14)
                for values in (data.state, data.action)
            ),
            *(_pictures(data, start, stop, camera) for camera in (0, 1)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _pictures(data: Frames, start: int, stop: int, camera: int) -> pa.Array:
    return pa.array([data.jpegs(row)[camera] for row in range(start, stop)], pa.large_binary())


def source_of(folder: Path, chunk: int, *, decode: bool, keep: bool) -> EpisodeWindows:
    """Windows with the next `chunk` actions."""
    return EpisodeWindows.from_lake(
        open_lake(folder),
        "frames",
        {"action": [step / _FPS for step in range(chunk)]},
        decode=decode,
        keep="decoded" if keep else "encoded",
    )
