"""An episode as rows: its frames, and the one row of the episodes table.

Whoever calls this has checked the episode; what is looked at here is only what the set needs
beyond that: every feature has a column, and every column its type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from datalake.episodes import FRAME_KEYS
from datalake.episodes.quality import domain_of, quality_of
from datalake.episodes.statistics import QUANTILES, numbers_of, summarise
from datalake.pipelines.episodes.features import difference
from datalake.quarantine import Reason, Refusal
from datalake.recording import EpisodeData, Feature

__all__ = ["Source", "episode_row", "frame_rows", "misfit"]

_SUCCESS: Final = "next.success"


@dataclass(frozen=True)
class Source:
    """What all episodes of a corpus have in common. Picklable and small."""

    name: str
    embodiment: str | None
    fps: float
    features: tuple[Feature, ...]
    """Those that are wanted, as the corpus declares them."""
    stored_ids: Mapping[str, str]
    """The ids in the set of the video files that are needed, by their ids in the corpus."""


def misfit(data: EpisodeData, source: Source, *, union: bool) -> Refusal | None:
    """Why the set has no place for an episode's features, if it has none.

    Args:
        data: the episode, without the features that are not wanted.
        source: what the corpus declares.
        union: whether an episode may lack some of it.
    """
    declared = {feature.name: feature for feature in source.features}
    for feature in data.features:
        if feature.name not in declared:
            return Refusal(
                Reason.SHAPE_CHANGED,
                f"the dataset declares no feature {feature.name}, and the episode has it",
            )
        other = difference(declared[feature.name], feature, "the dataset", "the episode")
        if other and feature.is_numeric:
            return Refusal(Reason.SHAPE_CHANGED, other)
        if feature.dtype == "video":
            if feature.name not in {span.feature for span in data.ref.videos} and not union:
                return Refusal(
                    Reason.VIDEO_MISSING, f"the metadata name no video file of {feature.name}"
                )
            continue
        if feature.name not in data.frames.column_names:
            return Refusal(Reason.SHAPE_CHANGED, f"{feature.name} has no column")
        found = data.frames[feature.name].type
        if not _is_kept_by(found, feature.arrow_type):
            detail = f"{feature.name} is declared as {feature.arrow_type} and stored as {found}"
            return Refusal(Reason.SHAPE_CHANGED, detail)
    missing = declared.keys() - {feature.name for feature in data.features}
    if missing and not union:
        return Refusal(
            Reason.SHAPE_CHANGED,
            f"the episode lacks {', '.join(sorted(missing))}, which other episodes have"
            " (--union takes it, with null)",
        )
    return None


def _is_kept_by(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of `found` are stored as `wanted` bit by bit."""
    if pa.types.is_fixed_size_list(wanted):
        # The names of the items do not matter.
        return bool(
            pa.types.is_fixed_size_list(found)
            and found.list_size == wanted.list_size
            and found.value_type == wanted.value_type
        )
    if pa.types.is_string(wanted):
        return bool(pa.types.is_string(found) or pa.types.is_large_string(found))
    if pa.types.is_large_binary(wanted):
        return bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))
    return bool(found == wanted)


def frame_rows(data: EpisodeData, schema: pa.Schema) -> pa.Table:
    """The frames as rows of the frames table; features that the episode lacks are null.

    Args:
        data: an episode that has no `misfit`.
        schema: of the frames table.
    """
    frames = data.frames
    length = frames.num_rows
    features = {f.column: f.name for f in data.features if f.dtype != "video"}
    columns = []
    for field in schema:
        if field.name in FRAME_KEYS.names:
            columns.append(_key(field, data, length))
        elif field.name in features:
            columns.append(frames[features[field.name]].cast(field.type))
        else:
            columns.append(pa.nulls(length, field.type))
    return pa.table(columns, schema=schema)


def _key(field: pa.Field, data: EpisodeData, length: int) -> pa.Array | pa.ChunkedArray:
    if field.name == "episode_id":
        return pa.repeat(data.ref.episode_id, length)
    if field.name == "frame_index":
        return pa.array(np.arange(length), field.type)
    if field.name in data.frames.column_names:
        return data.frames[field.name].cast(field.type)
    # Only `task_index` may be absent; a source without numbers has one task, number 0.
    return pa.repeat(pa.scalar(0 if 0 in data.tasks else None, field.type), length)


def episode_row(data: EpisodeData, frames: pa.Table, source: Source) -> dict[str, Any]:
    """The row of the episodes table.

    Args:
        data: the episode.
        frames: what `frame_rows` made of it.
        source: where it came from.
    """
    ref = data.ref
    numbers = frames["task_index"]
    first = numbers[0].as_py() if len(numbers) else None
    task = data.tasks.get(first) if first is not None else None
    return {
        "episode_id": ref.episode_id,
        "source": source.name,
        "episode_index": ref.episode_index,
        "embodiment": source.embodiment,
        "task": task,
        "domain": domain_of(source.name, source.embodiment, task),
        "split": data.split,
        "fps": source.fps,
        **quality_of(frames, data.features, source.fps),
        "tasks": [{"task_index": n, "task": text} for n, text in sorted(data.tasks.items())],
        "features": [feature.as_row() for feature in data.features],
        "stats": _stats(data, frames),
        "videos": [
            {
                "feature": span.feature,
                "video_id": source.stored_ids[span.video_id],
                "from_s": span.from_s,
                "to_s": span.to_s,
            }
            for span in ref.videos
        ],
        "success": _success(data),
        "metadata": _json(data.metadata) if data.metadata else None,
        "origin": ref.origin,
        "stamp": ref.stamp,
    }


def _stats(data: EpisodeData, frames: pa.Table) -> list[dict[str, Any]]:
    """Of numbers what the data are; of pictures what the source says, which costs no decoding."""
    found = {stats.feature: stats.as_row() for stats in summarise(frames, data.features)}
    for feature in data.features:
        said = data.stats.get(feature.name)
        if feature.dtype in ("video", "image") and said:
            found[feature.name] = _said(feature.name, said)
    return [found[feature.name] for feature in data.features if feature.name in found]


def _said(feature: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """An element of the column `stats`; what the source does not say is null."""
    said = {name: np.ravel(value) for name, value in figures.items() if value is not None}
    names = ("min", "max", "mean", "std", *QUANTILES)
    return {
        "feature": feature,
        **{name: said[name].astype(np.float64) if name in said else None for name in names},
        "count": int(said["count"][0]) if "count" in said else None,
    }


def _success(data: EpisodeData) -> bool | None:
    if data.success is not None:
        return data.success
    if not any(feature.name == _SUCCESS and feature.is_numeric for feature in data.features):
        return None
    said = numbers_of(data.frames[_SUCCESS])
    return bool(said.any()) if said.size else None


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """What NumPy and others have that JSON has not."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Sequence):
        return list(value)
    return str(value)
