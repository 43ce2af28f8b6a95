"""How a robot's state follows its action: by how many frames, and how far beside it.

A recording whose streams are shifted teaches a policy to act too late or too soon; a leader arm
that was not calibrated commands another place than the one that is reached. Ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from curation.quality.robot_motion import Signal
from curation.quality.segments import (
    Flags,
    Numbers,
    Places,
    differences,
    owners,
    quantiles,
    reduced,
)

__all__ = ["lag", "offset", "paired"]

LEAST_CORRELATION: Final = 0.3
"""Below it the lag is not known."""
_ROUNDING: Final = 1e-9


def paired(state: Sequence[str], action: Sequence[str]) -> tuple[list[int], list[int]]:
    """Which dimensions of state and action are of the same joint: places in both.

    Those of the same name, the first of several; where no name is shared and there are as many of
    both, by their places.

    Args:
        state: the name of each dimension; empty where it has none.
        action: likewise.
    """
    places: dict[str, int] = {}
    for place, name in enumerate(action):
        places.setdefault(name, place)
    places.pop("", None)
    # Each is taken once.
    found = [(at, places.pop(name)) for at, name in enumerate(state) if name in places]
    if not found and len(state) == len(action):
        found = [(at, at) for at in range(len(state))]
    return [at for at, _ in found], [at for _, at in found]


def lag(state: Signal, action: Signal, starts: Places, *, furthest: int) -> tuple[Numbers, Numbers]:
    """By how many frames the state follows the action, and how well; each (num_episodes,).

    The correlation at a lag is that of the steps of both from frame to frame, each dimension over
    its range, taken together over dimensions that move in both; steps have a mean of about 0, and
    none is taken off. It is over the steps that lie opposite one another, half of the episode's at
    least: over those of the whole episode, small lags would win. Its largest value tells the lag:
    of several the smallest, and of those the later. Where it is below .3 the lag is NaN; where
    nothing moves both are.

    Args:
        state: of dimensions that are paired.
        action: the same dimensions.
        starts: where episodes begin.
        furthest: frames; lags from -`furthest` to `furthest` are looked at.
    """
    num_episodes, num_frames = len(starts) - 1, int(starts[-1])
    moves = state.scale.moves & action.scale.moves
    if not moves.any() or not num_frames:
        return np.full(num_episodes, np.nan), np.full(num_episodes, np.nan)
    followed, follows = (
        differences(np.ascontiguousarray(each.known(starts)[:, moves]), starts)
        / each.scale.extent[moves]
        for each in (action, state)
    )
    energies = [np.einsum("fd,fd->f", each, each) for each in (followed, follows)]
    place = np.arange(num_frames)
    # No step leads to an episode's first frame.
    inside = place > starts[owners(starts)]
    left = starts[1:][owners(starts)] - place
    best, correlation = np.full(num_episodes, np.nan), np.full(num_episodes, -np.inf)
    for each in sorted(range(-furthest, furthest + 1), key=lambda each: (abs(each), -each)):
        later = abs(each)
        if later >= num_frames:
            continue
        first, second = (followed, follows) if each >= 0 else (follows, followed)
        of_first, of_second = energies if each >= 0 else energies[::-1]
        opposite = (inside & (left > later))[: num_frames - later]
        sums = []
        for values in (
            np.einsum("fd,fd->f", first[: num_frames - later], second[later:]),
            of_first[: num_frames - later],
            of_second[later:],
        ):
            padded = np.zeros(num_frames)
            np.multiply(values, opposite, out=padded[: num_frames - later])
            sums.append(reduced(np.add, padded, starts, 0.0))
        size = np.sqrt(sums[1]) * np.sqrt(sums[2])
        found = np.where(size > 0, sums[0] / np.where(size > 0, size, 1), -np.inf)
        found[2 * later > np.diff(starts) - 1] = -np.inf
        # What differs by rounding alone is equal.
        better = found > correlation + _ROUNDING
        best[better], correlation[better] = each, found[better]
    correlation[np.isneginf(correlation)] = np.nan
    return np.where(correlation >= LEAST_CORRELATION, best, np.nan), correlation


def offset(state: Signal, action: Signal, idle: Flags, starts: Places) -> Numbers:
    """How far the action is beside the state while the robot rests, (num_episodes,).

    The median difference over idle frames of each dimension that moves, over the state's range, of
    the dimension where it is largest. NaN where the robot never rests.

    Args:
        state: of dimensions that are paired.
        action: the same dimensions.
        idle: frames in which neither moves, (num_frames,).
        starts: where episodes begin.
    """
    counts = reduced(np.add, idle, starts, 0)
    resting = np.concatenate([[0], np.cumsum(counts)])
    furthest = np.full(len(counts), np.nan)
    beside = action.known(starts)[idle] - state.known(starts)[idle]
    for dim in np.flatnonzero(state.scale.moves & ~state.scale.is_switch):
        [median] = quantiles(np.ascontiguousarray(beside[:, dim]), resting, (0.5,))
        furthest = np.fmax(furthest, np.abs(median) / state.scale.extent[dim])
    return furthest
