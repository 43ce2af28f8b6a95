"""The same audio: louder, padded, resampled, coded; and what is not the same."""

from __future__ import annotations

import numpy as np
import pytest

from curation.duplicates import same_audio
from curation.duplicates.same_audio import correlation
from datalake.audio.decoding import resample
from datalake.errors import InputError
from tests.curation.duplicates.test_equal import file_of, table_of
from tests.speech import RATE_HZ, voice


def clip(seed: int, duration_s: float = 1.2) -> np.ndarray:
    return voice(np.random.default_rng(seed), None, duration_s).astype(np.float64)


def gone_of(found) -> dict[str, str]:
    return {row["utt_id"]: row["kept_by_id"] for row in found.drops.to_pylist()}


def test_louder_padded_noisier_and_resampled_copies_go_and_others_stay(tmp_path) -> None:
    rng = np.random.default_rng(0)
    files = {}
    for seed in range(6):
        wave = clip(seed)
        files[f"{seed}/own"] = file_of(wave, rate_hz=RATE_HZ)
        files[f"{seed}/softer"] = file_of(0.3 * wave, "FLAC", rate_hz=RATE_HZ)
        padded = np.concatenate([np.zeros(3211), wave, np.zeros(500)])
        files[f"{seed}/padded"] = file_of(padded, rate_hz=RATE_HZ)
        noise = rng.normal(0, 0.01 * wave.std(), len(wave))
        files[f"{seed}/noise"] = file_of(wave + noise, rate_hz=RATE_HZ)
        faster = resample(wave.astype(np.float32), RATE_HZ, 22050)
        files[f"{seed}/22050"] = file_of(faster, rate_hz=22050)
        loud = rng.normal(0, 0.2 * wave.std(), len(wave))
        files[f"{seed}/much noise"] = file_of(wave + loud, rate_hz=RATE_HZ)
        files[f"{seed}/shorter"] = file_of(wave[: len(wave) // 2], rate_hz=RATE_HZ)
    files["silent"] = file_of(np.zeros(8000), rate_hz=RATE_HZ)
    files["short"] = file_of(clip(9)[:800], rate_hz=RATE_HZ)
    files["broken"] = b"RIFF"
    found = same_audio(table_of(tmp_path / "t", files))
    gone = gone_of(found)
    same = ("own", "softer", "padded", "noise", "22050")
    for seed in range(6):
        copies = {f"{seed}/{name}" for name in same}
        assert len(copies - set(gone)) == 1
        assert {gone[name] for name in copies & set(gone)} == copies - set(gone)
    assert not any("much" in name or "shorter" in name for name in gone)
    assert found.left_out.pop("silent") == found.left_out.pop("short") == 1
    assert sum(found.left_out.values()) == 1
    assert min(found.drops["similarity"].to_pylist()) >= 0.999


def test_correlation_is_that_of_a_plain_loop_and_finds_parts_of_a_sample() -> None:
    rng = np.random.default_rng(1)
    left = rng.normal(size=400).astype(np.float32)
    right = np.concatenate([rng.normal(size=5), left[:-5]]).astype(np.float32)
    right += rng.normal(0, 0.5, 400).astype(np.float32)
    pairs = {
        lag: (left[max(-lag, 0) : 400 - max(lag, 0)], right[max(lag, 0) : 400 + min(lag, 0)])
        for lag in range(-399, 400)
    }
    one, other = max(pairs.values(), key=lambda pair: pair[0] @ pair[1])
    slow = one @ other / np.sqrt(one @ one * (other @ other))
    assert len(one) == 395
    assert correlation(left, right) == pytest.approx(slow, abs=1e-5)
    turns = np.fft.rfft(rng.normal(size=1600) * np.hanning(1600)) * (np.arange(801) < 700)
    delay = np.exp(-2j * np.pi * np.arange(801) / 1600 * 0.375)
    wave, later = np.fft.irfft(turns), np.fft.irfft(turns * delay)
    assert wave @ later / (wave @ wave) < 0.95
    assert correlation(wave.astype(np.float32), later.astype(np.float32)) > 0.9999


def test_a_threshold_that_cannot_be_is_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"\.9 to 1"):
        same_audio(table_of(tmp_path / "t", {"a": None}), 0.5)
