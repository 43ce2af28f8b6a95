"""Robot episodes in the lake: their tables, and what is done with them."""

from datalake.episodes.episode_set import (
    EpisodeSet,
    Index,
    create_episodes,
    episode_sets,
    open_episodes,
    set_of,
)
from datalake.episodes.schema import EPISODES, FRAME_KEYS, VIDEOS, frames_schema

__all__ = [
    "EPISODES",
    "FRAME_KEYS",
    "VIDEOS",
    "EpisodeSet",
    "Index",
    "create_episodes",
    "episode_sets",
    "frames_schema",
    "open_episodes",
    "set_of",
]
