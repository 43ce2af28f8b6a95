"""Which frames a window takes: offsets in seconds or frames, clamped within the episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["Offsets", "Picked", "offsets_in_frames"]


@dataclass(frozen=True)
class Picked:
    """The rows that windows take for one feature."""

    rows: npt.NDArray[np.int64]
    """Rows of the frames table: (n,) for the frame itself, (n, T) by offsets."""
    is_pad: npt.NDArray[np.bool_] | None
    """Where the offset leads out of the episode and the nearest frame of it stands in, (n, T)."""


@dataclass(frozen=True)
class Offsets:
    """Offsets of one feature in frames. Episodes of another frame rate may have other ones."""

    by_rate: npt.NDArray[np.int64]
    """(rates, T)."""

    @property
    def num_steps(self) -> int:
        """T."""
        return int(self.by_rate.shape[1])

    def pick(
        self,
        rows: npt.NDArray[np.int64],
        rates: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> Picked:
        """The rows of windows at `rows`.

        Args:
            rows: rows of the frames table, (n,).
            rates: which frame rate the episode of each has, (n,).
            starts: where the episode of each begins, (n,).
            ends: where it ends, exclusive, (n,).
        """
        wanted = rows[:, np.newaxis] + self.by_rate[rates]
        lows, highs = starts[:, np.newaxis], ends[:, np.newaxis] - 1
        return Picked(wanted.clip(lows, highs), (wanted < lows) | (wanted > highs))


def offsets_in_frames(
    fps: npt.NDArray[np.float64],
    delta_timestamps: Mapping[str, Sequence[float]] | None,
    delta_indices: Mapping[str, Sequence[int]] | None,
    tolerance_s: float,
) -> dict[str, Offsets]:
    """The offsets of each feature that has some, for each of the frame rates.

    Raises:
        InputError: a feature has both kinds, or none at all; or an offset is no number of frames
            (within the tolerance).
    """
    found: dict[str, Offsets] = {}
    for name, seconds in (delta_timestamps or {}).items():
        exact = _numbers(name, seconds, np.float64) * fps[:, np.newaxis]
        frames = np.round(exact)
        away = np.abs(exact - frames) / fps[:, np.newaxis]
        if not (away <= tolerance_s).all():
            rate, at = np.argwhere(~(away <= tolerance_s))[0]
            raise InputError(
                f"An offset of {name} is no multiple of the time between frames",
                expected=f"multiples of 1/{fps[rate]:g} s within {tolerance_s:g} s",
                found=f"{seconds[at]} s, {exact[rate, at]:.4f} frames",
                fix=f"Nearest is {frames[rate, at] / fps[rate]:.6f} s",
            )
        found[name] = Offsets(frames.astype(np.int64))
    for name, offsets in (delta_indices or {}).items():
        if name in found:
            raise InputError(
                f"{name} has offsets twice", fix="Give delta_timestamps or delta_indices, not both"
            )
        whole = _numbers(name, offsets, np.int64)
        found[name] = Offsets(np.tile(whole, (max(1, len(fps)), 1)))
    return found


def _numbers(name: str, offsets: Sequence[Any], dtype: type[np.generic]) -> npt.NDArray[Any]:
    numbers = np.asarray(offsets)
    is_number = numbers.dtype.kind in ("iuf" if dtype is np.float64 else "iu")
    if numbers.ndim != 1 or not len(numbers) or not is_number or not np.isfinite(numbers).all():
        raise InputError(
            f"The offsets of {name} are none",
            expected="a list of seconds" if dtype is np.float64 else "a list of whole frames",
            found=f"{offsets!r}",
        )
    return numbers.astype(dtype)
