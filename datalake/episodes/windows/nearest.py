"""The rows nearest in time: found by asking for few timestamps, never by holding all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Nearest", "nearest_rows"]

Ints: TypeAlias = npt.NDArray[np.int64]
Times: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Nearest:
    """Rows that stand nearest to some times. Both arrays have the shape of the times."""

    rows: Ints
    times_s: Times
    """When these rows are."""


def nearest_rows(
    times_s: Times,
    starts: Ints,
    ends: Ints,
    guesses: Ints,
    timestamps: Callable[[Ints], npt.NDArray[Any]],
) -> Nearest:
    """The row nearest to each time among the rows of its episode; of two equally near the earlier.

    Gallops from the guess and then bisects, all times at once: two rounds where the guess is right,
    and some 2 log2(rows) where it is not.

    Args:
        times_s: (m,).
        starts: the first row of the episode of each, (m,).
        ends: where its rows end, exclusive, (m,); every episode has a row.
        guesses: where to look first, (m,).
        timestamps: gives the times of rows, (k,) each; they never fall within an episode.
    """
    # The last row not after the time, and the first one after it; the rows around an episode
    # stand for never.
    low, high = starts - 1, ends.copy()
    probes = guesses.clip(starts, ends - 1)
    step = 1
    open_ = np.arange(len(times_s))
    while open_.size:
        at = probes[open_]
        is_before = timestamps(at) <= times_s[open_]
        low[open_[is_before]] = at[is_before]
        high[open_[~is_before]] = at[~is_before]
        open_ = open_[high[open_] - low[open_] > 1]
        is_low_new = low[open_] == probes[open_]
        near = np.where(is_low_new, low[open_] + step, high[open_] - step)
        is_inside = (near > low[open_]) & (near < high[open_])
        probes[open_] = np.where(is_inside, near, (low[open_] + high[open_]) // 2)
        step *= 2
    left, right = low.clip(min=starts), high.clip(max=ends - 1)
    both = timestamps(np.concatenate([left, right])).astype(np.float64)
    before, after = both[: len(left)], both[len(left) :]
    is_left = times_s - before <= after - times_s
    return Nearest(np.where(is_left, left, right), np.where(is_left, before, after))
