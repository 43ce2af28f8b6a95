"""Whole files of every kind: what is found in them, and what their names may not say."""

from __future__ import annotations

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from datalake.audio import AudioInfo, BadAudio, decode, inspect
from datalake.audio.kinds import kind_of_suffix
from datalake.errors import InputError
from datalake.quarantine import Reason, Refusal
from tests.audio.clips import CLIPS, NUM_SAMPLES, RATE_HZ, by_soundfile, samples


def reason(data: bytes, suffix: str = "") -> Reason:
    with pytest.raises(BadAudio) as caught:
        inspect(data, suffix=suffix)
    return caught.value.refusal.reason


@pytest.mark.parametrize("num_channels", [1, 2])
@pytest.mark.parametrize("name", CLIPS)
def test_facts_of_every_kind(name: str, num_channels: int) -> None:
    clip = CLIPS[name]
    info = inspect(clip.data(num_channels), suffix=clip.suffix)
    assert info.codec == clip.codec
    assert info.num_channels == num_channels
    assert info.sample_rate_hz == RATE_HZ or name == "opus_libav"
    assert info.duration_s == info.num_samples / info.sample_rate_hz
    if clip.exact:
        assert info.num_samples == NUM_SAMPLES
    decoded, rate_hz = decode(clip.data(num_channels), mono=False)
    assert (decoded.shape, rate_hz) == ((num_channels, info.num_samples), info.sample_rate_hz)


@pytest.mark.parametrize("name", CLIPS)
def test_a_name_that_promises_another_kind(name: str) -> None:
    clip = CLIPS[name]
    kind = kind_of_suffix(clip.suffix)
    for suffix in (".wav", ".flac", ".ogg", ".mp3", ".m4a", ".aac", ".aiff", ".OPUS"):
        if kind_of_suffix(suffix) == kind:
            assert inspect(clip.data(), suffix=suffix).codec == clip.codec
        else:
            assert reason(clip.data(), suffix) is Reason.WRONG_EXTENSION


def test_a_name_that_promises_nothing() -> None:
    assert inspect(CLIPS["flac_s16"].data(), suffix=".bin").codec == "flac"


@pytest.mark.parametrize(
    ("data", "seems"),
    [
        (b"<!DOCTYPE html><html>404</html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS"),
        (b'{"error": "quota"}', "JSON"),
        (b"\x89PNG\r\n\x1a\n" + bytes(64), "PNG"),
        (b"PK\x03\x04" + bytes(64), "zip"),
        (bytes(4096), "zero bytes"),
        (b"speaker utterance label\n", "text that begins 'speaker"),
        (bytes(range(1, 200)), "01 02 03"),
        (b"RIFF\x24\0\0\0AVI LIST" + bytes(64), "52 49 46 46"),
        (b"\x1aE\xdf\xa3" + bytes(64), "WebM"),
    ],
)
def test_what_is_no_audio_is_described(data: bytes, seems: str) -> None:
    with pytest.raises(BadAudio) as caught:
        inspect(data, suffix=".wav")
    assert caught.value.refusal.reason is Reason.NOT_AUDIO
    assert seems in caught.value.refusal.detail


def test_no_bytes() -> None:
    assert reason(b"", ".wav") is Reason.EMPTY
    with pytest.raises(BadAudio):
        decode(b"")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("wav_s16", Reason.EMPTY),
        ("wav_f32", Reason.EMPTY),
        ("aiff", Reason.EMPTY),
        ("vorbis", Reason.EMPTY),
        # libsndfile does not end an Opus stream that it never began.
        ("opus", Reason.TRUNCATED),
        ("flac_s16", Reason.EMPTY),
    ],
)
def test_a_header_without_samples(name: str, expected: Reason) -> None:
    clip = CLIPS[name]
    made = soundfile.info(io.BytesIO(clip.data()))
    target = io.BytesIO()
    soundfile.write(target, np.zeros(0), RATE_HZ, format=made.format, subtype=made.subtype)
    assert reason(target.getvalue(), clip.suffix) is expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
def test_samples_that_are_no_number(subtype: str, value: float) -> None:
    bad = samples(2).copy()
    bad[1234, 1] = value
    target = io.BytesIO()
    soundfile.write(target, bad, RATE_HZ, format="WAV", subtype=subtype)
    with pytest.raises(BadAudio) as caught:
        inspect(target.getvalue(), suffix=".wav")
    assert caught.value.refusal == Refusal(
        Reason.NON_FINITE, f"1 of {2 * NUM_SAMPLES} samples, the first at 1234"
    )


def test_a_sample_that_float32_cannot_hold() -> None:
    target = io.BytesIO()
    soundfile.write(target, np.array([0.5, 1e39]), RATE_HZ, format="WAV", subtype="DOUBLE")
    assert reason(target.getvalue(), ".wav") is Reason.NON_FINITE


@pytest.mark.parametrize("name", CLIPS)
def test_a_cut_file_never_passes(name: str) -> None:
    """Cuts on the way through the file and at each byte of its start and end."""
    clip = CLIPS[name]
    data = clip.data()
    cuts = {
        *range(1, 80, 7),
        *range(80, len(data), len(data) // 25),
        *range(len(data) - 8, len(data)),
    }
    for cut in sorted(cuts):
        if name == "aac" and _ends_with_a_frame(data[:cut]):
            continue
        found = reason(data[:cut])
        if cut > 80:
            assert found is Reason.TRUNCATED, cut


def _ends_with_a_frame(data: bytes) -> bool:
    """ADTS says nowhere how many frames there are: a cut between two cannot be seen."""
    position = 0
    while position + 7 <= len(data):
        position += int.from_bytes(data[position + 3 : position + 6], "big") >> 5 & 0x1FFF
    return position == len(data)


def test_errors_pickle_with_their_refusal() -> None:
    error = BadAudio(Refusal(Reason.TRUNCATED, "12 bytes of 40"))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is BadAudio
    assert isinstance(again, InputError)
    assert again.refusal == error.refusal
    assert str(again) == str(error)
    assert "12 bytes of 40" in str(error)
    assert "[truncated]" in str(error)


def test_many_threads_find_the_same() -> None:
    clips = list(CLIPS.values()) * 4

    def look(index: int) -> AudioInfo:
        clip = clips[index]
        return inspect(clip.data(), suffix=clip.suffix)

    alone = [look(index) for index in range(len(clips))]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(look, range(len(clips)))) == alone


def test_the_rate_of_opus_is_the_one_it_is_decoded_at() -> None:
    info = inspect(by_soundfile("OGG", "OPUS"), suffix=".opus")
    assert (info.sample_rate_hz, info.num_samples) == (RATE_HZ, NUM_SAMPLES)


@pytest.mark.shared
def test_real_files_hold_what_libsndfile_finds(shared_dir: Path) -> None:
    paths = sorted((shared_dir / "data" / "speech").glob("*/*.*"))
    assert len(paths) == 378
    for path in paths:
        data = path.read_bytes()
        info = inspect(data, suffix=path.suffix)
        expected = soundfile.info(io.BytesIO(data))
        assert (info.num_samples, info.sample_rate_hz, info.num_channels) == (
            expected.frames,
            expected.samplerate,
            expected.channels,
        )
