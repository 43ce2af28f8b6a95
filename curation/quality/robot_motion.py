"""How robots move, an episode each: smoothness, rest, leaps, ends of the range, dead dimensions.

All functions take the frames of some episodes of one robot and give one number an episode, NaN
where there is nothing to measure it on. Thresholds are the robot's own (`Scale`). Ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from curation.quality import robot_frames as flags
from curation.quality.robot_scale import Scale
from curation.quality.segments import (
    Flags,
    Numbers,
    Places,
    differences,
    filled,
    lengths_of_runs,
    owners,
    quantiles,
    reduced,
)

__all__ = [
    "Signal",
    "dead_dimensions",
    "idleness",
    "jerk",
    "longest_share",
    "num_jumps",
    "num_non_finite",
    "share",
]


@dataclass(frozen=True)
class Signal:
    """State or action of some episodes of one robot."""

    values: Numbers
    """(num_frames, num_dims), as found."""
    scale: Scale

    def known(self, starts: Places) -> Numbers:
        """With what is not finite filled in."""
        return filled(self.values, starts)

    def only(self, dims: Sequence[int]) -> Signal:
        """Some of its dimensions, in this order."""
        at = np.asarray(dims, np.int64)
        scale = self.scale
        parts = (scale.low[at], scale.high[at], scale.step[at], scale.noise[at])
        return Signal(np.ascontiguousarray(self.values[:, at]), Scale(*parts))


def jerk(signal: Signal, starts: Places, fps: float) -> tuple[Numbers, Numbers]:
    """Median and 95th percentile of the jerk's magnitude, each (num_episodes,).

    The jerk is the third difference, times `fps` cubed, of each dimension over its range: in ranges
    a second cubed. Its magnitude is the root of the mean square over dimensions that move and are
    no switches. Less than four frames have none.

    Args:
        signal: what moves.
        starts: where episodes begin.
        fps: frames a second.
    """
    counted = signal.scale.moves & ~signal.scale.is_switch
    lengths = np.maximum(np.diff(starts) - 3, 0)
    inner = np.concatenate([[0], np.cumsum(lengths)])
    if not counted.any() or not inner[-1]:
        nothing = np.full(len(lengths), np.nan)
        return nothing, nothing
    moved = signal.known(starts)[:, counted] / signal.scale.extent[counted]
    third = differences(moved, starts, 3) * fps**3
    magnitude = np.sqrt(np.einsum("fd,fd->f", third, third) / counted.sum())
    inside = np.arange(len(magnitude)) >= starts[owners(starts)] + 3
    median, p95 = quantiles(magnitude[inside], inner, (0.5, 0.95))
    return median, p95


def share(found: Flags, starts: Places) -> Numbers:
    """The share of each episode's frames that are flagged, (num_episodes,)."""
    lengths = np.diff(starts)
    count = reduced(np.add, found, starts, 0)
    return np.where(lengths > 0, count / np.maximum(lengths, 1), np.nan)


def longest_share(found: Flags, starts: Places) -> Numbers:
    """The longest run of flagged frames, a share of the episode, (num_episodes,)."""
    lengths = np.diff(starts)
    longest = reduced(np.maximum, lengths_of_runs(found, starts), starts, 0)
    return np.where(lengths > 0, longest / np.maximum(lengths, 1), np.nan)


def idleness(idle: Flags, starts: Places) -> tuple[Numbers, Numbers, Numbers]:
    """The share of idle frames, and how many lead and trail; each (num_episodes,).

    An episode that is idle throughout leads from end to end, and has none that trail.
    """
    lengths = np.diff(starts)
    some = lengths > 0
    runs = lengths_of_runs(idle, starts)
    leading, trailing = np.zeros(len(lengths)), np.zeros(len(lengths))
    leading[some] = runs[starts[:-1][some]]
    trailing[some] = runs[starts[1:][some] - 1]
    trailing[leading == lengths] = 0
    return share(idle, starts), leading, trailing


def dead_dimensions(signal: Signal, starts: Places) -> tuple[Numbers, Numbers]:
    """How many dimensions are constant in each episode, and how many of them are frozen.

    Frozen are those that move in other episodes of the robot: a joint or a sensor that hung.
    Switches may well stay where they are, and are constant only. Both (num_episodes,).
    """
    known = signal.known(starts)
    low = reduced(np.minimum, known, starts, 0.0)
    constant = reduced(np.maximum, known, starts, 0.0) == low
    elsewhere = signal.scale.moves & ~signal.scale.is_switch
    none = np.diff(starts) < 2
    counts = (constant.sum(axis=1), (constant & elsewhere).sum(axis=1))
    one, two = (np.where(none, np.nan, count) for count in counts)
    return one, two


def num_jumps(signal: Signal, starts: Places) -> Numbers:
    """Frames at which a dimension leaps, (num_episodes,)."""
    found: Numbers = reduced(
        np.add, flags.jump(signal.values, starts, signal.scale), starts, 0
    ).astype(np.float64)
    return found


def num_non_finite(signal: Signal, starts: Places) -> Numbers:
    """Numbers that are NaN or infinite, (num_episodes,)."""
    bad = np.add.reduce(~np.isfinite(signal.values), axis=1, dtype=np.int64)
    found: Numbers = reduced(np.add, bad, starts, 0).astype(np.float64)
    return found
