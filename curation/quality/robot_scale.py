"""How far and how fast each dimension of a robot moves: what all of its thresholds are relative to.

No unit is known: radians, degrees and ticks give the same judgement. Ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from curation.quality.segments import Flags, Numbers, Places, differences, filled

__all__ = ["Scale", "scale_of"]

# The median magnitude of normal noise with a deviation of 1, and the deviation of its third
# differences (1, -3, 3, -1), which motion hardly has.
_MEDIAN_OF_NOISE: Final = 0.6745
_THIRD_DIFFERENCE: Final = 20**0.5
_NOISES_IN_MOTION: Final = 12.0
_SHARE_OF_SWITCH: Final = 0.5


@dataclass(frozen=True)
class Scale:
    """Of one robot; each array (num_dims,)."""

    low: Numbers
    """The least value of all frames."""
    high: Numbers
    """The largest."""
    step: Numbers
    """The median magnitude of steps from frame to frame that are not 0; 0 where all are."""
    noise: Numbers
    """The standard deviation of what is on top of the motion."""

    @property
    def extent(self) -> Numbers:
        """From the least value to the largest."""
        return self.high - self.low

    @property
    def moves(self) -> Flags:
        """Dimensions with a range of more than their noise."""
        return (self.extent > 0) & (self.extent >= _NOISES_IN_MOTION * self.noise)

    @property
    def is_switch(self) -> Flags:
        """Dimensions that go from end to end in a step, as a gripper that is open or closed."""
        return self.moves & (self.step >= _SHARE_OF_SWITCH * self.extent)


def scale_of(values: Numbers, starts: Places) -> Scale:
    """The scale that some episodes of one robot show.

    Values that are not finite are left out. A dimension of which there is none has 0 throughout.

    Args:
        values: (num_frames, num_dims).
        starts: where each episode's frames begin, (num_episodes + 1,).
    """
    known = filled(values, starts)
    num_dims = values.shape[1]
    if not len(known):
        return Scale(*(np.zeros(num_dims) for _ in range(4)))
    finite = np.isfinite(values)
    low = np.min(values, axis=0, where=finite, initial=np.inf)
    high = np.max(values, axis=0, where=finite, initial=-np.inf)
    none = ~finite.any(axis=0)
    steps = np.abs(differences(known, starts))
    third = np.abs(differences(known, starts, 3))
    # The first three of an episode are none; they are 0, and would count as such.
    inside = np.arange(len(known)) >= np.repeat(starts[:-1] + 3, np.diff(starts))
    step, noise = np.zeros(num_dims), np.zeros(num_dims)
    for dim in range(num_dims):
        moved = steps[:, dim][steps[:, dim] > 0]
        step[dim] = np.median(moved) if len(moved) else 0.0
        noise[dim] = np.median(third[inside, dim]) if inside.any() else 0.0
    noise /= _MEDIAN_OF_NOISE * _THIRD_DIFFERENCE
    return Scale(np.where(none, 0.0, low), np.where(none, 0.0, high), step, noise)
