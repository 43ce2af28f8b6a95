"""What a set holds, in a few numbers: read from the episodes table and the videos' facts alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, Final

from datalake.episodes.episode_set import EpisodeSet

__all__ = ["SetSummary", "summarise_episodes"]

_GROUPED: Final = ("source", "embodiment", "task", "split")


@dataclass(frozen=True)
class SetSummary:
    """The numbers of a set."""

    num_episodes: int
    num_frames: int
    duration_s: float
    fps: tuple[float, ...]
    """The frame rates that occur, ascending."""
    shortest: int
    """Frames of the shortest episode; 0 if there is none."""
    longest: int
    num_bytes: int
    """Of the data files of all three tables."""
    groups: dict[str, list[dict[str, Any]]]
    """By `source`, `embodiment`, `task` and `split`: how many episodes and frames each value has,
    the most frequent first."""
    cameras: list[dict[str, Any]]
    """How many files and bytes each camera has, as its source names it."""


def summarise_episodes(episodes: EpisodeSet) -> SetSummary:
    """The numbers of a set. Holds one number for each value of a group."""
    counts: dict[str, Counter[str | None]] = {key: Counter() for key in _GROUPED}
    frames: dict[str, Counter[str | None]] = {key: Counter() for key in _GROUPED}
    rates: set[float] = set()
    lengths: list[int] = []
    duration_s = 0.0
    for batch in episodes.episodes.scan([*_GROUPED, "fps", "length", "duration_s"]):
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        lengths += columns["length"]
        rates |= set(columns["fps"])
        duration_s += sum(columns["duration_s"])
        for key in _GROUPED:
            counts[key].update(columns[key])
            for value, length in zip(columns[key], columns["length"], strict=True):
                frames[key][value] += length
    return SetSummary(
        num_episodes=len(lengths),
        num_frames=sum(lengths),
        duration_s=duration_s,
        fps=tuple(sorted(rates)),
        shortest=min(lengths, default=0),
        longest=max(lengths, default=0),
        num_bytes=sum(
            table.num_bytes() for table in (episodes.episodes, episodes.frames, episodes.videos)
        ),
        groups={
            key: [
                {key: value, "num_episodes": number, "num_frames": frames[key][value]}
                for value, number in counts[key].most_common()
            ]
            for key in _GROUPED
        },
        cameras=_cameras(episodes),
    )


def _cameras(episodes: EpisodeSet) -> list[dict[str, Any]]:
    found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    facts = ("feature", "codec", "width", "height", "fps")
    for batch in episodes.videos.scan([*facts, "num_frames", "num_bytes"]):
        for row in batch.to_pylist():
            camera = found[tuple(row[name] for name in facts)]
            camera.update(num_files=1, num_frames=row["num_frames"], num_bytes=row["num_bytes"])
    return [
        {**dict(zip(facts, camera, strict=True)), **numbers} for camera, numbers in found.items()
    ]
