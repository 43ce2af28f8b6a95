"""What the LeRobot writers call their files, and how large files get. Readers read info.json."""

from __future__ import annotations

from typing import Final

__all__ = [
    "CHUNK_FILES",
    "DATA_FILE_MB",
    "EPISODES_PATH",
    "INFO_PATH",
    "STATS_PATH",
    "TASKS_PATH",
    "V21_DATA_PATH",
    "V21_EPISODES_PATH",
    "V21_STATS_PATH",
    "V21_TASKS_PATH",
    "V21_VIDEO_PATH",
    "V30_DATA_PATH",
    "V30_VIDEO_PATH",
    "VIDEO_FILE_MB",
    "chunk_and_file",
]

INFO_PATH: Final = "meta/info.json"
STATS_PATH: Final = "meta/stats.json"
TASKS_PATH: Final = "meta/tasks.parquet"
EPISODES_PATH: Final = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
V30_DATA_PATH: Final = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
V30_VIDEO_PATH: Final = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"

V21_TASKS_PATH: Final = "meta/tasks.jsonl"
V21_EPISODES_PATH: Final = "meta/episodes.jsonl"
V21_STATS_PATH: Final = "meta/episodes_stats.jsonl"
V21_DATA_PATH: Final = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
V21_VIDEO_PATH: Final = (
    "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
)

CHUNK_FILES: Final = 1000
"""Files in a folder; in version 2.1 episodes."""
DATA_FILE_MB: Final = 100
VIDEO_FILE_MB: Final = 200
"""A file is closed before the episode that would make it larger."""


def chunk_and_file(number: int) -> dict[str, int]:
    """The indices of the n-th file of a kind, by the names that version 3.0 gives them."""
    return {"chunk_index": number // CHUNK_FILES, "file_index": number % CHUNK_FILES}
