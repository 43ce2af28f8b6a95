"""The course of a clip's level: what finds candidates for the same audio, made louder or padded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.audio import BadAudio, decode
from datalake.pipelines.annotation.annotator import Annotate

__all__ = ["NUM_LEVELS", "RATE_HZ", "AudioSketch", "buckets_of", "levels_of", "trimmed"]

RATE_HZ: Final = 16_000
NUM_LEVELS: Final = 64

_NUM_COARSE: Final = 8
_EDGE: Final = 0.005
"""The share of a clip's energy that lies before its core, and that which lies after it. Where it is
reached hangs little on noise or coding, unlike where a first sample is loud."""
_LEAST_S: Final = 0.1
_LEAST_PEAK: Final = 1e-4
_FLOOR: Final = 0.25
"""Added to powers, a share of the clip's: so that what happens in pauses counts for little."""
_STEP_DB: Final = 3.0
_STEP_S: Final = 0.25
_NUM_GRIDS: Final = 4

Samples = npt.NDArray[np.float32]


def trimmed(data: memoryview) -> Samples | str:
    """The core of a clip at 16 kHz, at unit power: all but .5 % of its energy at each end.

    Args:
        data: an audio file.

    Returns:
        (num_samples,), or why there is none: `silent` (a peak below -80 dBFS) or `short` (less
        than .1 s).

    Raises:
        BadAudio: the bytes are no audio, damaged or cut.
    """
    samples, _ = decode(data, sample_rate_hz=RATE_HZ)
    samples = samples - samples.mean(dtype=np.float64).astype(np.float32)
    if not len(samples) or float(np.abs(samples).max()) < _LEAST_PEAK:
        return "silent"
    energy = np.cumsum(np.square(samples, dtype=np.float64))
    start, stop = np.searchsorted(energy, [_EDGE * energy[-1], (1 - _EDGE) * energy[-1]])
    samples = samples[start : stop + 1]
    if len(samples) < _LEAST_S * RATE_HZ:
        return "short"
    power = float(np.mean(np.square(samples, dtype=np.float64)))
    return np.asarray(samples / np.float32(np.sqrt(power)), np.float32)


def levels_of(samples: Samples) -> npt.NDArray[np.float32]:
    """Mean powers of 64 equal parts of a clip of unit power, (64,)."""
    starts = np.arange(NUM_LEVELS + 1) * len(samples) // NUM_LEVELS
    sums = np.add.reduceat(np.square(samples, dtype=np.float64), starts[:-1])
    return (sums / np.diff(starts)).astype(np.float32)


def decibels(powers: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Levels of powers over a floor of -6 dB."""
    return np.asarray(10 * np.log10(powers + _FLOOR), np.float32)


def buckets_of(powers: npt.NDArray[np.float32], duration_s: float) -> list[tuple[int, ...]]:
    """Where a clip lies in four grids of 3 dB and .25 s that are shifted against each other.

    Clips whose eight coarse levels differ by a few hundredths of a dB and whose durations by a few
    milliseconds lie in one bucket of one grid at least, but for some in ten thousand: an edge would
    have to pass between them in each of the grids.

    Args:
        powers: (64,).
        duration_s: after trimming.
    """
    coarse = decibels(powers.reshape(_NUM_COARSE, -1).mean(axis=1)) / _STEP_DB
    values = np.append(coarse, duration_s / _STEP_S)
    shifts = np.arange(_NUM_GRIDS)[:, None] / _NUM_GRIDS
    cells = np.floor(values + shifts).astype(np.int64)
    return [(grid, *cell) for grid, cell in enumerate(cells.tolist())]


@dataclass(frozen=True)
class AudioSketch:
    """Adds `levels` and `trimmed_s`; an `Annotator` whose columns no table keeps.

    Args:
        audio: the column of encoded audio.
    """

    audio: str = "audio"

    @property
    def reads(self) -> tuple[str, ...]:
        """The audio."""
        return (self.audio,)

    @property
    def adds(self) -> pa.Schema:
        """Powers of 64 parts, and the duration after trimming."""
        return pa.schema(
            [
                pa.field("levels", pa.list_(pa.float32(), NUM_LEVELS)),
                pa.field("trimmed_s", pa.float64()),
            ]
        )

    @property
    def settings(self) -> Mapping[str, object]:
        """The version of the sketch."""
        return {"audio_sketch": 1, "audio": self.audio}

    def open(self) -> Annotate:
        """Nothing is loaded."""
        return self._annotate

    def _annotate(self, rows: pa.Table) -> pa.Table:
        levels: list[npt.NDArray[np.float32] | None] = []
        durations: list[float | None] = []
        errors: list[str | None] = []
        for data in rows[self.audio]:
            try:
                clip = trimmed(memoryview(data.as_buffer())) if data.is_valid else "no audio"
            except BadAudio as bad:
                clip = f"{bad.refusal.reason}: {bad.refusal.detail}"
            good = not isinstance(clip, str)
            levels.append(None if isinstance(clip, str) else levels_of(clip))
            durations.append(len(clip) / RATE_HZ if good else None)
            errors.append(clip if isinstance(clip, str) else None)
        kinds = self.adds
        return pa.table(
            {
                "levels": pa.array(levels, kinds.field("levels").type),
                "trimmed_s": pa.array(durations, pa.float64()),
                "error": pa.array(errors, pa.string()),
            }
        )
