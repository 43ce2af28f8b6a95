"""RawBoost-like augmentation of waveforms: filters, impulses and noise of many channels at once.

Paper: Tak et al., "RawBoost: a raw data boosting and augmentation method applied to automatic
speaker verification anti-spoofing" (ICASSP 2022, arXiv 2111.04433); the numbers are those of its
public configuration. Ours draws from a generator that is handed in, and needs no SciPy.

    LnL   linear and non-linear convolutive noise: powers of the signal, each through a filter of
          notches, summed
    ISD   impulsive signal-dependent noise: some samples, each changed in proportion to itself
    SSI   stationary signal-independent noise: filtered white noise at a given SNR

Algorithms: 1 LnL, 2 ISD, 3 SSI, 4 all three in turn, 5 LnL then ISD, 6 LnL then SSI, 7 ISD then
SSI, 8 LnL and ISD side by side, summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["ALGORITHMS", "RawBoostSettings", "convolutive", "impulsive", "rawboost", "stationary"]

Wave: TypeAlias = npt.NDArray[np.float64]

ALGORITHMS: Final = range(1, 9)

_RESPONSE_SIZE: Final = 1024


@dataclass(frozen=True)
class RawBoostSettings:
    """Ranges that numbers are drawn from."""

    num_powers: int = 5
    """LnL: the signal, its square, … up to this power."""
    num_notches: int = 5
    centre_hz: tuple[float, float] = (20, 8000)
    width_hz: tuple[float, float] = (100, 1000)
    num_coefficients: tuple[int, int] = (10, 100)
    """Of one notch's filter; even numbers count one more."""
    gain_db: tuple[float, float] = (0, 0)
    gain_loss_db: tuple[float, float] = (5, 20)
    """LnL: taken from the bounds of the gain for the powers from the second on."""
    most_impulses_percent: float = 10
    impulse_gain: float = 2
    snr_db: tuple[float, float] = (10, 40)


_DEFAULTS: Final = RawBoostSettings()


def rawboost(
    wave: npt.NDArray[np.float32],
    sample_rate_hz: int,
    algorithm: int,
    rng: np.random.Generator,
    settings: RawBoostSettings = _DEFAULTS,
) -> npt.NDArray[np.float32]:
    """A wave (num_samples,), full scale 1, changed by one of the `ALGORITHMS`; the same shape.

    The result peaks at 1 at most where LnL or ISD come last; SSI leaves room to go above.
    """
    signal = wave.astype(np.float64)
    if algorithm == 8:
        both = convolutive(signal, sample_rate_hz, rng, settings)
        both = _at_most_one(both + impulsive(signal, rng, settings))
        return both.astype(np.float32)
    if algorithm in (1, 4, 5, 6):
        signal = convolutive(signal, sample_rate_hz, rng, settings)
    if algorithm in (2, 4, 5, 7):
        signal = impulsive(signal, rng, settings)
    if algorithm in (3, 4, 6, 7):
        signal = stationary(signal, sample_rate_hz, rng, settings)
    return signal.astype(np.float32)


def convolutive(
    wave: Wave,
    sample_rate_hz: int,
    rng: np.random.Generator,
    settings: RawBoostSettings = _DEFAULTS,
) -> Wave:
    """LnL: the sum over k of the wave to the power k through a filter of its own, less its mean."""
    low, high = settings.gain_db
    filters = []
    for power in range(settings.num_powers):
        # The paper's code lowers the bounds once, at the second power, and they stay so.
        less = settings.gain_loss_db if power else (0, 0)
        bounds = (low - less[0], high - less[1])
        filters.append(_notches(sample_rate_hz, rng, settings, bounds))
    copies = np.broadcast_to(wave, (settings.num_powers, len(wave)))
    powers: Wave = np.cumprod(copies, axis=0, dtype=np.float64)
    total: Wave = _filtered(powers, filters).sum(axis=0)
    centred: Wave = total - total.mean()
    return _at_most_one(centred)


