"""FLAC at 16 kHz: nothing lost that fits, the same bytes every time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.audio import AudioInfo, BadAudio, decode, encode_flac, inspect, transcode
from datalake.errors import InputError
from tests.audio.clips import CLIPS, samples


@given(
    st.lists(st.integers(-32768, 32767), min_size=1, max_size=300), st.sampled_from([8_000, 44_100])
)
def test_what_16_bits_hold_comes_back(values: list[int], rate_hz: int) -> None:
    written = np.array(values, np.float32) / 32768
    read, found_rate_hz = decode(encode_flac(written, rate_hz))
    np.testing.assert_array_equal(read, written)
    assert found_rate_hz == rate_hz


def test_channels_are_rows() -> None:
    data = encode_flac(samples(2).T, 16_000)
    assert inspect(data) == AudioInfo(0.5, 16_000, 2, "flac", 8_000)
    np.testing.assert_allclose(decode(data, mono=False)[0], samples(2).T, atol=2**-16)


def test_what_is_too_loud_is_clipped() -> None:
    read, _ = decode(encode_flac(np.float32([2, -2, 1]), 16_000))
    np.testing.assert_array_equal(read, np.float32([32767 / 32768, -1, 32767 / 32768]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="NaN"):
        encode_flac(np.float32([0, value]), 16_000)


def test_what_flac_cannot_hold_is_refused() -> None:
    with pytest.raises(InputError, match="FLAC cannot hold"):
        encode_flac(np.zeros((9, 10), np.float32), 16_000)


@pytest.mark.parametrize("name", CLIPS)
def test_transcode_of_every_kind(name: str) -> None:
    data, info = transcode(CLIPS[name].data(2), "flac16k")
    assert inspect(data, suffix=".flac") == info
    assert (info.sample_rate_hz, info.num_channels, info.codec) == (16_000, 1, "flac")
    assert transcode(CLIPS[name].data(2), "flac16k")[0] == data
    assert transcode(data, "flac16k")[0] == data


def test_transcode_of_what_is_broken() -> None:
    with pytest.raises(BadAudio):
        transcode(CLIPS["mp3"].data()[:-50], "flac16k")


def test_an_unknown_preset_names_the_known() -> None:
    with pytest.raises(InputError, match="flac16k"):
        transcode(CLIPS["wav_s16"].data(), "flac16")  # type: ignore[arg-type]
