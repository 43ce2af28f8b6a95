"""Messages of several rates brought to one: which message each point of a common grid takes.

Point k is k / fps seconds after the first. The grid is tied to one stream, the reference: with
`hold` its points lie midway between two messages of it, so that messages which come a little early
or late, or which one loop sends one after another, are neither dropped nor repeated. It begins with
the first message of the reference at which every stream has begun, and ends half a frame after the
first of the streams does. A point takes

- `hold`: the latest message at or before it. Nothing from the future leaks into a frame.
- `nearest`: the nearest one; of two as near the earlier. Points lie on the reference's messages.
- `interpolate`: as `hold`, and floating-point numbers on the line between the messages on either
  side; beyond the last message the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["RULES", "Taken", "Times", "grid_of", "interpolated", "median_rate_hz", "take"]

RULES: Final = ("hold", "nearest", "interpolate")

_NANOSECONDS: Final = 1_000_000_000
Times: TypeAlias = npt.NDArray[np.int64]
"""Nanoseconds."""


@dataclass(frozen=True)
class Taken:
    """What a grid takes of a stream of messages."""

    index: npt.NDArray[np.int64]
    """The message of each point, shape (points,)."""
    num_messages: int
    num_dropped: int
    """Messages within the grid's span that no point takes."""
    num_repeated: int
    """Points that take the message of the point before."""
    max_age_s: float
    """The longest time between a point and its message."""
    first_stale: int | None
    """The first point whose message is older than allowed; None: none is."""

    def as_dict(self) -> dict[str, Any]:
        """The counts as JSON values."""
        return {
            "num_messages": self.num_messages,
            "num_dropped": self.num_dropped,
            "num_repeated": self.num_repeated,
            "max_age_s": round(self.max_age_s, 9),
        }


def grid_of(
    reference: Times, starts: Iterable[int], ends: Iterable[int], fps: float, rule: str
) -> Times:
    """The grid's times in nanoseconds; empty where the streams have no time in common.

    Args:
        reference: the times of the stream that it is tied to, ascending.
        starts: the first message of each stream that a point must have.
        ends: the last message of each stream that must go on.
        fps: points a second.
        rule: one of `RULES`.
    """
    half = 0 if rule == "nearest" else round(_NANOSECONDS / fps / 2)
    first = int(np.searchsorted(reference, max(starts)))
    last = min(ends) + half
    if first == len(reference) or int(reference[first]) + half > last:
        return np.empty(0, np.int64)
    begin = int(reference[first]) + half
    steps = np.arange(int((last - begin) * fps / _NANOSECONDS) + 2) * (_NANOSECONDS / fps)
    times = begin + np.rint(steps).astype(np.int64)
    return np.asarray(times[times <= last], np.int64)


def take(times: Times, grid: Times, rule: str, max_age_s: float) -> Taken:
    """What `grid` takes of messages at `times`.

    Args:
        times: in nanoseconds, ascending; the first is not after the grid's begin.
        grid: as `grid_of` makes it, not empty.
        rule: one of `RULES`.
        max_age_s: a point whose message lies further away is stale.
    """
    before = np.maximum(np.searchsorted(times, grid, side="right") - 1, 0)
    index = before
    if rule == "nearest":
        after = np.minimum(before + 1, len(times) - 1)
        index = np.where(np.abs(times[after] - grid) < np.abs(grid - times[before]), after, before)
    age = np.abs(grid - times[index])
    stale = np.flatnonzero(age > max_age_s * _NANOSECONDS)
    inside = np.arange(
        np.searchsorted(times, grid[0], side="left"), np.searchsorted(times, grid[-1], side="right")
    )
    return Taken(
        index,
        num_messages=len(times),
        num_dropped=len(np.setdiff1d(inside, index)),
        num_repeated=int(np.count_nonzero(index[1:] == index[:-1])),
        max_age_s=float(age.max()) / _NANOSECONDS,
        first_stale=int(stale[0]) if len(stale) else None,
    )


def interpolated(times: Times, values: npt.NDArray[Any], grid: Times) -> npt.NDArray[Any]:
    """Values of shape (messages, n) on the lines between messages, at the grid: (points, n).

    Computed in float64 and given in the type of `values`.
    """
    before = np.maximum(np.searchsorted(times, grid, side="right") - 1, 0)
    after = np.minimum(before + 1, len(times) - 1)
    span = times[after] - times[before]
    share = (grid - times[before]) / np.maximum(span, 1)
    low, high = values[before].astype(np.float64), values[after].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        between = low + (high - low) * share[:, None]
    exact = (share <= 0)[:, None]
    return np.where(exact, low, between).astype(values.dtype)


def median_rate_hz(times: Times) -> float | None:
    """Messages a second, by the median interval, to a whole number from 1 on; None: too few."""
    steps = np.diff(times)
    steps = steps[steps > 0]
    if not len(steps):
        return None
    rate = _NANOSECONDS / float(np.median(steps))
    return float(round(rate)) if rate >= 1 else rate