def impulsive(wave: Wave, rng: np.random.Generator, settings: RawBoostSettings = _DEFAULTS) -> Wave:
    """ISD: up to a tenth of the samples x become x + gain * x * u * v, u and v in [-1, 1)."""
    share = rng.uniform(0, settings.most_impulses_percent) / 100
    places = rng.permutation(len(wave))[: int(len(wave) * share)]
    factors = rng.uniform(-1, 1, len(places)) * rng.uniform(-1, 1, len(places))
    changed = wave.copy()
    changed[places] += settings.impulse_gain * wave[places] * factors
    return _at_most_one(changed)


def stationary(
    wave: Wave,
    sample_rate_hz: int,
    rng: np.random.Generator,
    settings: RawBoostSettings = _DEFAULTS,
) -> Wave:
    """SSI: white noise through a filter of notches, added at an SNR in `snr_db`."""
    noise = rng.standard_normal(len(wave))
    notches = _notches(sample_rate_hz, rng, settings, settings.gain_db)
    noise = _filtered(noise[None], [notches])[0]
    snr_db = rng.uniform(*settings.snr_db)
    level = np.linalg.norm(wave) / np.linalg.norm(noise) / 10 ** (snr_db / 20)
    noisy: Wave = wave + level * noise
    return noisy


def _notches(
    rate_hz: int,
    rng: np.random.Generator,
    settings: RawBoostSettings,
    gain_db: tuple[float, float],
) -> Wave:
    """A filter of some band stops, one after the other, its response peaking at a drawn gain."""
    taps = np.ones(1)
    for _ in range(settings.num_notches):
        # The paper's bounds are meant for 16 kHz; at less a notch still begins below the top.
        highest = min(settings.centre_hz[1], rate_hz / 2)
        centre = rng.uniform(settings.centre_hz[0], highest)
        width = rng.uniform(*settings.width_hz)
        count = int(rng.uniform(*settings.num_coefficients))
        low = centre - width / 2 if centre > width / 2 else 1e-3
        high = min(centre + width / 2, rate_hz / 2 - 1e-3)
        taps = np.convolve(_band_stop(count | 1, low, high, rate_hz), taps)
    first, second = gain_db
    gain = 10 ** (rng.uniform(min(first, second), max(first, second)) / 20)
    size = max(_RESPONSE_SIZE, len(taps))
    peak: float = np.abs(np.fft.rfft(taps, size)[:-1]).max()
    return gain * taps / peak


def _band_stop(num_taps: int, low_hz: float, high_hz: float, rate_hz: float) -> Wave:
    """A windowed (Hamming) linear-phase filter of an odd number of taps, 1 at 0 Hz."""
    time = np.arange(num_taps) - (num_taps - 1) / 2
    low, high = 2 * low_hz / rate_hz, 2 * high_hz / rate_hz
    ideal = low * np.sinc(low * time) + np.sinc(time) - high * np.sinc(high * time)
    taps = ideal * np.hamming(num_taps)
    scaled: Wave = taps / taps.sum()
    return scaled


def _filtered(waves: Wave, filters: list[Wave]) -> Wave:
    """Each wave (n, num_samples) through its filter, delay taken out; the same shape."""
    length = waves.shape[1]
    longest = max(len(taps) for taps in filters)
    size = 1 << (length + longest - 1).bit_length()
    padded = np.stack([np.pad(taps, (0, longest - len(taps))) for taps in filters])
    whole = np.fft.irfft(np.fft.rfft(waves, size) * np.fft.rfft(padded, size), size)
    delays = [(len(taps) + 1) // 2 for taps in filters]
    return np.stack(
        [wave[delay : delay + length] for wave, delay in zip(whole, delays, strict=True)]
    )


def _at_most_one(wave: Wave) -> Wave:
    peak = float(np.abs(wave).max(initial=0))
    return wave / peak if peak > 1 else wave
