"""Probing: what is told of whole files, and which reason of damaged ones."""

from __future__ import annotations

import io
import pickle
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.episodes import VIDEOS
from datalake.errors import InputError
from datalake.quarantine import Reason
from datalake.video import BadVideo, VideoInfo, VideoReader, probe
from tests.video.clips import ENCODERS, HEIGHT, WIDTH, clip, decoded, later, remuxed

WHOLE = {
    **{kind: lambda kind=kind: clip(kind) for kind in ENCODERS},
    "matroska": lambda: clip("h264", container="matroska"),
    "webm": lambda: clip("vp9", container="webm"),
    "mpegts": lambda: clip("h264", container="mpegts"),
    "avi": lambda: clip("h264", container="avi", bf="0"),
    "fragmented": lambda: remuxed(clip(), options={"movflags": "frag_keyframe+empty_moov"}),
    "index_in_front": lambda: remuxed(clip(), options={"movflags": "faststart"}),
    "late_start": lambda: remuxed(clip(), later(8 * 512)),
    "hidden_group": lambda: remuxed(clip(), later(-8 * 512)),
    "hidden_frames_of_the_only_group": lambda: remuxed(clip("h264_one_group"), later(-5 * 512)),
    "uneven_times": lambda: clip(ticks=tuple(int(n) for n in np.cumsum(np.arange(30) % 5 + 1))),
    "one_frame": lambda: clip("h264", 1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_frames_stand_where_a_full_decode_finds_them(name: str) -> None:
    data = WHOLE[name]()
    info = probe(data)
    _, times = decoded(data)
    assert info.frame_pts.tolist() == times.tolist()
    assert info.num_frames == len(times)
    assert (info.width, info.height) == (WIDTH, HEIGHT)
    assert (np.diff(info.keyframes) > 0).all()
    assert len(info.keyframe_offsets) == len(info.keyframes)
    assert not info.has_audio


def test_facts_of_a_clip() -> None:
    info = probe(clip("h264_open_gop"))
    assert (info.codec, info.pix_fmt, info.fps) == ("h264", "yuv420p", 30.0)
    assert info.time_base == Fraction(1, 15360)
    assert info.duration_s == pytest.approx(1.0)
    assert info.keyframes.tolist() == [0, 6, 12, 18, 24]
    assert info.times()[:3].tolist() == [0, 512 / 15360, 1024 / 15360]


def test_codecs_are_named_after_the_format_and_not_the_decoder() -> None:
    assert [probe(clip(kind)).codec for kind in ("hevc", "av1", "vp9")] == ["hevc", "av1", "vp9"]


def test_keyframe_offsets_are_where_the_packets_lie() -> None:
    data = clip("h264")
    with av.open(io.BytesIO(data)) as container:
        keys = [p.pos for p in container.demux(video=0) if p.size and p.is_keyframe]
    assert probe(data).keyframe_offsets.tolist() == keys


def test_the_rate_is_that_of_the_frames_where_the_container_is_off() -> None:
    assert probe(clip("h264", container="matroska")).fps == 30.0  # Times rounded to 1 ms.
    assert probe(clip("h264", fps=25)).fps == 25.0


def test_any_source_will_do(tmp_path: Path) -> None:
    data = clip()
    path = tmp_path / "clip.mp4"
    path.write_bytes(data)
    with path.open("rb") as file:
        sources = [data, bytearray(data), memoryview(data), pa.py_buffer(data), io.BytesIO(data)]
        for source in [*sources, file]:
            assert probe(source).num_frames == 30


@pytest.mark.parametrize("source", ["clip.mp4", Path("clip.mp4"), 3, None, io.StringIO("abc")])
def test_what_is_no_source_is_refused(source: object) -> None:
    with pytest.raises(InputError, match=r"path\.open"):
        probe(source)


def test_a_store_that_fails_is_no_fault_of_the_video() -> None:
    class Failing(io.BytesIO):
        def read(self, num_bytes: int | None = -1) -> bytes:
            if self.tell() > 3000:
                raise ConnectionError("the store is gone")
            return super().read(num_bytes)

    with pytest.raises(ConnectionError):
        probe(Failing(clip()))


def test_a_row_gives_the_facts_back() -> None:
    info = probe(clip())
    row = {**dict.fromkeys(VIDEOS.names), **info.as_row()}
    row.update(video_id="a", source="a", feature="a", num_bytes=1, video=b"")
    table = pa.Table.from_pylist([row], schema=VIDEOS)
    again = VideoInfo.from_row(table.to_pylist()[0])
    assert again.has_audio is None
    for name in ("codec", "pix_fmt", "width", "height", "fps", "num_frames", "time_base"):
        assert getattr(again, name) == getattr(info, name)
    for name in ("frame_pts", "keyframes", "keyframe_offsets"):
        assert getattr(again, name).tolist() == getattr(info, name).tolist()
        assert getattr(again, name).dtype == np.int64


# Frames at times ----------------------------------------------------------------------------------


def test_frame_at_takes_the_nearest_within_the_tolerance() -> None:
    info = probe(clip())
    assert info.frame_at([1 / 30 + 9e-5, 0.0, 29 / 30]).tolist() == [1, 0, 29]
    assert info.frame_at(np.zeros((2, 3))).shape == (2, 3)
    assert info.frame_at([]).shape == (0,)
    assert probe(clip("h264", 1)).frame_at([0.0]).tolist() == [0]


@pytest.mark.parametrize("time_s", [-0.01, 1.5 / 30, 1.0, np.nan, np.inf])
def test_frame_at_names_the_nearest_frame(time_s: float) -> None:
    with pytest.raises(InputError, match=r"the nearest, frame \d+ of 30, at \d"):
        probe(clip()).frame_at([0.0, time_s])


# Damage -------------------------------------------------------------------------------------------


def _audio_only() -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream("aac", rate=16000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 16000
        output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def _index_in_front_cut() -> bytes:
    data = remuxed(clip(), options={"movflags": "faststart"})
    assert data.find(b"moov") < data.find(b"mdat")
    return data[:-500]


def _box_shortened() -> bytes:
    """The media box says that it ends where the file was cut: only the index knows better."""
    data = bytearray(remuxed(clip(), options={"movflags": "faststart"}))
    at = data.find(b"mdat") - 4
    kept = 4000
    assert int.from_bytes(data[at : at + 4], "big") > kept
    data[at : at + 4] = kept.to_bytes(4, "big")
    return bytes(data[: at + kept])


def _two_at_one_time() -> bytes:
    def change(packet: av.Packet) -> av.Packet:
        packet.pts -= packet.pts % 1024
        packet.dts = packet.dts // 2 - 2000
        return packet

    return remuxed(clip("h264", bf="0"), change, container="matroska")


DAMAGE = {
    "nothing": (lambda: b"", Reason.EMPTY),
    "lfs_pointer": (
        lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 1\n",
        Reason.LFS_POINTER,
    ),
    "no_index": (lambda: clip()[:-1000], Reason.VIDEO_TRUNCATED),
    "first_bytes_only": (lambda: clip()[:20], Reason.VIDEO_TRUNCATED),
    "media_cut": (_index_in_front_cut, Reason.VIDEO_TRUNCATED),
    "media_shorter_than_the_index": (_box_shortened, Reason.VIDEO_TRUNCATED),
    "matroska_cut": (lambda: clip(container="matroska")[:-300], Reason.VIDEO_TRUNCATED),
    "index_damaged": (lambda: clip().replace(b"trak", b"tram"), Reason.NOT_VIDEO),
    "no_frames": (lambda: clip().replace(b"stts", b"free"), None),
    "text": (lambda: b"episode_index,timestamp\n0,0.0\n", Reason.NOT_VIDEO),
    "playlist": (lambda: b"#EXTM3U\n#EXTINF:1\nfile:///etc/passwd\n", Reason.NOT_VIDEO),
    "file_list": (lambda: b"ffconcat version 1.0\nfile clip.mp4\n", Reason.NOT_VIDEO),
    "zeros": (lambda: bytes(5000), Reason.NOT_VIDEO),
    "audio_only": (_audio_only, Reason.NOT_VIDEO),
    "two_frames_at_one_time": (_two_at_one_time, Reason.VIDEO_TIMESTAMPS),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_has_its_reason(name: str) -> None:
    make, reason = DAMAGE[name]
    with pytest.raises(BadVideo) as caught:
        probe(make())
    if reason is not None:
        assert caught.value.refusal.reason is reason, caught.value
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.refusal == caught.value.refusal


@settings(max_examples=150, deadline=2_000, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["h264", "av1"]),
    st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=6)), max_size=4),
    st.floats(0, 1),
)
def test_damage_raises_nothing_but_bad_video(
    kind: str, changes: list[tuple[float, bytes]], kept: float
) -> None:
    data = bytearray(clip(kind))
    for where, written in changes:
        at = int(where * (len(data) - 1))
        data[at : at + len(written)] = written
    if kept < 0.5:
        del data[int(2 * kept * len(data)) :]
    try:
        with VideoReader(bytes(data)) as reader:
            frames = reader.frames([0, reader.info.num_frames - 1])
        assert frames.shape[0] == 2
    except BadVideo:
        pass
