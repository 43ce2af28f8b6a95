"""Episode sets that the tests of the writers make: any features, any frames, no videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from datalake.episodes import EPISODES, EpisodeSet, create_episodes, frames_schema
from datalake.lake import Lake, Lineage
from datalake.recording import Feature

ODD = (
    Feature("observation.state", "float64", (3,), ("x", "y", "z")),
    Feature("action", "float32", (2,)),
    Feature("observation.map", "int16", (2, 3)),
    Feature("observation.cube", "float32", (2, 1, 2)),
    Feature("observation.half", "float16", (2,)),
    Feature("observation.counts", "uint32", (4,)),
    Feature("observation.single", "float32", (1, 1)),
    Feature("next.done", "bool", ()),
    Feature("next.reward", "float32", (1,)),
    Feature("comment", "string", (1,)),
    Feature("level", "uint8", (1,)),
    Feature("stamp_ns", "int64", (1,)),
)
"""Every kind of number and shape that LeRobot holds."""


def odd_values(feature: Feature, length: int, seed: int) -> Any:
    """Values with extremes, NaN and texts beyond ASCII, (length, elements)."""
    rng = np.random.default_rng([seed, len(feature.name)])
    if feature.dtype == "string":
        return [f"{seed}/{i} – ✓ „so“" for i in range(length)]
    shape = (length, feature.num_elements)
    if feature.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    dtype = np.dtype(feature.dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        values.flat[0] = limits.max
        return values
    values = rng.normal(size=shape).astype(dtype)
    values.flat[0] = np.finfo(dtype).smallest_subnormal
    values.flat[-1] = 60_000
    if feature.name == "action" and length > 2:
        values[2] = np.nan
    return values


def write_set(
    lake: Lake,
    name: str,
    features: Sequence[Feature],
    lengths: Sequence[int] = (5, 3, 8),
    *,
    fps: float | Sequence[float] = 10.0,
    embodiments: Sequence[str | None] = ("arm",),
    tasks: Sequence[Sequence[tuple[int, str]]] = (((0, "pick ü"),),),
    splits: Sequence[str | None] = (None,),
    own_features: Mapping[int, Sequence[Feature]] | None = None,
    missing: Sequence[tuple[int, str]] = (),
    spans: Mapping[int, list[dict[str, Any]]] | None = None,
    videos: pa.Table | None = None,
) -> EpisodeSet:
    """Create a set; what is given a few times goes round, episode by episode.

    `own_features`: what an episode says it has, by its number. `missing`: episodes and the features
    that are null in them.
    """
    lineage = Lineage("test")
    made = create_episodes(lake, name, features, lineage=lineage)
    schema = frames_schema(features)
    rows, frames = [], []
    for number, length in enumerate(lengths):
        rate = fps if isinstance(fps, float) else fps[number % len(fps)]
        own_tasks = tasks[number % len(tasks)]
        numbers = (
            [own_tasks[i * len(own_tasks) // length][0] for i in range(length)]
            if own_tasks
            else None
        )
        columns: dict[str, Any] = {
            "episode_id": [f"odd/{number:06d}"] * length,
            "frame_index": np.arange(length),
            "timestamp": (np.arange(length) / rate).astype("float32").astype("float64"),
            "task_index": numbers if numbers else pa.nulls(length, pa.int64()),
        }
        for feature in features:
            if feature.dtype == "video":
                continue
            values = odd_values(feature, length, number)
            if (number, feature.name) in missing:
                columns[feature.column] = pa.nulls(length, feature.arrow_type)
            elif feature.dtype == "string":
                columns[feature.column] = values
            else:
                flat = pa.array(values.reshape(-1))
                is_one = feature.num_elements == 1
                columns[feature.column] = (
                    flat
                    if is_one
                    else pa.FixedSizeListArray.from_arrays(flat, feature.num_elements)
                )
        frames.append(pa.table(columns, schema=schema))
        declared = (own_features or {}).get(number, features)
        rows.append(
            {
                **dict.fromkeys(EPISODES.names),
                "episode_id": f"odd/{number:06d}",
                "source": "odd",
                "episode_index": number,
                "embodiment": embodiments[number % len(embodiments)],
                "task": own_tasks[0][1] if own_tasks else None,
                "split": splits[number % len(splits)],
                "fps": rate,
                "length": length,
                "duration_s": length / rate,
                "tasks": [{"task_index": index, "task": text} for index, text in own_tasks],
                "features": [feature.as_row() for feature in declared],
                "stats": [],
                "videos": (spans or {}).get(number, []),
            }
        )
    pieces = made.episodes.stager().write(pa.Table.from_pylist(rows, schema=EPISODES))
    return made.publish(
        pieces,
        frames=made.frames.append(pa.concat_tables(frames)),
        videos=None if videos is None else made.videos.append(videos),
        lineage=lineage,
    )
