"""Frames by number equal those of a frame-by-frame decode, whatever is asked in whatever order."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.video import BadVideo, VideoReader, probe
from tests.video.clips import HEIGHT, WIDTH, clip, decoded
from tests.video.test_probe import WHOLE

SEEKING = ["h264", "h264_open_gop", "hevc", "av1", "vp9"]


@pytest.mark.parametrize("name", WHOLE)
def test_every_kind_of_file_reads_as_decoded(name: str) -> None:
    data = WHOLE[name]()
    frames, _ = decoded(data)
    rng = np.random.default_rng(0)
    with VideoReader(data) as reader:
        assert (np.stack(list(reader)) == frames).all()
        for _ in range(6):
            wanted = rng.integers(0, len(frames), rng.integers(1, 6))
            assert (reader.frames(wanted) == frames[wanted]).all()
        assert (reader.frames(np.arange(len(frames))[::-1]) == frames[::-1]).all()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SEEKING), st.lists(st.lists(st.integers(0, 29), max_size=8), max_size=3))
def test_any_frames_in_any_order(kind: str, calls: list[list[int]]) -> None:
    data = clip(kind)
    frames, _ = decoded(data)
    with VideoReader(data, probe(data), num_threads=1) as reader:
        for wanted in calls:
            assert (reader.frames(wanted) == frames[wanted]).all()


@pytest.mark.parametrize("num_threads", [0, 1, 3])
def test_threads_change_nothing(num_threads: int) -> None:
    data = clip("h264")
    frames, _ = decoded(data)
    with VideoReader(data, num_threads=num_threads) as reader:
        assert (reader.frames([29, 3, 3, 17]) == frames[[29, 3, 3, 17]]).all()


def test_each_group_is_decoded_once_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 30 frames in groups of 6: what is fed to the decoder, counted."""
    fed: list[int] = []
    data = clip("h264_open_gop", bf="0")
    with VideoReader(data, probe(data), num_threads=1) as reader:
        forward = reader._decoder._packets
        monkeypatch.setattr(
            reader._decoder,
            "_packets",
            lambda group: (fed.append(p.pts // 512) or p for p in forward(group)),
        )
        reader.frames([20, 7, 8, 7, 20, 19, 0])
    # 1 frame of the first group, 3 of the second, 3 of the fourth; the others are leapt over.
    assert fed == [0, 6, 7, 8, 18, 19, 20]


def test_frames_at_times() -> None:
    data = clip("av1")
    frames, _ = decoded(data)
    with VideoReader(data) as reader:
        assert (reader.at([0.5, 0.1]) == frames[[15, 3]]).all()
        with pytest.raises(InputError, match="frame 15"):
            reader.at([0.51])
        assert (reader.at([0.51], tolerance_s=0.011) == frames[[15]]).all()


def test_a_range() -> None:
    data = clip("hevc")
    frames, _ = decoded(data)
    with VideoReader(data) as reader:
        assert (np.stack(list(reader.iterate(5, 9))) == frames[5:9]).all()
        assert list(reader.iterate(4, 4)) == []


def test_resized_in_one_pass() -> None:
    data = clip("h264")
    with VideoReader(data, size=(30, 20)) as reader:
        small = reader.frames([4, 9])
        assert reader.size == (30, 20)
    assert small.shape == (2, 20, 30, 3)
    with VideoReader(data) as reader:
        large = reader.frames([4, 9]).astype(float)
    # Each picture is about its own mean colour.
    assert np.abs(small.mean((1, 2)) - large.mean((1, 2))).max() < 2


@pytest.mark.parametrize("wanted", [[30], [-1], [0.5], [[1]], 3, ["a"]])
def test_what_is_no_frame_number_is_refused(wanted: object) -> None:
    with VideoReader(clip()) as reader, pytest.raises(InputError, match="Expected"):
        reader.frames(wanted)


def test_none_of_the_frames() -> None:
    with VideoReader(clip()) as reader:
        assert reader.frames([]).shape == (0, HEIGHT, WIDTH, 3)


@pytest.mark.parametrize("size", [(0, 4), (4, -1)])
def test_impossible_sizes_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="impossible"):
        VideoReader(clip(), size=size)


def test_facts_of_another_file_are_found_out() -> None:
    other = probe(WHOLE["uneven_times"]())
    with (
        VideoReader(clip(), other) as reader,
        pytest.raises(BadVideo, match="frame 29 does not come out"),
    ):
        reader.frames([29])


def test_memory_is_read_where_it_lies() -> None:
    data = clip()
    buffer = pa.py_buffer(data)
    before = pa.total_allocated_bytes()
    with VideoReader(buffer) as reader:
        reader.frames([0, 29])
        assert pa.total_allocated_bytes() == before


def test_a_file_stays_open(tmp_path: Path) -> None:
    file = io.BytesIO(clip())
    with VideoReader(file) as reader:
        reader.frames([3])
    assert not file.closed


def test_readers_work_side_by_side() -> None:
    data = clip("h264")
    frames, _ = decoded(data)

    def read(seed: int) -> bool:
        wanted = np.random.default_rng(seed).integers(0, 30, 10)
        with VideoReader(data) as reader:
            return bool((reader.frames(wanted) == frames[wanted]).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(16)))


@pytest.mark.shared
def test_the_real_av1_video(shared_dir: Path) -> None:
    path = next(shared_dir.glob("data/robot/g1_pick_v21/videos/*/*/episode_000001.mp4"))
    data = path.read_bytes()
    info = probe(data)
    assert (info.codec, info.num_frames, info.fps) == ("av1", 221, 30.0)
    assert np.diff(info.keyframes).tolist() == [2] * 110
    frames, times = decoded(data)
    assert info.frame_pts.tolist() == times.tolist()
    wanted = np.random.default_rng(0).integers(0, 221, 24)
    with path.open("rb") as file, VideoReader(file) as reader:
        assert (reader.frames(wanted) == frames[wanted]).all()
        assert (reader.at(wanted / 30) == frames[wanted]).all()
