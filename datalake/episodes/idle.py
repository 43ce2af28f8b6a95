"""Idle heads and tails: the frames before a robot begins to move, and after it has stopped.

The rule is ours, and has no unit in it: it reads the same in radians, degrees and ticks.

1. Looked at are the actions (`action`, `action.*`, `actions`) and the robot's state
   (`observation.state`, `observation.state.*`, `state`, `states`); without a state, every
   observation that is a vector or a number. Each element of each of them is judged by itself.
2. A median of three frames takes out single readings that are off.
3. The noise of an element is told from its third differences, which motion hardly has: their
   median magnitude over that of unit noise. An element whose range in the episode is below 12
   times its noise never moves.
4. The robot has left the place where the episode began once an element is further from it than
   2 % of its own range (or 5 times its noise, if that is more). The motion began at the last frame
   before that at which every element was still there, within its noise; the frames before this
   one are the head. The tail is the same read backwards, from where the episode ends.

An episode in which nothing moves is a head from end to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.statistics import numbers_of
from datalake.recording import Feature

__all__ = ["idle_frames"]

_TOLERANCE: Final = 0.02
_NOISES_ALLOWED: Final = 5.0
_NOISES_IN_MOTION: Final = 12.0
# The median magnitude of normal noise with a deviation of 1, and the deviation of its third
# differences (1, -3, 3, -1).
_MEDIAN_OF_NOISE: Final = 0.6745
_THIRD_DIFFERENCE: Final = 20**0.5

_ACTIONS: Final = frozenset({"action", "actions"})
_STATES: Final = frozenset({"observation.state", "state", "states"})

_Numbers = npt.NDArray[np.float64]


def idle_frames(frames: pa.Table, features: Sequence[Feature]) -> tuple[int, int]:
    """The numbers of idle frames at the head and at the tail of one episode.

    Args:
        frames: its frames; columns under the features' names, or as they are stored.
        features: its features. Nothing moves where none of them is an action or a state.

    Returns:
        head and tail; together at most the number of frames. Both are 0 where there is neither an
        action nor a state to tell by.
    """
    chosen = list(_told_by(frames, features))
    if not chosen or not frames.num_rows:
        return 0, 0
    values = np.hstack([_numbers(frames[column], frames.num_rows) for column in chosen])
    noise, smooth = _noise(values), _smoothed(values)
    extent = np.ptp(smooth, axis=0)
    moving = (extent > 0) & (extent >= _NOISES_IN_MOTION * noise)
    if not moving.any():
        return frames.num_rows, 0
    smooth = smooth[:, moving]
    near = (_NOISES_ALLOWED * noise)[moving]
    far = np.maximum(_TOLERANCE * extent[moving], near)
    head = _still(smooth, near, far)
    return head, min(_still(smooth[::-1], near, far), frames.num_rows - head)


def _told_by(frames: pa.Table, features: Sequence[Feature]) -> Iterator[str]:
    """The columns by which motion is told."""
    known = set(frames.column_names)
    numeric = [f for f in features if f.is_numeric and known & {f.name, f.column}]
    actions = [f for f in numeric if _belongs(f.name, _ACTIONS)]
    states = [f for f in numeric if _belongs(f.name, _STATES)]
    observed = [f for f in numeric if f.name.startswith("observation.") and len(f.shape) <= 1]
    for feature in [*actions, *(states or observed)]:
        column = feature.column if feature.column in known else feature.name
        # A feature that other episodes have is null in this one.
        if frames[column].null_count < frames.num_rows:
            yield column


def _belongs(name: str, families: frozenset[str]) -> bool:
    return any(name == family or name.startswith(f"{family}.") for family in families)


def _numbers(column: pa.ChunkedArray, num_rows: int) -> _Numbers:
    """Values as (frames, elements); what is not finite repeats the last value that was."""
    present = column.is_valid().to_numpy()
    known = numbers_of(column)
    values = np.full((num_rows, known.shape[1]), np.nan)
    values[present] = known
    bad = ~np.isfinite(values)
    if bad.any():
        rows = np.where(bad, 0, np.arange(num_rows)[:, None])
        values = np.take_along_axis(values, np.maximum.accumulate(rows, axis=0), axis=0)
        # At the beginning there is none before it: the first one that is.
        first = np.argmax(np.isfinite(values), axis=0)
        values = np.where(np.isfinite(values), values, values[first, np.arange(values.shape[1])])
        values = np.where(np.isfinite(values), values, 0.0)
    return values


def _noise(values: _Numbers) -> _Numbers:
    """The standard deviation of each element's noise; 0 for fewer than four frames."""
    if len(values) < 4:
        return np.zeros(values.shape[1])
    jumps: Any = np.median(np.abs(np.diff(values, 3, axis=0)), axis=0)
    return np.asarray(jumps / (_MEDIAN_OF_NOISE * _THIRD_DIFFERENCE), np.float64)


def _smoothed(values: _Numbers) -> _Numbers:
    """The median of each frame and its two neighbours."""
    if len(values) < 3:
        return values
    inner = _median(values[:-2], values[1:-1], values[2:])
    # Tukey's rule for the ends: where the line through the next two would come from.
    first, last = (
        _median(values[end], inner[end], 3 * inner[end] - 2 * inner[next_to])
        for end, next_to in ((0, min(1, len(inner) - 1)), (-1, max(-2, -len(inner))))
    )
    return np.vstack([first, inner, last])


def _median(one: _Numbers, two: _Numbers, three: _Numbers) -> _Numbers:
    """Element by element; some times as fast as NumPy's, which sorts."""
    low, high = np.minimum(one, two), np.maximum(one, two)
    return np.maximum(low, np.minimum(high, three))


def _still(values: _Numbers, near: _Numbers, far: _Numbers) -> int:
    """How many frames pass before the one from which the robot leaves the first one's place."""
    away = np.abs(values - values[0])
    has_left = (away > far).any(axis=1)
    if not has_left.any():
        return len(values)
    there = (away[: np.argmax(has_left)] <= near).all(axis=1)
    return int(np.flatnonzero(there)[-1])
