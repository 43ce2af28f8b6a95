"""Spans of a clip: bit for bit what decoding all of it gives there, from any kind of buffer."""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datalake.audio import BadAudio, Buffer, decode, decode_span, encode_flac, inspect, open_clip
from datalake.audio.pcm import PLAIN_SCALE, plain_lengths, plain_span
from datalake.audio.riff import parse_wave
from datalake.errors import InputError
from tests.audio.clips import CLIPS, RATE_HZ, samples

unhurried = settings(deadline=None)

LONG = 50_000
PLAIN = CLIPS["wav_s16"].data()


def long_flac(subtype: str = "PCM_16", num_channels: int = 1) -> bytes:
    target = io.BytesIO()
    made = samples(num_channels, LONG)
    soundfile.write(target, made, RATE_HZ, format="FLAC", subtype=subtype)
    return target.getvalue()


LONG_CLIPS = {
    "flac": long_flac(),
    "flac_stereo": long_flac(num_channels=2),
    "flac_24": long_flac("PCM_24"),
    "flac_tagged": b"ID3\4\0\0\0\0\0\5hello" + long_flac(),
}


def buffers(data: bytes) -> list[Buffer]:
    odd = np.frombuffer(b"x" + data, np.uint8)[1:]
    return [bytearray(data), memoryview(data), odd, memoryview(bytearray(data))]


@pytest.mark.parametrize("name", CLIPS)
def test_any_buffer_will_do(name: str) -> None:
    data = CLIPS[name].data(2)
    expected, _ = decode(data)
    for buffer in buffers(data):
        np.testing.assert_array_equal(decode(buffer)[0], expected)
        assert inspect(buffer) == inspect(data)


@pytest.mark.parametrize(
    "junk", [b"", b"R", b"RIFF", b"junk" * 9, b"RIFF\0\0\0\0AVI LIST", PLAIN[:40]]
)
def test_any_buffer_is_refused_alike(junk: bytes) -> None:
    with pytest.raises(BadAudio) as expected:
        decode(junk)
    for buffer in buffers(junk):
        for refused in (decode, inspect, open_clip):
            with pytest.raises(BadAudio) as found:
                refused(buffer)  # type: ignore[operator]
            assert found.value.refusal == expected.value.refusal


@pytest.mark.parametrize("rate_hz", [None, 8_000, RATE_HZ])
@pytest.mark.parametrize("num_channels", [1, 2])
@pytest.mark.parametrize("name", CLIPS)
def test_spans_of_every_kind(name: str, num_channels: int, rate_hz: int | None) -> None:
    data = CLIPS[name].data(num_channels)
    whole, rate = decode(data, sample_rate_hz=rate_hz)
    clip = open_clip(data, rate_hz)
    assert (clip.num_samples, clip.sample_rate_hz) == (len(whole), rate)
    for start, stop in [(0, len(whole)), (0, 1), (777, 2000), (len(whole) - 1, len(whole))]:
        out = np.full(stop - start, np.nan, np.float32)
        clip.write(out, start)
        np.testing.assert_array_equal(out, whole[start:stop])


@unhurried
@given(st.sampled_from(sorted(LONG_CLIPS)), st.integers(0, LONG - 1), st.data())
def test_flac_is_entered_anywhere(name: str, start: int, data: st.DataObject) -> None:
    stop = data.draw(st.integers(start + 1, LONG))
    whole = decode(LONG_CLIPS[name])[0]
    out = np.full(stop - start, np.nan, np.float32)
    open_clip(LONG_CLIPS[name]).write(out, start)
    np.testing.assert_array_equal(out, whole[start:stop])


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.99])
def test_a_cut_flac_is_named_when_the_cut_is_reached(keep: float) -> None:
    data = LONG_CLIPS["flac"]
    cut = data[: int(len(data) * keep)]
    with pytest.raises(BadAudio) as expected:
        decode(cut)
    clip = open_clip(cut)
    for start in (0, LONG - 100):
        with pytest.raises(BadAudio) as found:
            clip.write(np.empty(LONG - start, np.float32), start)
        assert found.value.refusal.reason == expected.value.refusal.reason


