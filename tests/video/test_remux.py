"""Cutting and joining copy packets: the frames are the same ones."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from datalake.errors import InputError
from datalake.quarantine import Reason
from datalake.video import BadVideo, VideoReader, concat, cut, parameters, probe
from tests.video.clips import clip, decoded, later, remuxed


def packets(data: bytes) -> list[bytes]:
    import av

    with av.open(io.BytesIO(data)) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


# Joining ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["h264", "h264_open_gop", "hevc", "av1", "vp9"])
def test_joined_files_hold_the_same_packets_one_behind_the_other(kind: str) -> None:
    parts = [clip(kind, 30), clip(kind, 11, seed=1), clip(kind, 30)]
    sink = io.BytesIO()
    starts = concat(parts, sink)
    joined = sink.getvalue()
    assert packets(joined) == [packet for part in parts for packet in packets(part)]
    info = probe(joined)
    assert info.frame_pts.tolist() == [512 * number for number in range(71)]
    assert info.fps == 30.0
    assert starts == pytest.approx([0, 30 / 30, 41 / 30, 71 / 30])
    frames = np.concatenate([decoded(part)[0] for part in parts])
    with VideoReader(joined) as reader:
        assert (np.stack(list(reader)) == frames).all()
        wanted = [70, 29, 30, 31, 45]
        assert (reader.frames(wanted) == frames[wanted]).all()


@pytest.mark.parametrize(
    ("kind", "container"),
    [
        ("h264", "matroska"),
        ("hevc", "matroska"),
        ("h264_one_group", "matroska"),
        ("h264", "mpegts"),
    ],
)
def test_other_containers_join_too(kind: str, container: str) -> None:
    part = clip(kind, container=container)
    frames, _ = decoded(part)
    sink = io.BytesIO()
    starts = concat([part, part], sink)
    joined, times = decoded(sink.getvalue())
    assert (joined == np.concatenate([frames, frames])).all()
    assert probe(sink.getvalue()).times()[30] == pytest.approx(starts[1])
    assert len(times) == 60


def test_the_index_comes_first(tmp_path: Path) -> None:
    sink = io.BytesIO()
    concat([clip()], sink)
    data = sink.getvalue()
    assert data.find(b"moov") < data.find(b"mdat")
    with (tmp_path / "written.mp4").open("wb") as file:  # Cannot be read while it is written.
        concat([clip()], file)
    assert probe((tmp_path / "written.mp4").read_bytes()).num_frames == 30


def test_a_late_start_is_taken_out() -> None:
    late = remuxed(clip(), later(8 * 512))
    sink = io.BytesIO()
    starts = concat([late, late], sink)
    info = probe(sink.getvalue())
    assert info.times()[[0, 30]] == pytest.approx(starts[:2])


def test_uneven_times_stay_as_they_are() -> None:
    ticks = tuple(int(n) for n in np.cumsum(np.arange(30) % 5 + 1))
    uneven = clip(ticks=ticks)
    sink = io.BytesIO()
    concat([uneven, uneven], sink)
    steps = np.diff(probe(uneven).frame_pts)
    joined = np.diff(probe(sink.getvalue()).frame_pts)
    assert joined[:29].tolist() == joined[30:].tolist() == steps.tolist()


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (lambda: clip("av1"), "codec h264"),
        (lambda: clip(fps=25), "time_base 1/15360"),
        (lambda: clip("h264", **{"x264-params": "cabac=0"}), "codec header"),
    ],
)
def test_files_of_other_parameters_are_refused(other: object, what: str) -> None:
    with pytest.raises(InputError, match=f"Video 1 cannot be joined.*{what}.*transcode"):
        concat([clip(), other()], io.BytesIO())


def test_nothing_and_hidden_frames_are_refused() -> None:
    with pytest.raises(InputError, match="no video to join"):
        concat([], io.BytesIO())
    with pytest.raises(InputError, match="edit list hides"):
        concat([remuxed(clip(), later(-8 * 512))], io.BytesIO())
    with pytest.raises(BadVideo) as caught:
        concat([clip(), b""], io.BytesIO())
    assert caught.value.refusal.reason is Reason.EMPTY


def test_parameters_tell_beforehand() -> None:
    assert parameters(clip()) == parameters(clip(seed=1, num_frames=11))
    assert parameters(clip()) != parameters(clip(fps=25))


# Cutting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "start", "stop"),
    [
        ("h264_open_gop", 0, 30), ("h264_open_gop", 12, 30), ("hevc", 0, 30), ("hevc", 14, 30),
        ("av1", 5, 8), ("av1", 10, 30), ("vp9", 5, 11),
    ],
)  # fmt: skip
def test_a_cut_is_the_frames_of_the_range(kind: str, start: int, stop: int) -> None:
    data = clip(kind)
    frames, _ = decoded(data)
    part = cut(data, start, stop)
    info = probe(part)
    assert info.frame_pts.tolist() == [512 * number for number in range(stop - start)]
    assert set(packets(part)) <= set(packets(data))
    assert (decoded(part)[0] == frames[start:stop]).all()


def test_the_last_frames_of_an_open_group_hang_on_the_next_keyframe() -> None:
    with pytest.raises(InputError, match=r"end before frame 12.*decoded from frame 12"):
        cut(clip("h264_open_gop"), 0, 12)


def test_cuts_at_keyframes_of_closed_groups_always_work() -> None:
    data = clip("h264", **{"x264-params": "open-gop=0:scenecut=0"})
    frames, _ = decoded(data)
    assert probe(data).keyframes.tolist() == [0, 6, 12, 18, 24]
    for start, stop in [(0, 6), (6, 18), (24, 30)]:
        assert (decoded(cut(data, start, stop))[0] == frames[start:stop]).all()


def test_cuts_elsewhere_are_refused() -> None:
    data = clip("h264", **{"x264-params": "scenecut=0:b-adapt=0"})
    with pytest.raises(InputError, match=r"frame 7.*keyframe before it is 6.*transcode"):
        cut(data, 7, 12)
    with pytest.raises(InputError, match=r"end before frame 2.*decoded from frame 3"):
        cut(data, 0, 2)
    for start, stop in [(0, 0), (-1, 3), (0, 31), (6, 3)]:
        with pytest.raises(InputError, match="not within the video"):
            cut(data, start, stop)
