"""State or action of episodes as one signal, and which episodes can be judged together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from curation.quality.robot_motion import Signal
from curation.quality.robot_reading import Frames
from curation.quality.robot_scale import Scale
from curation.quality.segments import Numbers
from datalake.recording import Feature

__all__ = ["alike", "beside", "signal_of"]


def signal_of(
    frames: Frames, features: Sequence[Feature], scales: Mapping[str, Scale]
) -> Signal | None:
    """The features side by side; None where the episodes have none of them.

    Args:
        frames: of episodes of one robot that have the same features.
        features: numeric ones, all of which were read.
        scales: of the robot, by feature.
    """
    signal = None
    for each in features:
        if frames.present[each.name].any():
            part = Signal(frames.values[each.name], scales[each.name])
            signal = part if signal is None else beside(signal, part)
    return signal


def beside(one: Signal, other: Signal) -> Signal:
    """Both as one signal: the dimensions of the first, then those of the other."""
    parts = (
        np.concatenate([getattr(one.scale, part), getattr(other.scale, part)])
        for part in ("low", "high", "step", "noise")
    )
    return Signal(np.hstack([one.values, other.values]), Scale(*parts))


def alike(
    robots: npt.NDArray[np.object_], fps: Numbers, frames: Frames
) -> list[npt.NDArray[np.int64]]:
    """The episodes of each robot, rate and set of features.

    Args:
        robots: of each episode, (num_episodes,).
        fps: likewise.
        frames: theirs.
    """
    columns = [np.unique(robots.astype(str), return_inverse=True)[1]]
    columns.append(np.unique(fps, return_inverse=True)[1])
    columns += [present.astype(np.int64) for present in frames.present.values()]
    kinds = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(kinds == kind) for kind in range(kinds.max() + 1)]
