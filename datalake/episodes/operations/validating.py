"""Looking for faults among the episodes that a set holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet, open_episodes
from datalake.episodes.schema import FRAME_KEYS, VIDEOS
from datalake.episodes.validation import Checks, check_episode
from datalake.episodes.walk import walk
from datalake.lake import Lake
from datalake.quarantine import Reason, Refusal
from datalake.recording import EpisodeData, EpisodeRef, Feature, Finding, VideoSpan
from datalake.video import VideoInfo

__all__ = ["validate"]

_BATCH_ROWS = 256


def validate(
    lake: Lake,
    name: str,
    *,
    episode_ids: Sequence[str] | None = None,
    where: str | None = None,
    checks: Checks | None = None,
) -> Iterator[Finding]:
    """The faults of a set's episodes by the rules of ingest, from the lake's own rows.

    Reads numbers, texts and the indices of the video files; neither pictures nor the files.

    Args:
        lake: the lake.
        name: the episode set.
        episode_ids: look at these episodes only.
        where: look at those only for which this SQL condition on the episodes table holds.
        checks: the tolerances.

    Raises:
        NotFoundError: there is no such set or episode.
    """
    episodes = open_episodes(lake, name)
    chosen = np.sort(episodes.rows(episode_ids=episode_ids, where=where))
    columns = [
        *FRAME_KEYS.names,
        *(f.column for f in episodes.features if f.dtype not in {"image", "video"}),
    ]
    walking = walk(episodes, chosen, columns)
    places = _places(episodes)
    for start in range(0, len(chosen), _BATCH_ROWS):
        rows = episodes.episodes.take(chosen[start : start + _BATCH_ROWS]).to_pylist()
        videos = _videos(episodes, rows, places)
        for row in rows:
            data = _data(row, next(walking))
            yield from check_episode(data, fps=row["fps"], videos=videos, checks=checks)


def _data(row: Mapping[str, Any], frames: pa.Table) -> EpisodeData:
    features = tuple(Feature.from_row(each) for each in row["features"] or ())
    stored = {feature.column: feature for feature in features}
    names = [stored[column].name if column in stored else column for column in frames.column_names]
    kept = [
        name
        for name, column in zip(names, frames.column_names, strict=True)
        if column in stored or column in FRAME_KEYS.names
    ]
    return EpisodeData(
        EpisodeRef(
            row["episode_id"],
            row["episode_index"],
            row["origin"] or "",
            row["length"],
            row["stamp"] or "",
            videos=tuple(
                VideoSpan(span["feature"], span["video_id"], span["from_s"], span["to_s"])
                for span in row["videos"] or ()
            ),
        ),
        frames.rename_columns(names).select([n for n in kept if n != "episode_id"]),
        # Pictures are not looked at.
        tuple(feature for feature in features if feature.dtype != "image"),
        {each["task_index"]: each["task"] or "" for each in row["tasks"] or ()},
        success=row["success"],
        split=row["split"],
        stats={
            each["feature"]: {key: value for key, value in each.items() if value is not None}
            for each in row["stats"] or ()
        },
    )


def _places(episodes: EpisodeSet) -> dict[str, int]:
    """The row of each video file, by its id."""
    ids = episodes.videos.scan(["video_id"]).read_all()["video_id"].to_pylist()
    return {video_id: row for row, video_id in enumerate(ids)}


def _videos(
    episodes: EpisodeSet, rows: Sequence[Mapping[str, Any]], places: Mapping[str, int]
) -> dict[str, VideoInfo | Refusal]:
    """What the videos table says of the files that these rows name."""
    named = {span["video_id"] for row in rows for span in row["videos"] or ()}
    found: dict[str, VideoInfo | Refusal] = {
        each: Refusal(Reason.VIDEO_MISSING, f"the videos table has no file {each}")
        for each in named - places.keys()
    }
    present = sorted(places[each] for each in named & places.keys())
    columns = [field.name for field in VIDEOS if field.name != "video"]
    for row in episodes.videos.take(present, columns).to_pylist():
        found[row["video_id"]] = VideoInfo.from_row(row)
    return found
