"""Faults of single frames of robot episodes: a boolean a frame, for many episodes at once.

Each function takes the frames of some episodes, one after another, and `starts`: where each of them
begins, (num_episodes + 1,). What comes out for an episode does not hang on those beside it.
Thresholds are relative to the robot's own scale (`curation.quality.robot_scale`); values are
(num_frames, num_dims). The rules are ours.
"""

from __future__ import annotations

import numpy as np

from curation.quality.robot_scale import Scale
from curation.quality.segments import (
    Flags,
    Numbers,
    Places,
    differences,
    filled,
    lengths_of_runs,
    owners,
)

__all__ = ["backward", "frozen", "gap", "idle", "jump", "non_finite", "saturated"]


def non_finite(values: Numbers) -> Flags:
    """Frames with NaN or an infinity in any dimension, (num_frames,)."""
    found: Flags = np.logical_or.reduce(~np.isfinite(values), axis=1)
    return found


def idle(
    values: Numbers, starts: Places, scale: Scale, *, window: int, tolerance: float = 0.02
) -> Flags:
    """Frames of spells in which the robot does not move, (num_frames,).

    A frame is idle if it stands in any `window` frames of its episode in which no dimension goes
    further than `tolerance` of the robot's range, or five times its noise where that is more.
    Dimensions that never rise above their noise are not looked at; where no dimension does, all
    frames of episodes as long as the window are idle.

    Args:
        values: state, action, or both side by side.
        starts: where episodes begin.
        scale: of these dimensions.
        window: frames, 2 or more; those of half a second serve well.
        tolerance: a share of the range.
    """
    num_frames = len(values)
    flags = np.zeros(num_frames, np.bool_)
    if num_frames < window:
        return flags
    moves = scale.moves
    allowed = np.maximum(tolerance * scale.extent, 5 * scale.noise)[moves]
    known = filled(values, starts)
    low = high = known if moves.all() else known[:, moves]
    # Extremes of ever longer spans; one of `window` frames begins at each of those that are left.
    span = 1
    while span < window:
        shift = min(span, window - span)
        low = np.minimum(low[:-shift], low[shift:])
        high = np.maximum(high[:-shift], high[shift:])
        span += shift
    owner = owners(starts)
    whole = owner[: num_frames - window + 1] == owner[window - 1 :]
    still = np.flatnonzero(((high - low) <= allowed).all(axis=1) & whole)
    # How many still windows each frame is in.
    change = np.zeros(num_frames + 1, np.int64)
    change[still] += 1
    change[still + window] -= 1
    flags[:] = np.cumsum(change[:-1]) > 0
    return flags


def frozen(values: Numbers, starts: Places, *, least: int) -> Flags:
    """Frames in runs of `least` or more whose values are the same to the bit, (num_frames,).

    A sensor with noise never gives that; a stream that hangs does. A whole run is flagged, its
    first frame included. Not for switches, nor for commands that stay while they hold.

    Args:
        values: of a feature.
        starts: where episodes begin.
        least: frames, 2 or more.
    """
    repeats = np.zeros(len(values), np.bool_)
    if len(values) > 1:
        # NaN after NaN is a stream that hangs, too.
        same = (values[1:] == values[:-1]) | (np.isnan(values[1:]) & np.isnan(values[:-1]))
        repeats[1:] = same.all(axis=1)
        repeats[starts[:-1][starts[:-1] < len(values)]] = False
    long = lengths_of_runs(repeats, starts) >= least - 1
    flags = repeats & long
    # The frame that the others repeat. The first of an episode never is a repeat.
    flags[:-1] |= flags[1:]
    return flags


def jump(
    values: Numbers, starts: Places, scale: Scale, *, steps: float = 10.0, share: float = 0.1
) -> Flags:
    """Frames at which a dimension leaps, (num_frames,): the frame after the leap.

    A step leaps if it is more than `steps` times the robot's typical one, more than `share` of its
    range, and no part of a movement: the steps before and after it, as far as they go the same way,
    are under a quarter of it. A reading that is off for one frame leaps twice. Switches do not
    leap.

    Args:
        values: of a feature; what is not finite is passed over.
        starts: where episodes begin.
        scale: of these dimensions.
        steps: typical steps.
        share: of the range.
    """
    moved = differences(filled(values, starts), starts)
    sizes = np.abs(moved)
    large = sizes > np.maximum(steps * scale.step, share * scale.extent)
    large &= scale.moves & ~scale.is_switch
    flags = np.zeros(len(values), np.bool_)
    # Few are: what is beside them is looked at for these alone.
    frame, dim = np.nonzero(large)
    own = moved[frame, dim]
    before = moved[np.maximum(frame - 1, 0), dim]
    # The first step of an episode is 0, so what follows its last frame has no weight.
    after = moved[np.minimum(frame + 1, len(values) - 1), dim]
    last = frame + 1 >= len(values)
    beside = np.maximum(before * np.sign(own), np.where(last, 0.0, after * np.sign(own)))
    flags[frame[4 * beside < np.abs(own)]] = True
    return flags


def gap(
    timestamps: Numbers, starts: Places, fps: float | Numbers, *, intervals: float = 1.5
) -> Flags:
    """Frames that come later than expected after the one before, (num_frames,).

    Args:
        timestamps: seconds, (num_frames,).
        starts: where episodes begin.
        fps: frames a second, of all episodes or of each, (num_episodes,).
        intervals: what is expected at most, in frames.
    """
    late = intervals / np.broadcast_to(np.asarray(fps, np.float64), (len(starts) - 1,))
    return differences(timestamps, starts) > late[owners(starts)]


def backward(timestamps: Numbers, starts: Places) -> Flags:
    """Frames that are not later than the one before, (num_frames,)."""
    flags = differences(timestamps, starts) <= 0
    flags[starts[:-1][starts[:-1] < len(timestamps)]] = False
    return flags


def saturated(values: Numbers, starts: Places, scale: Scale, *, least: int = 3) -> Flags:
    """Frames at an end of the robot's range for `least` frames or more, (num_frames,).

    The end is the extreme of all frames of the robot, to the bit: what is clipped meets it again
    and again, and a movement that only turns there does so once. Switches are at an end always, and
    are not looked at.

    Args:
        values: of a feature.
        starts: where episodes begin.
        scale: of these dimensions, over all of the robot's frames.
        least: frames.
    """
    flags = np.zeros(len(values), np.bool_)
    for dim in np.flatnonzero(scale.moves & ~scale.is_switch):
        for end in (scale.low[dim], scale.high[dim]):
            at_end = values[:, dim] == end
            if at_end.any():
                flags |= lengths_of_runs(at_end, starts) >= least
    return flags
