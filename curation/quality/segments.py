"""Numbers of many episodes at once: the frames of all of them lie in one array, one after another.

`starts` says where each begins: (num_episodes + 1,), from 0 to the number of frames. Nothing here
loops over episodes, and what comes out for one does not hang on those beside it, to the bit: sums
are within an episode, never differences of running sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["differences", "filled", "lengths_of_runs", "owners", "quantiles", "reduced"]

Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


def owners(starts: Places) -> Places:
    """The number of the episode that each frame belongs to, (num_frames,)."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def reduced(ufunc: np.ufunc, values: npt.NDArray[Any], starts: Places, empty: Any) -> Any:
    """What `ufunc` makes of the frames of each episode, (num_episodes, …).

    Args:
        ufunc: `np.add`, `np.maximum`, …
        values: (num_frames, …).
        starts: (num_episodes + 1,).
        empty: the value of episodes without frames, which `reduceat` has no notion of.
    """
    dtype = np.int64 if values.dtype == np.bool_ and ufunc is np.add else values.dtype
    found = np.full((len(starts) - 1, *values.shape[1:]), empty, dtype)
    some = np.diff(starts) > 0
    if some.any():
        found[some] = ufunc.reduceat(values, starts[:-1][some], axis=0, dtype=dtype)
    return found


def differences(values: Numbers, starts: Places, order: int = 1) -> Numbers:
    """Differences from frame to frame, as many as frames; the first `order` of an episode are 0.

    Args:
        values: (num_frames, …).
        starts: (num_episodes + 1,).
        order: how often differences are taken; the third give the jerk.
    """
    found = np.zeros_like(values)
    if len(values) > order:
        found[order:] = np.diff(values, order, axis=0)
        # Those that reach into the episode before.
        first = starts[:-1, None] + np.arange(order)
        found[first[first < starts[1:, None]]] = 0
    return found


def filled(values: Numbers, starts: Places) -> Numbers:
    """What is not finite replaced by the last value of its dimension that was, in its episode.

    At an episode's beginning by the first one that is; where none is, by 0. Itself where all are
    finite.

    Args:
        values: (num_frames, num_dims).
        starts: (num_episodes + 1,).
    """
    finite = np.isfinite(values)
    if finite.all():
        return values
    first = starts[owners(starts)][:, None]
    last = starts[1:][owners(starts)][:, None] - 1
    places = np.arange(len(values))[:, None]
    before = np.maximum.accumulate(np.where(finite, places, -1), axis=0)
    after = np.where(finite, places, len(values))[::-1]
    after = np.minimum.accumulate(after, axis=0)[::-1]
    chosen = np.where(before >= first, before, np.where(after <= last, after, -1))
    taken = np.take_along_axis(values, np.maximum(chosen, 0), axis=0)
    return np.where(chosen >= 0, taken, 0.0)


def lengths_of_runs(flags: Flags, starts: Places) -> Places:
    """How long the run of set flags is that each frame stands in, 0 where it is not set.

    Args:
        flags: (num_frames,).
        starts: (num_episodes + 1,); no run goes from one episode into the next.
    """
    if not len(flags):
        return np.zeros(0, np.int64)
    begins = np.zeros(len(flags), np.bool_)
    begins[starts[:-1][np.diff(starts) > 0]] = True
    begins[1:] |= flags[1:] != flags[:-1]
    places = np.flatnonzero(begins)
    sizes = np.diff(np.append(places, len(flags)))
    return np.where(flags, np.repeat(sizes, sizes), 0)


def quantiles(values: Numbers, starts: Places, shares: tuple[float, ...]) -> Numbers:
    """Quantiles of each episode, (len(shares), num_episodes), interpolated as NumPy's.

    Episodes of like length are sorted as the rows of one matrix, at most half of it padding.

    Args:
        values: (num_frames,), none NaN.
        starts: (num_episodes + 1,). Episodes without frames have NaN.
        shares: each from 0 to 1.
    """
    sizes = np.diff(starts)
    found = np.full((len(shares), len(sizes)), np.nan)
    magnitude = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    for each in np.unique(magnitude[sizes > 0]):
        rows = np.flatnonzero((magnitude == each) & (sizes > 0))
        width = int(sizes[rows].max())
        columns = np.arange(width)
        places = np.minimum(starts[rows, None] + columns, len(values) - 1)
        # Infinities at the end, where no quantile looks.
        table = np.where(columns < sizes[rows, None], values[places], np.inf)
        table.sort(axis=1)
        for number, share in enumerate(shares):
            place = share * (sizes[rows] - 1)
            low = np.floor(place).astype(np.int64)
            high = np.minimum(low + 1, sizes[rows] - 1)
            one, two = table[np.arange(len(rows)), low], table[np.arange(len(rows)), high]
            found[number, rows] = one + (two - one) * (place - low)
    return found
