"""Audio measures against what was put into the audio."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pyarrow as pa
import pytest
import soundfile
import soxr
from hypothesis import given
from hypothesis import strategies as st

from curation.quality.audio import AUDIO, MEASURES, AudioMeasures, measure
from curation.quality.audio_levels import clipping_share
from datalake.errors import InputError
from datalake.pipelines.annotation.annotator import Annotator
from tests.speech import voice

RATE_HZ = 16_000


def file_of(samples: np.ndarray, rate_hz: int = RATE_HZ, **how: object) -> bytes:
    """`samples` (num_samples,) or (num_samples, num_channels) as a file."""
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate_hz, **({"format": "WAV", "subtype": "PCM_16"} | how))
    return buffer.getvalue()


def measured(samples: np.ndarray, rate_hz: int = RATE_HZ) -> dict[str, float | None]:
    channels = np.atleast_2d(samples.astype("float32"))
    return measure(channels, rate_hz)


def noise(seconds: float, level: float = 0.05, rate_hz: int = RATE_HZ, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, level, round(seconds * rate_hz)).astype("float32")


def speech(seconds: float = 3.0, seed: int = 0) -> np.ndarray:
    """A voice in syllables of 300 ms with pauses of 200 ms."""
    wave = voice(np.random.default_rng(seed), None, seconds)
    time = np.arange(wave.size) / RATE_HZ
    return (wave * (time % 0.5 < 0.3)).astype("float32")


def test_a_sine_has_the_levels_of_the_textbook() -> None:
    time = np.arange(RATE_HZ) / RATE_HZ
    found = measured(0.5 * np.sin(2 * np.pi * 1000 * time) + 0.25)
    assert found["peak_dbfs"] == pytest.approx(20 * np.log10(0.75), abs=1e-3)
    assert found["rms_dbfs"] == pytest.approx(20 * np.log10(0.5 / np.sqrt(2)), abs=1e-3)
    assert found["dc_offset"] == pytest.approx(0.25, abs=1e-6)
    assert found["duration_s"] == 1.0


def test_digital_silence_has_no_infinity() -> None:
    found = measured(np.zeros(RATE_HZ))
    assert found["peak_dbfs"] == found["rms_dbfs"] == -120
    assert found["leading_silence_s"] == found["trailing_silence_s"] == 1.0
    assert (found["speech_share"], found["snr_db"], found["bandwidth_hz"]) == (0, None, None)


@pytest.mark.parametrize("num_samples", [1, 2, 159, 160, 161, 480, 511, 513])
def test_the_shortest_clips_are_measured(num_samples: int) -> None:
    found = measured(noise(1)[:num_samples])
    assert all(value is None or np.isfinite(value) for value in found.values())


def slow_clipping_share(channel: np.ndarray) -> float:
    """Sample by sample."""
    clipped = set()
    for extreme in (channel.max(), channel.min()):
        run: list[int] = []
        for index, value in enumerate([*channel, np.nan]):
            if value == extreme and abs(extreme) >= 1e-3:
                run.append(index)
                continue
            clipped.update(run if len(run) >= 3 else [])
            run = []
    return len(clipped) / len(channel)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=60))
def test_clipping_is_what_a_slow_count_finds(values: list[int]) -> None:
    channel = np.array(values, np.float32) / 4
    assert clipping_share(channel) == pytest.approx(slow_clipping_share(channel))


def test_clipping_is_found_after_the_volume_was_turned_down() -> None:
    clipped = np.clip(voice(np.random.default_rng(0), None, 1.0) * 10, -1, 1)
    share = measured(clipped)["clipping_share"]
    assert share > 0.1
    assert measured(0.3 * clipped)["clipping_share"] == pytest.approx(share)
    assert measured(voice(np.random.default_rng(0), None, 1.0))["clipping_share"] == 0


@pytest.mark.parametrize("scale", [1.0, 0.02])
@pytest.mark.parametrize("floor", [0.0, 1e-4, 3e-3])
@pytest.mark.parametrize("offset", [0.0, 0.1])
def test_silence_at_the_ends_is_measured_whatever_level_noise_and_offset(
    scale: float, floor: float, offset: float
) -> None:
    middle = speech(2.3)[: round(2.2 * RATE_HZ)] + 0.0  # ends within a syllable
    wave = np.concatenate([np.zeros(8000), middle, np.zeros(4000)])
    wave = scale * (wave + floor * noise(wave.size / RATE_HZ, 1.0) + offset)
    found = measured(wave)
    assert found["leading_silence_s"] == pytest.approx(0.5, abs=0.02)
    assert found["trailing_silence_s"] == pytest.approx(0.25, abs=0.02)
    assert found["speech_share"] == pytest.approx(0.3 / 0.5 * 2.2 / 2.95, abs=0.06)


@pytest.mark.parametrize("snr_db", [5, 10, 20, 35])
def test_the_noise_added_is_the_noise_estimated(snr_db: float) -> None:
    wave = speech(4.0)
    power = np.mean(wave[wave != 0] ** 2)
    found = measured(wave + noise(4.0, np.sqrt(power / 10 ** (snr_db / 10))))
    assert found["snr_db"] == pytest.approx(snr_db, abs=1.5 if snr_db > 6 else 2)


@pytest.mark.parametrize("rate_hz", [16_000, 22_050, 44_100])
def test_upsampled_audio_is_found(rate_hz: int) -> None:
    whole = np.cumsum(noise(3.0, 0.02, rate_hz))  # 6 dB an octave down
    whole = (whole - np.convolve(whole, np.ones(200) / 200, "same")).astype("float32")
    narrow = soxr.resample(soxr.resample(whole, rate_hz, 8000), 8000, rate_hz)
    stored = np.round(narrow * 32768) / 32768
    assert measured(whole, rate_hz)["bandwidth_hz"] == rate_hz / 2
    assert measured(stored, rate_hz)["bandwidth_hz"] == pytest.approx(4000, abs=200)
    # Neither the level nor a whistle over the band moves it.
    whistle = 3e-4 * np.sin(2 * np.pi * 6500 * np.arange(stored.size) / rate_hz)
    for other in (0.05 * narrow, stored + whistle):
        assert measured(other, rate_hz)["bandwidth_hz"] == pytest.approx(4000, abs=200)


def test_lossy_coding_leaves_holes() -> None:
    wave = np.cumsum(noise(4.0, 0.02, 22_050))
    wave = (wave - np.convolve(wave, np.ones(200) / 200, "same")).astype("float32")
    mp3 = file_of(
        wave, 22_050, format="MP3", subtype="MPEG_LAYER_III",
        bitrate_mode="CONSTANT", compression_level=0.85,
    )  # fmt: skip
    coded, _ = soundfile.read(io.BytesIO(mp3), dtype="float32")
    before, after = (measured(each, 22_050)["hole_share"] for each in (wave, coded))
    assert before < 2e-4
    assert after > 5 * max(before, 1e-4)


def test_peak_and_clipping_are_of_the_channels_and_the_rest_of_their_mean() -> None:
    wave = voice(np.random.default_rng(0), None, 1.0)
    loud = np.clip(8 * wave, -1, 1)
    found = measure(np.stack([loud, -loud]).astype("float32"), RATE_HZ)
    assert found["peak_dbfs"] == 0
    assert found["clipping_share"] > 0.1
    assert found["rms_dbfs"] == -120  # the channels cancel


def test_annotates_rows_each_by_itself_and_tells_of_the_bad_ones() -> None:
    files = [file_of(speech(1.0)), b"no audio at all", None, file_of(noise(1.0), format="FLAC")]
    rows = pa.table({"audio": pa.array(files, pa.large_binary())})
    assert isinstance(AUDIO, Annotator)
    annotate = pickle.loads(pickle.dumps(AUDIO)).open()
    found = annotate(rows)
    assert found.drop_columns(["error"]).schema == AUDIO.adds
    assert found.column_names == [*MEASURES[:-1], "error"]
    for index in (1, 2):
        assert [value.as_py() for value in found["rms_dbfs"]][index] is None
    errors = found["error"].to_pylist()
    assert errors[0] is errors[3] is None
    assert errors[1].startswith("not_audio: ")
    assert errors[2] == "there is no audio"
    alone = pa.concat_tables([annotate(rows.slice(index, 1)) for index in range(4)])
    assert alone.combine_chunks() == found


def test_computes_what_is_asked_for_and_knows_no_other() -> None:
    rows = pa.table({"audio": pa.array([file_of(speech(1.0))], pa.large_binary())})
    some = AudioMeasures(("snr_db", "duration_s")).open()(rows)
    assert some.column_names == ["snr_db", "duration_s", "error"]
    assert some["snr_db"] == AUDIO.open()(rows)["snr_db"]
    with pytest.raises(InputError, match=r"no audio measure snr_bd.*Did you mean snr_db"):
        AudioMeasures(("snr_bd",))


def test_real_speech_has_sound_values(shared_dir) -> None:
    files = sorted((shared_dir / "data/speech").glob("**/*.*"))
    files = [file.read_bytes() for file in files if file.suffix in {".flac", ".wav"}][::12]
    rows = pa.table({"audio": pa.array(files, pa.large_binary())})
    found = AUDIO.open()(rows)
    assert found["error"].null_count == len(files)
    assert min(found["bandwidth_hz"].to_pylist()) > 7000
    assert max(found["hole_share"].to_pylist()) < 5e-4
    assert 10 < np.median(found["snr_db"].to_numpy()) < 60
