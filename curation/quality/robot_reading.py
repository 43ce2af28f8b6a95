"""The state and action of episodes as arrays, many episodes at a time.

Features are taken for state or action by their names, as LeRobot and others give them; what is
told from them is in `curation.quality.robot`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.quality.segments import Flags, Numbers, Places, reduced
from datalake.episodes import EpisodeSet
from datalake.episodes.statistics.columns import numbers_of
from datalake.recording import Feature

__all__ = ["Frames", "batches", "features_of", "read_frames"]

_STATES: Final = ("observation.state", "state", "states")
_ACTIONS: Final = ("action", "actions")
BATCH_NUMBERS: Final = 1 << 20


@dataclass(frozen=True)
class Frames:
    """Frames of some episodes, one episode after another."""

    starts: Places
    """(num_episodes + 1,)."""
    timestamps: Numbers
    """Seconds, (num_frames,)."""
    values: dict[str, Numbers]
    """By feature, (num_frames, num_elements); NaN where there is none."""
    present: dict[str, Flags]
    """By feature: which episodes have it, (num_episodes,)."""

    def of(self, episodes: npt.NDArray[np.int64]) -> Frames:
        """Those of some episodes, ascending; itself for all of them."""
        if len(episodes) == len(self.starts) - 1:
            return self
        chosen = np.zeros(len(self.starts) - 1, np.bool_)
        chosen[episodes] = True
        lengths = np.diff(self.starts)
        frames = np.repeat(chosen, lengths)
        return Frames(
            np.concatenate([[0], np.cumsum(lengths[chosen])]),
            self.timestamps[frames],
            {name: values[frames] for name, values in self.values.items()},
            {name: present[chosen] for name, present in self.present.items()},
        )


def features_of(episodes: EpisodeSet) -> tuple[list[Feature], list[Feature]]:
    """The numeric features that are state, and those that are action, in the set's order.

    `observation.state`, `state` or `states`, and `action` or `actions`, each also with a part after
    a dot.
    """
    numeric = [feature for feature in episodes.features if feature.is_numeric]
    found = tuple(
        [each for each in numeric if any(_belongs(each.name, family) for family in families)]
        for families in (_STATES, _ACTIONS)
    )
    return found[0], found[1]


def _belongs(name: str, family: str) -> bool:
    return name == family or name.startswith(f"{family}.")


def batches(lengths: npt.NDArray[np.int64], num_numbers: int) -> Iterator[slice]:
    """Runs of episodes of at most a million numbers together, one episode at least.

    Args:
        lengths: frames of each episode.
        num_numbers: of a frame.
    """
    most = max(1, BATCH_NUMBERS // max(1, num_numbers))
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        before = ends[start] - lengths[start]
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


def read_frames(
    episodes: EpisodeSet, rows: npt.NDArray[np.int64], features: Sequence[Feature]
) -> Frames:
    """The frames of some episodes.

    Args:
        episodes: the set.
        rows: rows of its episodes table, in any order; none twice.
        features: numeric ones.
    """
    columns = ["timestamp", *(feature.column for feature in features)]
    begin, lengths = episodes.index.starts[rows], episodes.index.lengths[rows]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    if (np.diff(rows) == 1).all():
        read = episodes.frames.read(int(begin[0]), int(begin[0] + starts[-1]), columns)
    else:
        # The rows of each episode count up from where it begins.
        places = np.arange(starts[-1]) + np.repeat(begin - starts[:-1], lengths)
        read = episodes.frames.take(places, columns)
    values, present = {}, {}
    for feature in features:
        values[feature.name], there = _values(read[feature.column], feature.num_elements)
        present[feature.name] = reduced(np.logical_or, there, starts, False)
    timestamps = read["timestamp"].to_numpy().astype(np.float64)
    return Frames(starts, timestamps, values, present)


def _values(column: pa.ChunkedArray, num_elements: int) -> tuple[Numbers, Flags]:
    there = column.is_valid().to_numpy()
    known = numbers_of(column)
    if len(known) == len(there):
        return known.astype(np.float64), there
    values = np.full((len(there), num_elements), np.nan)
    values[there] = known
    return values, there
