"""The scale of each robot of an episode set, by features: what measures are relative to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from curation.order import place
from curation.quality.robot_reading import batches, read_frames
from curation.quality.robot_scale import Scale, scale_of
from curation.quality.segments import Numbers, Places
from datalake.episodes import EpisodeSet
from datalake.recording import Feature

__all__ = ["Scales", "scales_of"]

Scales = Mapping[str, Mapping[str, Scale]]
"""By embodiment, and by feature. A robot without a name is the empty one."""

_SAMPLED_NUMBERS: Final = 1 << 21


def scales_of(episodes: EpisodeSet, features: Sequence[Feature]) -> Scales:
    """Ranges over all frames of a robot; steps and noise over a sample of its episodes.

    The sample is the first episodes in the order of a hash of their ids, up to two million numbers:
    the same whatever the order of rows. One pass over the columns. Memory: a batch of frames or the
    sample, and some 200 bytes an episode.

    Args:
        episodes: the set.
        features: numeric ones.
    """
    index = episodes.index
    names = episodes.episodes.scan(["embodiment"]).read_all()["embodiment"].to_pylist()
    known = sorted({name or "" for name in names})
    numbers = {name: number for number, name in enumerate(known)}
    robots = np.array([numbers[name or ""] for name in names], np.int64)
    width = sum(feature.num_elements for feature in features)
    shape = (len(known), width)
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    for part in batches(index.lengths, width):
        rows = np.arange(part.start, part.stop)
        frames = read_frames(episodes, rows, features)
        for robot in np.unique(robots[rows]):
            own = frames.of(np.flatnonzero(robots[rows] == robot))
            values = np.hstack([own.values[feature.name] for feature in features])
            finite = np.isfinite(values)
            least = np.min(values, axis=0, where=finite, initial=np.inf)
            most = np.max(values, axis=0, where=finite, initial=-np.inf)
            low[robot], high[robot] = np.minimum(low[robot], least), np.maximum(high[robot], most)
    none = low > high
    low[none] = high[none] = 0
    ids = index.episode_ids.to_pylist()
    found = {}
    for robot, name in enumerate(known):
        order = sorted(np.flatnonzero(robots == robot).tolist(), key=lambda row: place(0, ids[row]))
        ends = np.cumsum(index.lengths[order]) * max(1, width)
        sampled = np.array(order[: max(1, int(np.searchsorted(ends, _SAMPLED_NUMBERS)))])
        found[name] = _of_robot(episodes, sampled, features, low[robot], high[robot])
    return found


def _of_robot(
    episodes: EpisodeSet,
    rows: Places,
    features: Sequence[Feature],
    low: Numbers,
    high: Numbers,
) -> dict[str, Scale]:
    frames = read_frames(episodes, np.sort(rows), features)
    found, first = {}, 0
    for feature in features:
        own = slice(first, first + feature.num_elements)
        first = own.stop
        there = np.flatnonzero(frames.present[feature.name])
        part = frames.of(there)
        sampled = scale_of(part.values[feature.name], part.starts)
        found[feature.name] = Scale(low[own], high[own], sampled.step, sampled.noise)
    return found
