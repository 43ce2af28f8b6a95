"""The times of frames, an episode each: gaps, times that go back, and a rate that is not kept."""

from __future__ import annotations

import numpy as np

from curation.quality import robot_frames as flags
from curation.quality.segments import Numbers, Places, reduced

__all__ = ["fps_drift", "num_backward", "num_gaps"]


def num_gaps(timestamps: Numbers, starts: Places, fps: float) -> Numbers:
    """Frames later than one and a half intervals after the one before, (num_episodes,)."""
    found: Numbers = reduced(np.add, flags.gap(timestamps, starts, fps), starts, 0)
    return found.astype(np.float64)


def num_backward(timestamps: Numbers, starts: Places) -> Numbers:
    """Frames that are not later than the one before, (num_episodes,)."""
    found: Numbers = reduced(np.add, flags.backward(timestamps, starts), starts, 0)
    return found.astype(np.float64)


def fps_drift(timestamps: Numbers, starts: Places, fps: float) -> Numbers:
    """How much longer an episode lasts than `fps` says, a share, (num_episodes,).

    .02: at the end 2 % late. Negative: frames come too soon. NaN for less than two frames.
    """
    intervals = np.diff(starts) - 1
    some = intervals > 0
    found = np.full(len(intervals), np.nan)
    lasts = timestamps[starts[1:][some] - 1] - timestamps[starts[:-1][some]]
    found[some] = lasts * fps / intervals[some] - 1 + 0.0  # No negative zero.
    return found
