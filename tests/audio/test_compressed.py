"""Damage in compressed files, where decoders go on in silence."""

from __future__ import annotations

import io
import random

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.audio import BadAudio, decode, encode_flac, inspect
from datalake.audio.kinds import id3_size
from datalake.audio.ogg import _page_checksum
from datalake.quarantine import Reason
from tests.audio.clips import CLIPS, by_soundfile, samples

ID3 = b"ID3\x04\0\0\0\0\x01\x00" + bytes(128)


def reason(data: bytes) -> Reason:
    with pytest.raises(BadAudio) as caught:
        inspect(data)
    return caught.value.refusal.reason


def flipped(data: bytes, position: int, bit: int = 0) -> bytes:
    damaged = bytearray(data)
    damaged[position] ^= 1 << bit
    return bytes(damaged)


def long_flac() -> bytes:
    """About 20 frames."""
    return encode_flac(samples(1, 80_000)[:, 0], 16_000)


def ogg_pages(data: bytes) -> list[bytes]:
    return [b"OggS" + page for page in data.split(b"OggS")[1:]]


@pytest.mark.parametrize("name", ["flac_s8", "flac_s16", "flac_s24", "flac_libav"])
def test_any_damage_to_the_samples_of_flac_is_seen(name: str) -> None:
    data = CLIPS[name].data()
    rng = random.Random(3)
    for _ in range(40):
        position = rng.randrange(len(data) // 2, len(data))
        assert reason(flipped(data, position, rng.randrange(8))) in (
            Reason.CORRUPT,
            Reason.TRUNCATED,
        )


def test_flac_damaged_in_the_middle_is_corrupt_and_cut_is_truncated() -> None:
    data = long_flac()
    assert reason(flipped(data, len(data) // 2)) is Reason.CORRUPT
    for keep in (0.1, 0.5, 0.9, 0.999):
        assert reason(data[: int(len(data) * keep)]) is Reason.TRUNCATED


def test_flac_with_a_wrong_md5_is_corrupt() -> None:
    data = bytearray(long_flac())
    data[26:42] = bytes(range(16))
    assert reason(bytes(data)) is Reason.CORRUPT
    data[26:42] = bytes(16)
    assert inspect(bytes(data)).num_samples == 80_000


def test_flac_from_a_pipe_states_neither_length_nor_md5() -> None:
    data = bytearray(long_flac())
    data[21] &= 0xF0
    data[22:42] = bytes(20)
    info = inspect(bytes(data), suffix=".flac")
    assert (info.codec, info.num_samples) == ("flac", 80_000)
    np.testing.assert_allclose(decode(bytes(data))[0], decode(long_flac())[0], atol=1e-7)


def test_flac_behind_an_id3_tag() -> None:
    assert inspect(ID3 + long_flac(), suffix=".flac").num_samples == 80_000


@pytest.mark.parametrize("name", ["vorbis", "opus"])
def test_any_damage_to_ogg_is_seen(name: str) -> None:
    data = CLIPS[name].data()
    rng = random.Random(4)
    for _ in range(60):
        damaged = flipped(data, rng.randrange(4, len(data)), rng.randrange(8))
        assert reason(damaged) in (Reason.CORRUPT, Reason.TRUNCATED)


def test_a_missing_page_of_ogg() -> None:
    long = by_soundfile("OGG", "VORBIS", 2) * 1
    pages = ogg_pages(long)
    assert len(pages) >= 3
    assert reason(b"".join(pages[:1] + pages[2:])) is Reason.CORRUPT
    assert reason(b"".join(pages[:-1])) is Reason.TRUNCATED


@given(st.binary(min_size=27, max_size=200))
def test_the_checksum_of_a_page_is_ogg_s(page: bytes) -> None:
    """The slow twin: the polynomial bit by bit, as RFC 3533 has it."""
    value = 0
    for byte in page[:22] + bytes(4) + page[26:]:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value >> 31 else 0)) & 0xFFFF_FFFF
    assert _page_checksum(page) == value


@pytest.mark.parametrize("name", ["mp3", "mp3_libav"])
def test_mp3_between_tags(name: str) -> None:
    data = CLIPS[name].data()
    expected = inspect(data)
    data = data[id3_size(data) :]
    for tagged in (
        data,
        ID3 + data,
        ID3 + ID3 + data,
        ID3 + bytes(100) + data,
        data + b"TAG" + bytes(125),
        data + b"APETAGEX" + bytes(24),
        data + bytes(64),
    ):
        assert inspect(tagged, suffix=".mp3") == expected


def test_mp3_that_loses_its_sync_is_corrupt() -> None:
    data = CLIPS["mp3"].data(2)
    middle = len(data) // 2
    assert reason(data[:middle] + b"\x55" * 50 + data[middle:]) is Reason.CORRUPT


def test_mp3_cut_between_two_frames_has_fewer_than_its_header_counts() -> None:
    data = CLIPS["mp3"].data()
    last = data.rfind(data[:2], 4)
    assert reason(data[:last]) is Reason.TRUNCATED


def test_mp3_of_tags_alone() -> None:
    assert reason(ID3 + b"TAG" + bytes(125)) in (Reason.EMPTY, Reason.NOT_AUDIO)
    assert reason(ID3) is Reason.EMPTY


def test_m4a_without_its_index_or_with_half_of_its_audio() -> None:
    data = CLIPS["m4a"].data()
    index = data.index(b"moov") - 4
    assert reason(data[:index]) is Reason.TRUNCATED
    assert reason(data[: index // 2]) is Reason.TRUNCATED


def test_a_film_without_sound() -> None:
    target = io.BytesIO()
    with av.open(target, "w", format="mp4") as output:
        track = output.add_stream("mpeg4", rate=25, width=32, height=32, pix_fmt="yuv420p")
        output.mux(track.encode(av.VideoFrame(32, 32, "yuv420p")))
        output.mux(track.encode(None))
    assert reason(target.getvalue()) is Reason.NOT_AUDIO
