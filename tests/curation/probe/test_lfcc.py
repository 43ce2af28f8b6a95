"""LFCC against a slow twin in numpy that follows the definition step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from curation.probe import Lfcc, LfccSettings

SETTINGS = LfccSettings()


def slow_lfcc(wave: np.ndarray) -> np.ndarray:
    """The definition in loops, double precision: (60, num_frames)."""
    emphasised = np.array([wave[0], *(wave[i] - 0.97 * wave[i - 1] for i in range(1, len(wave)))])
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(320) / 319)
    columns = []
    for start in range(0, len(wave) - 320 + 1, 160):
        power = np.abs(np.fft.fft(emphasised[start : start + 320] * window, 512)[:257]) ** 2
        energies = []
        for band in range(20):
            low, peak, high = (8000 * (band + k) / 21 for k in range(3))
            total = 0.0
            for bin_index, value in enumerate(power):
                hz = bin_index * 16000 / 512
                if low < hz <= peak:
                    total += value * (hz - low) / (peak - low)
                elif peak < hz < high:
                    total += value * (high - hz) / (high - peak)
            energies.append(np.log(total + 1e-10))
        columns.append(
            [
                np.sqrt((1 if order == 0 else 2) / 20)
                * sum(
                    energy * np.cos(np.pi * order * (band + 0.5) / 20)
                    for band, energy in enumerate(energies)
                )
                for order in range(20)
            ]
        )
    static = np.array(columns).T
    first = slow_difference(static)
    return np.concatenate([static, first, slow_difference(first)])


def slow_difference(features: np.ndarray) -> np.ndarray:
    last = features.shape[1] - 1
    return np.stack(
        [
            (features[:, min(frame + 1, last)] - features[:, max(frame - 1, 0)]) / 2
            for frame in range(last + 1)
        ],
        axis=1,
    )


def waves() -> np.ndarray:
    rng = np.random.default_rng(7)
    time = np.arange(1600) / 16000
    return np.stack(
        [
            0.3 * rng.standard_normal(1600),
            0.5 * np.sin(2 * np.pi * 440 * time),
            0.4 * np.sin(2 * np.pi * (200 + 20000 * time) * time)
            + 0.001 * rng.standard_normal(1600),
        ]
    ).astype(np.float32)


def test_equals_the_slow_twin() -> None:
    batch = waves()
    fast = Lfcc()(torch.from_numpy(batch)).numpy()
    assert fast.shape == (3, 60, 9)
    for wave, features in zip(batch, fast, strict=True):
        np.testing.assert_allclose(features, slow_lfcc(wave.astype(np.float64)), atol=2e-3)


def test_a_row_does_not_depend_on_its_batch() -> None:
    batch = torch.from_numpy(waves())
    together = Lfcc()(batch)
    for index in range(len(batch)):
        torch.testing.assert_close(Lfcc()(batch[index : index + 1])[0], together[index])


def test_a_scaled_wave_moves_c0_alone() -> None:
    # log(g^2 * energy) = log(energy) + 2 log g, a constant, which the DCT puts into c0.
    wave = torch.from_numpy(waves()[:1])
    change = Lfcc()(2 * wave) - Lfcc()(wave)
    expected = torch.zeros_like(change)
    expected[:, 0] = 2 * np.log(2) * np.sqrt(20)
    torch.testing.assert_close(change, expected, atol=1e-3, rtol=0)


def test_digital_silence_is_finite() -> None:
    assert torch.isfinite(Lfcc()(torch.zeros(1, 3200))).all()


@pytest.mark.parametrize(
    ("num_samples", "num_frames"), [(319, 0), (320, 1), (479, 1), (480, 2), (64600, 402)]
)
def test_num_frames(num_samples: int, num_frames: int) -> None:
    assert SETTINGS.num_frames(num_samples) == num_frames
    if num_frames:
        assert Lfcc()(torch.zeros(1, num_samples)).shape[2] == num_frames


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_cuda_gives_the_same() -> None:
    batch = torch.from_numpy(waves())
    on_device = Lfcc().cuda()(batch.cuda()).cpu()
    torch.testing.assert_close(on_device, Lfcc()(batch), atol=2e-3, rtol=1e-3)
