"""RawBoost on signals whose outcome is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import signal

from curation.probe.rawboost import (
    ALGORITHMS,
    RawBoostSettings,
    _band_stop,
    _filtered,
    _notches,
    convolutive,
    impulsive,
    rawboost,
    stationary,
)

SETTINGS = RawBoostSettings()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def speech(num_samples: int = 4000) -> np.ndarray:
    time = np.arange(num_samples) / 16_000
    return 0.3 * np.sin(2 * np.pi * 150 * time) + 0.05 * rng(9).standard_normal(num_samples)


@pytest.mark.parametrize(
    ("taps", "low", "high"), [(11, 300, 900), (101, 1e-3, 400), (63, 7000, 7999.999)]
)
def test_band_stops_are_scipys(taps: int, low: float, high: float) -> None:
    expected = signal.firwin(taps, [low, high], window="hamming", fs=16_000)
    np.testing.assert_allclose(_band_stop(taps, low, high, 16_000), expected, atol=1e-12)


def test_a_filter_of_notches_peaks_at_its_gain() -> None:
    for seed in range(5):
        taps = _notches(16_000, rng(seed), SETTINGS, (-20, -20))
        _, response = signal.freqz(taps, 1, worN=2048)
        assert np.abs(response).max() == pytest.approx(0.1, rel=0.02)
        assert len(taps) % 2 == 1
        np.testing.assert_allclose(taps, taps[::-1], atol=1e-12)


def test_filtering_is_convolution_cut_as_in_the_paper() -> None:
    waves, filters = rng().standard_normal((2, 50)), [rng(1).standard_normal(n) for n in (7, 21)]
    for wave, taps, found in zip(waves, filters, _filtered(waves, filters), strict=True):
        padded = np.pad(wave, (0, len(taps) + 1))
        half = (len(taps) + 1) // 2
        expected = signal.lfilter(taps, 1, padded)[half : half + 50]
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_convolutive_noise_without_powers_is_one_filter_less_the_mean() -> None:
    one = replace(SETTINGS, num_powers=1)
    wave = 0.1 * speech()
    taps = _notches(16_000, rng(3), SETTINGS, (0, 0))
    expected = _filtered(wave[None], [taps])[0]
    found = convolutive(wave, 16_000, rng(3), one)
    np.testing.assert_allclose(found, expected - expected.mean(), atol=1e-12)


def test_higher_powers_are_quieter() -> None:
    # x^2 of a tone at f has its power at 0 and 2f: what is there comes from the second power.
    time = np.arange(16_000) / 16_000
    wave = 0.5 * np.sin(2 * np.pi * 1000 * time)
    for seed in range(5):
        two = replace(SETTINGS, num_powers=2, num_notches=0)
        spectrum = np.abs(np.fft.rfft(convolutive(wave, 16_000, rng(seed), two)))
        # Without notches the filters are gains: 0 dB, and -5 to -20 dB on .125 at 2 kHz.
        ratio = spectrum[2000] / spectrum[1000]
        assert 0.25 * 10 ** (-20 / 20) - 0.02 <= ratio <= 0.25 * 10 ** (-5 / 20) + 0.02


def test_impulses_are_few_and_in_proportion() -> None:
    # So quiet that no peak is brought down to 1.
    wave = 0.1 * speech()
    for seed in range(5):
        found = impulsive(wave, rng(seed))
        changed = found != wave
        assert changed.mean() <= 0.1
        assert (np.abs(found - wave) <= 2 * np.abs(wave) + 1e-12).all()
    assert changed.any()
    np.testing.assert_array_equal(impulsive(np.zeros(100), rng()), np.zeros(100))


def test_stationary_noise_has_the_snr_that_was_drawn() -> None:
    wave = speech()
    for snr_db in (10.0, 25.0):
        noise = stationary(wave, 16_000, rng(), replace(SETTINGS, snr_db=(snr_db, snr_db))) - wave
        found = 20 * np.log10(np.linalg.norm(wave) / np.linalg.norm(noise))
        assert found == pytest.approx(snr_db)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(algorithm: int) -> None:
    wave = speech().astype(np.float32)
    before = wave.copy()
    found = rawboost(wave, 16_000, algorithm, rng())
    assert found.dtype == np.float32
    assert found.shape == wave.shape
    assert np.isfinite(found).all()
    assert (wave == before).all()
    assert (found != wave).any()
    np.testing.assert_array_equal(found, rawboost(wave, 16_000, algorithm, rng()))
    assert (found != rawboost(wave, 16_000, algorithm, rng(1))).any()


def test_chains_are_their_parts_in_turn() -> None:
    wave, dice = speech(), rng(5)
    expected = impulsive(convolutive(wave, 16_000, dice), dice)
    found = rawboost(wave.astype(np.float32), 16_000, 5, rng(5))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_half_the_rate_has_half_the_band() -> None:
    for seed in range(20):
        _, response = signal.freqz(_notches(8000, rng(seed), SETTINGS, (0, 0)), 1, worN=512)
        assert np.abs(response).max() == pytest.approx(1, rel=0.05)


def test_silence_stays_silent() -> None:
    for algorithm in ALGORITHMS:
        assert not rawboost(np.zeros(1000, np.float32), 16_000, algorithm, rng()).any()
