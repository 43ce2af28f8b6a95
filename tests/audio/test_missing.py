"""Without the extra `audio`: plain WAV works, all else says what to install."""

from __future__ import annotations

import sys

import pytest

from datalake.audio import decode, encode_flac, inspect
from datalake.errors import MissingPackageError
from tests.audio.clips import CLIPS


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CLIPS:
        CLIPS[name].data()
    for package in ("av", "soundfile", "soxr"):
        monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.usefixtures("bare")
def test_plain_wav_needs_no_decoder() -> None:
    for name in ("wav_u8", "wav_s16", "wav_s24", "wav_s32", "wav_f32", "wav_f64", "rf64", "w64"):
        info = inspect(CLIPS[name].data(), suffix=CLIPS[name].suffix)
        assert len(decode(CLIPS[name].data())[0]) == info.num_samples


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("name", ["flac_s16", "vorbis", "mp3", "m4a", "aac", "wav_adpcm"])
def test_all_else_names_the_extra(name: str) -> None:
    for look in (inspect, decode):
        with pytest.raises(MissingPackageError, match=r"datalake\[audio\]"):
            look(CLIPS[name].data())


@pytest.mark.usefixtures("bare")
def test_resampling_and_encoding_name_the_extra() -> None:
    with pytest.raises(MissingPackageError, match="soxr"):
        decode(CLIPS["wav_s16"].data(), sample_rate_hz=8_000)
    samples, rate_hz = decode(CLIPS["wav_s16"].data())
    with pytest.raises(MissingPackageError, match="soundfile"):
        encode_flac(samples, rate_hz)
