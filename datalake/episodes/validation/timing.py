"""Timestamps: that they grow, frame by frame, as the frame rate says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.validation.checks import Checks
from datalake.episodes.validation.faults import error, first_of, warning
from datalake.episodes.validation.numbering import frame_numbers
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, Finding

__all__ = ["bad_timestamps", "rounding_s", "timestamps"]

Times = npt.NDArray[np.float64]


def bad_timestamps(data: EpisodeData, fps: float, checks: Checks) -> Iterator[Finding]:
    """Timestamps that are absent, go back, repeat, leave frames out, or are out of step.

    A step of about two frames or more is a gap, one of nothing a repeat, and all else that is off
    frame_index / fps is out of step. Gaps and repeats do not make all that follows out of step.
    Where each step alone is as long as it must be, LeRobot takes the timestamps, and so do we: they
    begin late, or drift (a camera of 29.97 fps, said to be one of 30), and videos may do the same.
    """
    times = timestamps(data)
    if times is None:
        found = data.frames.schema.field("timestamp").type if _has_times(data) else "none"
        yield _bad(data, f"expected timestamps in float32 or float64, found {found}", None)
        return
    if (bad := ~np.isfinite(times)).any():
        row, more = first_of(bad)
        yield _bad(data, f"expected a time, found {times[row]}{more}", row)
        return
    if fps <= 0:
        return
    numbers = frame_numbers(data)
    # In frames, and such that a gap that frame_index has too is none.
    steps = np.diff(times * fps) - np.diff(numbers) + 1
    usual = _usual(steps)
    jumps = np.zeros(len(steps))
    backward, repeated, skipping = steps < 0, steps == 0, steps >= 1.5 * usual
    if backward.any():
        row, more = first_of(backward)
        detail = f"timestamps go back: {times[row + 1]:.6f} s after {times[row]:.6f} s{more}"
        yield _bad(data, detail, row + 1)
        return
    if repeated.any():
        row, more = first_of(repeated)
        detail = (
            f"expected a step of {1 / fps:.6f} s, found {times[row + 1]:.6f} s a second time{more}"
        )
        yield error(data, Reason.FRAME_REPEAT, detail, frame=row + 1, feature="timestamp")
        jumps[repeated] = -usual
    if skipping.any():
        row, more = first_of(skipping)
        missing = round(float(steps[row] / usual)) - 1
        detail = (
            f"expected a step of {1 / fps:.6f} s, found {times[row + 1] - times[row]:.6f} s after"
            f" {times[row]:.6f} s: as if {missing:,} frames were missing{more}"
        )
        yield error(data, Reason.FRAME_GAP, detail, frame=row + 1, feature="timestamp")
        jumps[skipping] = (np.round(steps[skipping] / usual) - 1) * usual
    expected = (numbers + np.concatenate([[0], np.cumsum(jumps)])) / fps
    off = np.abs(times - expected)
    allowed = checks.timestamp_tolerance_s + rounding_s(data, times)
    if (bad := off > allowed).any():
        row, more = first_of(bad)
        detail = (
            f"expected {expected[row]:.6f} s within {checks.timestamp_tolerance_s:g} s"
            f" (frame_index / {fps:g} fps), found {times[row]:.6f} s{more};"
            f" at most {off.max():.6f} s off{_rate(times, fps, usual)}"
        )
        in_step = (np.abs(np.diff(times) - np.diff(expected)) <= allowed[1:]).all()
        if in_step and times[0] >= 0 and len(times) > 1:
            detail += "; each step is as long as it must be"
            yield warning(data, Reason.BAD_TIMESTAMPS, detail, frame=row, feature="timestamp")
        else:
            yield _bad(data, detail, row)


def timestamps(data: EpisodeData) -> Times | None:
    """The timestamps in seconds; null is NaN. None: there are none that are numbers."""
    if not _has_times(data) or not pa.types.is_floating(data.frames["timestamp"].type):
        return None
    return np.asarray(data.frames["timestamp"].to_numpy(), np.float64)


def rounding_s(data: EpisodeData, times: Times) -> Times:
    """What rounding to the column's type may cost at each time: its spacing there."""
    kept_as = data.frames["timestamp"].type.to_pandas_dtype()
    return np.asarray(np.spacing(np.abs(times).astype(kept_as)), np.float64)


def _has_times(data: EpisodeData) -> bool:
    return "timestamp" in data.frames.column_names


def _usual(steps: npt.NDArray[np.float64]) -> float:
    """The usual step in frames: 1, or what it is throughout if the frame rate is wrong."""
    growing = steps[steps > 0]
    return max(float(np.median(growing)), 1.0) if len(growing) else 1.0


def _rate(times: Times, fps: float, usual: float) -> str:
    if len(times) < 3:
        return ""
    rate = (len(times) - 1) / (times[-1] - times[0]) if times[-1] > times[0] else fps / usual
    return f"; on the whole they advance at {rate:.4g} fps" if abs(rate / fps - 1) > 5e-4 else ""


def _bad(data: EpisodeData, detail: str, frame: int | None) -> Finding:
    return error(data, Reason.BAD_TIMESTAMPS, detail, frame=frame, feature="timestamp")
