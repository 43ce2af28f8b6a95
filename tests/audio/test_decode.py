"""Samples: against libsndfile, by hand, and through the resampler."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from datalake.audio import decode, encode_flac
from datalake.errors import InputError
from tests.audio.clips import CLIPS, RATE_HZ, samples

BY_LIBSNDFILE = [
    name for name, clip in CLIPS.items() if clip.codec not in ("aac", "alac") and name != "aac"
]
LOSSLESS = {"wav_s16": 16, "wav_s24": 24, "wav_s32": 24, "wav_f32": 24, "wavex_s24": 24, "w64": 16}
LOSSLESS |= {"rf64": 16, "aiff": 16, "flac_s16": 16, "flac_s24": 24, "wav_f64": 24}


@pytest.mark.parametrize("num_channels", [1, 2])
@pytest.mark.parametrize("name", BY_LIBSNDFILE)
def test_equals_libsndfile(name: str, num_channels: int) -> None:
    data = CLIPS[name].data(num_channels)
    twin, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    decoded, found_rate_hz = decode(data, mono=False)
    assert found_rate_hz == rate_hz
    assert decoded.dtype == np.float32
    assert decoded.flags.c_contiguous
    # MP3 is read in blocks, and its decoder rounds a little differently at their borders.
    np.testing.assert_allclose(decoded, twin.T, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "bits"), LOSSLESS.items())
def test_lossless_kinds_give_back_what_was_written(name: str, bits: int) -> None:
    decoded, _ = decode(CLIPS[name].data(2), mono=False)
    np.testing.assert_allclose(decoded, samples(2).T, rtol=0, atol=2.0 ** (1 - bits))


@pytest.mark.parametrize("name", ["m4a", "aac"])
def test_aac_is_the_same_sound(name: str) -> None:
    """AAC puts 1,024 samples of its own before the sound and fills its last frame."""
    decoded, rate_hz = decode(CLIPS[name].data())
    original = samples()[:, 0]
    lag = np.correlate(decoded, original, "valid").argmax()
    assert rate_hz == RATE_HZ
    assert lag == 1024
    assert np.corrcoef(decoded[lag : lag + len(original)], original)[0, 1] > 0.9


def test_alac_is_lossless() -> None:
    decoded, _ = decode(CLIPS["alac"].data(2), mono=False)
    np.testing.assert_allclose(decoded, samples(2).T, rtol=0, atol=2**-15)


def test_mono_is_the_mean_of_the_channels() -> None:
    data = CLIPS["wav_f32"].data(2)
    mono, _ = decode(data)
    assert mono.shape == (len(samples(2)),)
    np.testing.assert_array_equal(mono, samples(2).mean(1, dtype=np.float32))


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 48_000])
def test_resampling_keeps_a_tone(rate_hz: int) -> None:
    time = np.arange(2 * RATE_HZ) / RATE_HZ
    data = encode_flac((0.5 * np.sin(2 * np.pi * 440 * time)).astype(np.float32), RATE_HZ)
    decoded, found_rate_hz = decode(data, sample_rate_hz=rate_hz)
    assert (found_rate_hz, len(decoded)) == (rate_hz, 2 * rate_hz)
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * rate_hz) / rate_hz)
    inner = slice(rate_hz // 2, -rate_hz // 2)
    np.testing.assert_allclose(decoded[inner], expected[inner], atol=1e-3)


def test_resampling_keeps_channels_apart() -> None:
    data = CLIPS["wav_f32"].data(2)
    both, _ = decode(data, sample_rate_hz=8_000, mono=False)
    assert both.shape == (2, len(samples(2)) // 2)
    mono, _ = decode(data, sample_rate_hz=8_000)
    np.testing.assert_allclose(both.mean(0), mono, atol=1e-6)


def test_the_own_rate_changes_nothing() -> None:
    data = CLIPS["wav_s16"].data()
    np.testing.assert_array_equal(decode(data)[0], decode(data, sample_rate_hz=RATE_HZ)[0])


@pytest.mark.parametrize("rate_hz", [0, -1])
def test_an_impossible_rate_is_refused(rate_hz: int) -> None:
    with pytest.raises(InputError, match="impossible"):
        decode(CLIPS["wav_s16"].data(), sample_rate_hz=rate_hz)


@pytest.mark.shared
def test_real_files_equal_libsndfile(shared_dir: Path) -> None:
    for path in sorted((shared_dir / "data" / "speech").glob("*/*.*"))[::9]:
        data = path.read_bytes()
        twin, rate_hz = soundfile.read(io.BytesIO(data), dtype="float32")
        decoded, found_rate_hz = decode(data)
        assert found_rate_hz == rate_hz
        np.testing.assert_array_equal(decoded, twin)
