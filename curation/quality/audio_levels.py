"""Levels of a clip: peak, RMS, DC offset, clipping. Relative to full scale; no absolute unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["LOWEST_DBFS", "Levels", "clipping_share", "decibels", "levels_of"]

Samples = npt.NDArray[np.float32]

LOWEST_DBFS: Final = -120.0
"""What digital silence is given, so that a column of levels has no infinity in it."""

_FLAT_RUN: Final = 3
"""Consecutive equal samples at the extreme that make a clipped run."""
_LOWEST_CLIPPED: Final = 1e-3
"""Below this extreme (-60 dBFS) equal samples are a coarse quantization, not clipping."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of one clip."""

    peak_dbfs: float
    """20 log10 of the largest magnitude of any channel; 0 is full scale, more is over it."""
    rms_dbfs: float
    """20 log10 of the root mean square, the DC offset taken away. A full-scale sine has -3.01."""
    dc_offset: float
    """The mean sample, a share of full scale, signed."""


def decibels(amplitude: float) -> float:
    """20 log10 of an amplitude, no lower than `LOWEST_DBFS`."""
    return max(20 * float(np.log10(amplitude)), LOWEST_DBFS) if amplitude > 0 else LOWEST_DBFS


def levels_of(peak: float, power: float, mean: float) -> Levels:
    """Levels from the largest magnitude, the mean square and the mean of the samples."""
    return Levels(decibels(peak), decibels(max(power - mean * mean, 0.0) ** 0.5), mean)


def clipping_share(channel: Samples) -> float:
    """The share of samples that lie in clipped runs.

    A run is three or more equal samples in a row at the clip's own highest or lowest value. So
    audio that was clipped and then made softer is found too, and a peak that is touched once is
    not clipped. Each side counts for itself, since an offset may clip one side alone. Ours; lossy
    coding after the clipping blurs the runs and hides them.

    Args:
        channel: (num_samples,), one channel.
    """
    if not channel.size:
        return 0.0
    num_clipped = 0
    for extreme in (channel.max(), channel.min()):
        if abs(extreme) >= _LOWEST_CLIPPED:
            num_clipped += _in_runs(np.flatnonzero(channel == extreme))
    return min(num_clipped / channel.size, 1.0)


def _in_runs(positions: npt.NDArray[np.intp]) -> int:
    """How many of these ascending positions lie in runs of consecutive ones, long enough."""
    if positions.size < _FLAT_RUN:
        return 0
    bounds = np.flatnonzero(np.diff(positions) != 1) + 1
    lengths = np.diff(np.concatenate([[0], bounds, [positions.size]]))
    return int(lengths[lengths >= _FLAT_RUN].sum())