def twin(data: bytes, from_s: float, to_s: float, rate_hz: int | None) -> npt.NDArray[np.float32]:
    """Decode all, put zeros around it, cut."""
    whole, rate = decode(data, sample_rate_hz=rate_hz)
    first, last = (int(np.floor(time_s * rate + 0.5)) for time_s in (from_s, to_s))
    around = max(0, -first, last - len(whole))
    padded = np.pad(whole, around)
    return padded[first + around : last + around]


TIMES = st.floats(-1, 4, allow_nan=False).map(lambda time_s: round(time_s, 4))


@unhurried
@given(
    st.sampled_from([LONG_CLIPS["flac"], PLAIN, CLIPS["opus"].data(), CLIPS["wav_s24"].data(2)]),
    st.tuples(TIMES, TIMES).map(sorted),
    st.sampled_from([None, 8_000]),
)
@example(PLAIN, [-1.0, -0.5], None)
@example(PLAIN, [0.2, 0.2], None)
@example(LONG_CLIPS["flac"], [3.5, 4.0], None)
def test_a_span_by_time(data: bytes, times: list[float], rate_hz: int | None) -> None:
    found = decode_span(data, *times, rate_hz)
    np.testing.assert_array_equal(found, twin(data, *times, rate_hz))


def test_spans_in_a_row_give_back_the_whole() -> None:
    data = LONG_CLIPS["flac"]
    # Spans of a 30 Hz camera: not a whole number of samples each.
    spans = [decode_span(data, frame / 30, (frame + 1) / 30) for frame in range(94)]
    np.testing.assert_array_equal(np.concatenate(spans)[:LONG], decode(data)[0])


@pytest.mark.parametrize("times", [(1.0, 0.5), (0.0, np.inf), (np.nan, 1.0)])
def test_impossible_spans_are_refused(times: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="impossible"):
        decode_span(PLAIN, *times)


def as_file(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize("name", [name for name, clip in CLIPS.items() if clip.suffix == ".wav"])
def test_plain_files_are_told_from_others(name: str) -> None:
    found = plain_lengths([as_file(CLIPS[name].data(n)) for n in (1, 2)], RATE_HZ)
    assert found.tolist() == [len(samples()) if name == "wav_s16" else 0, 0]
    assert plain_lengths([as_file(CLIPS[name].data())], 8_000).tolist() == [0]


@unhurried
@given(
    st.dictionaries(st.integers(0, 43), st.sampled_from([0, 1, 2, 3, 4, 16, 0x7F, 0xFF])),
    st.integers(0, 3) | st.just(1000),
    st.integers(0, 60),
)
def test_what_passes_as_plain_is_what_the_parser_finds(
    changes: dict[int, int], extra: int, cut: int
) -> None:
    changed = bytearray(PLAIN[: 44 + 2000])
    changed[40:44] = (2000).to_bytes(4, "little")
    for place, byte in changes.items():
        changed[place] = byte
    data = (bytes(changed) + bytes(extra))[: len(changed) + extra - cut]
    (length,) = plain_lengths([as_file(data)], RATE_HZ)
    if length:
        header = parse_wave(data)
        assert (header.codec, header.num_channels, header.sample_rate_hz) == (
            "pcm_s16le",
            1,
            RATE_HZ,
        )
        assert (header.data_start, header.num_samples) == (44, length)
        span = plain_span(as_file(data), 1, length - 1)
        out = span.astype(np.float32) * np.float32(PLAIN_SCALE)
        np.testing.assert_array_equal(out, decode(data)[0][1:])


def test_nulls_and_stubs_are_not_plain() -> None:
    files = [None, as_file(b""), as_file(PLAIN[:20]), as_file(PLAIN), as_file(PLAIN[:-1])]
    assert plain_lengths(files, RATE_HZ).tolist() == [0, 0, 0, len(samples()), 0]
    assert plain_lengths([], RATE_HZ).shape == (0,)


def test_full_scale_is_exact() -> None:
    flac = encode_flac(np.array([-1, 1, 0.5] * 100, np.float32), RATE_HZ)
    np.testing.assert_array_equal(decode_span(flac, 0, 300 / RATE_HZ), decode(flac)[0])
