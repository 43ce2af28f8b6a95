"""Measuring episodes again: their statistics and quality columns."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.episode_set import open_episodes
from datalake.episodes.operations.change import Change
from datalake.episodes.operations.rows import rewritten, with_columns
from datalake.episodes.quality import quality_of
from datalake.episodes.schema import FRAME_KEYS
from datalake.episodes.statistics import sampled_frames, summarise, summarise_pictures
from datalake.episodes.walk import walk
from datalake.errors import MissingPackageError
from datalake.lake import Lake, Lineage
from datalake.recording import Feature

__all__ = ["recompute_stats"]


def recompute_stats(
    lake: Lake,
    name: str,
    *,
    episode_ids: Sequence[str] | None = None,
    where: str | None = None,
    pictures: bool = False,
) -> Change:
    """Measure the numbers of episodes again, and with them the quality columns.

    Statistics of pictures and videos stay what they were, unless `pictures` asks for those of
    pictures; videos are not decoded. Reads the columns of numbers once, episode by episode.

    Args:
        lake: the lake.
        name: the episode set.
        episode_ids: measure these episodes only.
        where: measure those only for which this SQL condition on the episodes table holds.
        pictures: measure pictures too, by the rule of `summarise_pictures`: it decodes a sample.

    Raises:
        NotFoundError: there is no such set or episode.
        ConflictError: another writer changed the set meanwhile; nothing is changed.
    """
    before = open_episodes(lake, name)
    chosen = np.sort(before.rows(episode_ids=episode_ids, where=where))
    known = [
        feature.column
        for feature in before.features
        if feature.is_numeric or (pictures and feature.dtype == "image")
    ]
    walking = walk(before, chosen, [*FRAME_KEYS.names, *known])
    wanted = set(chosen.tolist())
    quality = ("total_reward", "idle_head", "idle_tail", "max_timestamp_error_s")

    def rewrite(batch: pa.RecordBatch, rows: range) -> pa.RecordBatch:
        columns = {
            key: batch.column(key).to_pylist() for key in ("features", "stats", "fps", *quality)
        }
        for at, row in enumerate(rows):
            if row not in wanted:
                continue
            frames = next(walking)
            features = tuple(Feature.from_row(each) for each in columns["features"][at] or ())
            columns["stats"][at] = _measured(frames, features, columns["stats"][at] or ())
            measured = quality_of(frames, features, columns["fps"][at])
            for key in quality:
                columns[key][at] = measured[key]
        return with_columns(batch, {key: columns[key] for key in ("stats", *quality)})

    version = before.version
    if wanted:
        lineage = Lineage(
            "episodes stats",
            {
                "pictures": pictures,
                "episode_ids": list(episode_ids) if episode_ids is not None else None,
                "where": where,
            },
            {name: version},
        )
        version = before.to_write().rewrite(rewritten(before, rewrite), lineage=lineage).version
    return Change(
        "stats",
        name,
        before.version,
        version,
        num_episodes=len(chosen),
        num_frames=int(before.index.lengths[chosen].sum()),
    )


def _measured(
    frames: pa.Table, features: Sequence[Feature], old: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The statistics in the order of the features."""
    # A feature that the episode lacks is null in all of its frames, and is none of its features.
    stats: dict[str, Mapping[str, Any]] = {each["feature"]: each for each in old}
    stats |= {each.feature: each.as_row() for each in summarise(frames, features)}
    for feature in features:
        if feature.dtype == "image" and feature.column in frames.column_names:
            found = summarise_pictures(feature.name, _pictures(frames[feature.column]))
            if found is not None:
                stats[feature.name] = found.as_row()
    return [stats[feature.name] for feature in features if feature.name in stats]


def _pictures(column: pa.ChunkedArray) -> Iterator[npt.NDArray[np.uint8]]:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError.of("pillow", "robot", "Measuring pictures") from error
    for frame in sampled_frames(len(column)).tolist():
        encoded = column[frame].as_py()
        if encoded is not None:
            with Image.open(io.BytesIO(encoded)) as picture:
                yield np.asarray(picture.convert("RGB"))
