"""The three tables of an episode set, and how their rows hang together.

    <name>.episodes   one row an episode
    <name>.frames     one row a time step
    <name>.videos     one row a video file, its bytes as they were found

The frames of the first row of episodes stand first among the frames, those of the second next, and
so on: the frames of row i are the `length[i]` rows that begin at `sum(length[:i])`. No frame needs
to be searched for, and no offset can go stale.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from datalake.recording import Feature
from datalake.schema import media_field

__all__ = ["EPISODES", "EPISODE_QUARANTINE", "FRAME_KEYS", "VIDEOS", "frames_schema"]

_FEATURE: Final = pa.struct(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("dtype", pa.string(), nullable=False),
        pa.field("shape", pa.list_(pa.int64())),
        pa.field("names", pa.list_(pa.string())),
        pa.field("unit", pa.string()),
        # JSON.
        pa.field("info", pa.string()),
    ]
)

_STATS: Final = pa.struct(
    [
        pa.field("feature", pa.string(), nullable=False),
        # One value an element of the feature (a channel for pictures), flat, in C order.
        *(
            pa.field(name, pa.list_(pa.float64()))
            for name in ("min", "max", "mean", "std", "q01", "q10", "q50", "q90", "q99")
        ),
        # Values that went into each element's figures.
        pa.field("count", pa.int64()),
    ]
)

EPISODES: Final = pa.schema(
    [
        # Unique in the set and the same on every run.
        pa.field("episode_id", pa.string(), nullable=False),
        # The dataset it came from.
        pa.field("source", pa.string(), nullable=False),
        # Its number there.
        pa.field("episode_index", pa.int64(), nullable=False),
        # The robot, as its source names it.
        pa.field("embodiment", pa.string()),
        # The text of its first frame's task.
        pa.field("task", pa.string()),
        # `<source>/<embodiment>/<task>`.
        pa.field("domain", pa.string()),
        pa.field("split", pa.string()),
        pa.field("fps", pa.float64(), nullable=False),
        # Frames.
        pa.field("length", pa.int64(), nullable=False),
        pa.field("duration_s", pa.float64(), nullable=False),
        # All of its tasks, in the order of their numbers in the source.
        pa.field("tasks", pa.list_(pa.struct([("task_index", pa.int64()), ("task", pa.string())]))),
        pa.field("features", pa.list_(_FEATURE)),
        pa.field("stats", pa.list_(_STATS)),
        # Where its pictures are: times in the file, in seconds, the end exclusive.
        pa.field(
            "videos",
            pa.list_(
                pa.struct(
                    [
                        ("feature", pa.string()),
                        ("video_id", pa.string()),
                        ("from_s", pa.float64()),
                        ("to_s", pa.float64()),
                    ]
                )
            ),
        ),
        # Quality. Null: the source does not say, or there is nothing to measure it on.
        pa.field("success", pa.bool_()),
        # The sum of `next.reward`.
        pa.field("total_reward", pa.float64()),
        # Frames at the head and the tail in which the robot does not move.
        pa.field("idle_head", pa.int64()),
        pa.field("idle_tail", pa.int64()),
        # The largest difference between a timestamp and frame_index / fps.
        pa.field("max_timestamp_error_s", pa.float64()),
        # JSON: what else the source says of it.
        pa.field("metadata", pa.string()),
        # Where it came from, relative to the source's root.
        pa.field("origin", pa.string()),
        # Changes when anything that it was made of does.
        pa.field("stamp", pa.string()),
    ]
)
"""One row an episode."""

FRAME_KEYS: Final = pa.schema(
    [
        pa.field("episode_id", pa.string(), nullable=False),
        # From 0 within the episode, without a gap.
        pa.field("frame_index", pa.int64(), nullable=False),
        # Seconds from the episode's beginning. Sources in float32 are widened, which loses nothing.
        pa.field("timestamp", pa.float64(), nullable=False),
        # A key of the episode's `tasks`.
        pa.field("task_index", pa.int64()),
    ]
)
"""The columns that every frames table begins with; a column for each feature follows."""

VIDEOS: Final = pa.schema(
    [
        # `<source>/<path without its suffix>`.
        pa.field("video_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        # The camera, as its source names it; the spans of episodes say which feature shows it.
        pa.field("feature", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("stamp", pa.string()),
        pa.field("num_bytes", pa.int64(), nullable=False),
        # h264, hevc, av1, …
        pa.field("codec", pa.string()),
        pa.field("pix_fmt", pa.string()),
        pa.field("width", pa.int32()),
        pa.field("height", pa.int32()),
        pa.field("fps", pa.float64()),
        pa.field("num_frames", pa.int64(), nullable=False),
        # Of the container, in seconds.
        pa.field("duration_s", pa.float64()),
        # A presentation time of n is n * num / den seconds.
        pa.field("time_base_num", pa.int64(), nullable=False),
        pa.field("time_base_den", pa.int64(), nullable=False),
        # The presentation time of each frame, ascending.
        pa.field("frame_pts", pa.list_(pa.int64()), nullable=False),
        # Which of these frames are keyframes, and where their packets begin in the file.
        pa.field("keyframes", pa.list_(pa.int64()), nullable=False),
        pa.field("keyframe_offsets", pa.list_(pa.int64()), nullable=False),
        media_field("video", "video"),
    ]
)
"""One row a video file."""

EPISODE_QUARANTINE: Final = pa.schema(
    [
        pa.field("episode_id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("episode_index", pa.int64()),
        # A value of `datalake.quarantine.Reason`; an episode has one row a reason.
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
        # The first frame and the feature concerned, where the fault has them.
        pa.field("frame_index", pa.int64()),
        pa.field("feature", pa.string()),
        # The file, relative to the source's root.
        pa.field("origin", pa.string()),
        pa.field("run_id", pa.string()),
        pa.field("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""One row an episode that an ingest refused, and reason."""


def frames_schema(features: Iterable[Feature]) -> pa.Schema:
    """The schema of a frames table that holds these features; videos have no column."""
    return pa.schema(
        [*FRAME_KEYS, *(feature.field() for feature in features if feature.dtype != "video")]
    )
