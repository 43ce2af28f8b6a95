"""Where a clip is loud: silence at its ends, the share of speech, the signal-to-noise ratio.

All of it follows from the energies of blocks of 10 ms, relative to the clip's own speech level, so
that a clip and the same clip made softer get the same values. Ours; it hears energy and knows
nothing of speech: music and steady noise count as speech.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCKS_PER_S", "MAX_SNR_DB", "Activity", "activity_of", "block_sums"]

BLOCKS_PER_S: Final = 100

MAX_SNR_DB: Final = 100.0
"""What a clip gets whose pauses are digital silence: more than any recording has."""

_SPEECH_PERCENTILE: Final = 95
_FLOOR_PERCENTILE: Final = 5
_RANGE_DB: Final = 40.0
_OVER_FLOOR_DB: Final = 6.0
_LEAST_RANGE_DB: Final = 6.0
_RUN: Final = 3
_NOISE_SHARE: Final = 0.1

Samples = npt.NDArray[np.float32]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Activity:
    """Where a clip is loud."""

    leading_silence_s: float
    """Seconds before the first speech; all of the clip if there is none."""
    trailing_silence_s: float
    """Seconds after the last speech; all of the clip if there is none."""
    speech_share: float
    """The share of the clip's frames that are loud, between 0 and 1."""
    snr_db: float | None
    """Signal-to-noise ratio; None for a clip that is silent or too short to have pauses."""


def block_sums(samples: Samples, rate_hz: int) -> tuple[FloatArray, FloatArray, int]:
    """Sums and sums of squares over blocks of 10 ms; what is left of the last block is a block.

    Args:
        samples: (num_samples,), mono.
        rate_hz: samples a second.

    Returns:
        Two arrays of shape (num_blocks,), and the number of samples of a block.
    """
    size = max(round(rate_hz / BLOCKS_PER_S), 1)
    whole = len(samples) // size
    blocks = samples[: whole * size].reshape(whole, size)
    sums = np.einsum("ij->i", blocks).astype(np.float64)
    # Not products of BLAS: their order of summation hangs on the number of threads.
    squares = np.einsum("ij,ij->i", blocks, blocks).astype(np.float64)
    if (rest := samples[whole * size :].astype(np.float64)).size:
        sums = np.append(sums, rest.sum())
        squares = np.append(squares, np.square(rest).sum())
    return sums, squares, size


def activity_of(
    sums: FloatArray, squares: FloatArray, block_size: int, num_samples: int, rate_hz: int
) -> Activity:
    """Silence, speech and noise from the sums of blocks.

    A frame is two adjacent blocks (20 ms, every 10 ms), its energy that about the clip's mean. The
    speech level is the 95th percentile of the frames' levels, the floor the 5th. A frame is loud
    if it is less than 40 dB below the speech level and more than 6 dB over the floor; where floor
    and speech are near each other, what is less than 6 dB below the speech level is loud whatever
    the floor. Speech begins at the first three loud frames in a row and ends with the last three.

    The noise is the mean energy of the lowest tenth of the frames, the signal that of the loud ones
    less the noise: in the manner of NIST's STNR, which reads both from the histogram of short-time
    energies; the percentiles are ours. Below some 6 dB noise counts as speech and the value is up
    to 2 dB too low. A clip without pauses has too low an SNR as well: its lowest tenth is soft
    speech.

    Args:
        sums: (num_blocks,), as `block_sums` gives them.
        squares: (num_blocks,).
        block_size: samples of a block.
        num_samples: samples of the clip.
        rate_hz: samples a second.
    """
    duration_s = num_samples / rate_hz
    whole = num_samples // block_size
    mean = sums.sum() / max(num_samples, 1)
    # About the mean, so that an offset does not drown the pauses. Rounding may fall below zero.
    energies = squares[:whole] - 2 * mean * sums[:whole] + block_size * mean * mean
    energies = np.maximum(energies, 0) / block_size
    if whole < _RUN + 1 or energies.max() <= 1e-12:
        return Activity(duration_s, duration_s, 0.0, None)
    frames = (energies[1:] + energies[:-1]) / 2
    ordered = np.sort(frames)
    speech = ordered[int((len(ordered) - 1) * _SPEECH_PERCENTILE / 100)]
    floor = ordered[int((len(ordered) - 1) * _FLOOR_PERCENTILE / 100)]
    if speech <= 0:
        speech = ordered[-1]
    least = max(speech * 10 ** (-_RANGE_DB / 10), floor * 10 ** (_OVER_FLOOR_DB / 10))
    loud = frames > min(least, speech * 10 ** (-_LEAST_RANGE_DB / 10))
    runs = np.flatnonzero(loud[: -_RUN + 1] & loud[1 : -_RUN + 2] & loud[_RUN - 1 :])
    if not runs.size:
        return Activity(duration_s, duration_s, 0.0, None)
    block_s = block_size / rate_hz
    # A frame that holds one loud block of two is loud: speech begins with the later block, and ends
    # with the earlier one.
    leading_s = (runs[0] + (runs[0] > 0)) * block_s
    last = int(runs[-1]) + _RUN - 1
    trailing_s = 0.0 if last == len(frames) - 1 else duration_s - (last + 1) * block_s
    noise = ordered[: max(int(len(ordered) * _NOISE_SHARE), 1)].mean()
    signal = frames[loud].mean() - noise
    snr_db = 10 * np.log10(max(signal, 1e-30) / noise) if noise > 0 else MAX_SNR_DB
    return Activity(
        float(leading_s), float(trailing_s), float(loud.mean()), float(min(snr_db, MAX_SNR_DB))
    )
