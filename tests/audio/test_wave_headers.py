"""WAVE headers by hand: every layout that the chunk walk must see through."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from datalake.audio import BadAudio, decode, inspect
from datalake.audio.riff import parse_wave
from datalake.quarantine import Reason

SAMPLES = np.array([0, 16384, -32768, 32767, -1, 8192], np.int16)
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE


def chunk(name: bytes, body: bytes, *, size: int | None = None, pad: bool = True) -> bytes:
    size = len(body) if size is None else size
    return name + struct.pack("<I", size) + body + (b"\0" if pad and len(body) % 2 else b"")


def fmt(
    tag: int = PCM, channels: int = 1, rate: int = 16_000, bits: int = 16, block: int | None = None
) -> bytes:
    block = channels * bits // 8 if block is None else block
    return struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits)


def riff(*chunks: bytes, magic: bytes = b"RIFF") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return magic + struct.pack("<I", len(body)) + body


def extensible(tag: int, bits: int, valid_bits: int) -> bytes:
    guid = struct.pack("<H", tag) + bytes.fromhex("000000001000800000aa00389b71")
    return fmt(EXTENSIBLE, bits=bits) + struct.pack("<HHI", 22, valid_bits, 4) + guid


FMT = chunk(b"fmt ", fmt())
DATA = chunk(b"data", SAMPLES.tobytes())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(riff(FMT, DATA), id="plain"),
        pytest.param(riff(chunk(b"LIST", b"INFOISFT"), FMT, DATA), id="LIST before fmt"),
        pytest.param(riff(FMT, chunk(b"LIST", b"odd"), DATA), id="odd chunk, padded"),
        pytest.param(riff(FMT, chunk(b"LIST", b"odd", pad=False), DATA), id="odd chunk, unpadded"),
        pytest.param(riff(chunk(b"JUNK", bytes(28)), FMT, DATA), id="JUNK"),
        pytest.param(riff(FMT, DATA, chunk(b"LIST", b"INFO")), id="LIST behind"),
        pytest.param(riff(FMT, DATA) + b"trailing garbage", id="garbage behind"),
        pytest.param(riff(FMT, chunk(b"data", SAMPLES.tobytes(), size=0)), id="size never filled"),
        pytest.param(riff(FMT, chunk(b"data", SAMPLES.tobytes(), size=2**32 - 1)), id="size -1"),
        pytest.param(
            riff(FMT, chunk(b"data", SAMPLES.tobytes(), size=0x7FFFF000)), id="size 2 GiB"
        ),
        pytest.param(riff(chunk(b"fmt ", fmt() + b"\0\0"), DATA), id="fmt of 18 bytes"),
        pytest.param(riff(chunk(b"fmt ", extensible(PCM, 16, 16)), DATA), id="extensible"),
        pytest.param(b"RIFF" + b"\xff" * 4 + riff(FMT, DATA)[8:], id="RIFF size -1"),
        pytest.param(b"RIFF" + b"\x00" * 4 + riff(FMT, DATA)[8:], id="RIFF size 0"),
        pytest.param(
            riff(
                chunk(b"ds64", struct.pack("<QQQI", 0, SAMPLES.nbytes, len(SAMPLES), 0)),
                FMT,
                chunk(b"data", SAMPLES.tobytes(), size=2**32 - 1),
                chunk(b"LIST", b"INFO"),
                magic=b"RF64",
            ),
            id="RF64 with a chunk behind",
        ),
    ],
)
def test_layouts_that_hold_the_same_samples(data: bytes) -> None:
    info = inspect(data, suffix=".wav")
    decoded, rate_hz = decode(data)
    assert (info.codec, rate_hz) == ("pcm_s16le", 16_000)
    # A streaming size takes in what stands behind the samples, and nothing does in these.
    assert info.num_samples == len(SAMPLES)
    np.testing.assert_array_equal(decoded, SAMPLES / np.float32(32768))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(riff(chunk(b"fmt ", fmt(rate=0)), DATA), Reason.BAD_HEADER, id="0 Hz"),
        pytest.param(riff(chunk(b"fmt ", fmt(rate=2**30)), DATA), Reason.BAD_HEADER, id="1 GHz"),
        pytest.param(
            riff(chunk(b"fmt ", fmt(channels=0, block=2)), DATA), Reason.BAD_HEADER, id="0 channels"
        ),
        pytest.param(riff(chunk(b"fmt ", fmt(block=0)), DATA), Reason.BAD_HEADER, id="block of 0"),
        pytest.param(
            riff(chunk(b"fmt ", fmt(bits=0, block=2)), DATA), Reason.BAD_HEADER, id="0 bit"
        ),
        pytest.param(
            riff(chunk(b"fmt ", fmt(bits=24, block=2)), DATA), Reason.BAD_HEADER, id="24 in 16"
        ),
        pytest.param(
            riff(chunk(b"fmt ", fmt(channels=2, block=3)), DATA), Reason.BAD_HEADER, id="odd block"
        ),
        pytest.param(riff(DATA, FMT), Reason.CORRUPT, id="data before fmt"),
        pytest.param(riff(FMT), Reason.CORRUPT, id="no data"),
        pytest.param(riff(FMT, chunk(b"LIST", b"INFO")), Reason.CORRUPT, id="no data but LIST"),
        pytest.param(riff(chunk(b"fmt ", fmt()[:8]), DATA), Reason.CORRUPT, id="short fmt"),
        pytest.param(riff(FMT, chunk(b"data", b"")), Reason.EMPTY, id="no samples"),
        pytest.param(
            riff(FMT, chunk(b"data", b""), chunk(b"LIST", b"INFO")), Reason.EMPTY, id="none, LIST"
        ),
        pytest.param(riff(FMT, chunk(b"data", b"\0")), Reason.EMPTY, id="half a sample"),
        pytest.param(riff(FMT, DATA)[:-1], Reason.TRUNCATED, id="a byte short"),
        pytest.param(riff(FMT, DATA)[:44], Reason.TRUNCATED, id="header only"),
        pytest.param(riff(FMT, DATA)[:30], Reason.TRUNCATED, id="cut in fmt"),
        pytest.param(riff(FMT, DATA)[:12], Reason.TRUNCATED, id="12 bytes"),
        pytest.param(b"RIFF", Reason.TRUNCATED, id="4 bytes"),
    ],
)
def test_headers_that_cannot_be(data: bytes, reason: Reason) -> None:
    for look in (inspect, decode):
        with pytest.raises(BadAudio) as caught:
            look(data)
        assert caught.value.refusal.reason is reason


def test_truncation_says_how_much_is_there() -> None:
    with pytest.raises(BadAudio, match="promises 12 bytes of samples, the file holds 5"):
        inspect(riff(FMT, DATA)[:-7])


def test_24_bits_in_extensible() -> None:
    body = b"".join(int(v).to_bytes(3, "little", signed=True) for v in (0, 4194304, -8388608))
    data = riff(chunk(b"fmt ", extensible(PCM, 24, 24)), chunk(b"data", body))
    assert inspect(data).codec == "pcm_s24le"
    np.testing.assert_array_equal(decode(data)[0], np.float32([0, 0.5, -1]))


def test_8_bits_are_unsigned() -> None:
    data = riff(chunk(b"fmt ", fmt(bits=8)), chunk(b"data", bytes([128, 192, 0, 255])))
    assert inspect(data).codec == "pcm_u8"
    np.testing.assert_array_equal(decode(data)[0], np.float32([0, 0.5, -1, 127 / 128]))


def test_a_whole_block_counts_only() -> None:
    data = riff(chunk(b"fmt ", fmt(channels=2)), chunk(b"data", SAMPLES.tobytes() + b"\1\2"))
    assert inspect(data).num_samples == 3


@given(
    values=st.lists(st.integers(-32768, 32767), min_size=1, max_size=64),
    channels=st.integers(1, 4),
    rate_hz=st.sampled_from([8_000, 22_050, 192_000]),
    before=st.lists(st.tuples(st.sampled_from([b"LIST", b"bext", b"JUNK"]), st.binary(max_size=9))),
)
def test_agrees_with_libsndfile(
    values: list[int], channels: int, rate_hz: int, before: list[tuple[bytes, bytes]]
) -> None:
    """The slow twin: libsndfile reads the same header."""
    frames = np.repeat(np.array(values, np.int16)[:, None], channels, axis=1)
    data = riff(
        *(chunk(name, body) for name, body in before),
        chunk(b"fmt ", fmt(channels=channels, rate=rate_hz)),
        chunk(b"data", frames.tobytes()),
    )
    twin, twin_rate_hz = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)
    header = parse_wave(data)
    assert (header.num_samples, header.sample_rate_hz) == (len(twin), twin_rate_hz)
    np.testing.assert_array_equal(decode(data, mono=False)[0], twin.T)
