"""Encoding pictures, and encoding a video anew."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from datalake.errors import InputError
from datalake.video import CODECS, BadVideo, VideoReader, encode, probe, transcode
from datalake.video.scheduling import ordinary_scheduling
from tests.video.clips import HEIGHT, WIDTH, clip, decoded, pictures


@pytest.mark.parametrize("codec", CODECS)
def test_encoded_pictures_come_back_much_alike(codec: str) -> None:
    frames = pictures(9)
    data = encode(iter(frames), 29.97, codec, crf=12)
    info = probe(data)
    assert (info.codec, info.num_frames, info.pix_fmt) == (codec, 9, "yuv420p")
    assert info.fps == pytest.approx(29.97)
    assert info.keyframes.tolist() == [0, 2, 4, 6, 8]
    with VideoReader(data) as reader:
        error = np.abs(reader.frames(np.arange(9)).astype(int) - frames)
    assert error[:, 32:].mean() < 6  # Noise aside.


def test_the_av1_encoder_says_nothing_on_the_terminal() -> None:
    # It is told so when it is first used in a process, so it needs one of its own.
    code = (
        "import numpy as np; from datalake.video import encode;"
        "encode(iter(np.zeros((3, 64, 64, 3), np.uint8)), 10, 'av1')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="not told by this system")
@pytest.mark.parametrize("codec", CODECS)
def test_no_thread_is_left_real_time(codec: str) -> None:
    # SVT-AV1 makes itself and its caller real-time where it may: as root.
    seen: list[set[int]] = []

    def watched() -> Iterator[np.ndarray]:
        for frame in pictures(8):
            seen.append({os.sched_getscheduler(int(t)) for t in os.listdir("/proc/self/task")})
            yield frame

    encode(watched(), 30.0, codec)
    assert seen == [{os.SCHED_OTHER}] * 8
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="not told by this system")
def test_scheduling_comes_back_as_it_was() -> None:
    def real_time() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        except PermissionError:
            pytest.skip("only root may")

    with ordinary_scheduling():
        real_time()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    real_time()
    try:
        with ordinary_scheduling():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
        assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == (os.SCHED_RR, 1)
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.mark.parametrize(
    ("frames", "options"),
    [
        ([], {}),
        ([np.zeros((8, 8, 3), np.uint8), np.zeros((8, 10, 3), np.uint8)], {}),
        ([np.zeros((8, 8), np.uint8)], {}),
        ([np.zeros((8, 8, 3), np.float32)], {}),
        ([np.zeros((9, 9, 3), np.uint8)], {}),  # yuv420p wants even numbers.
        (pictures(1), {"codec": "mpeg9"}),
        (pictures(1), {"pix_fmt": "nonsense"}),
        (pictures(1), {"fps": 0}),
        (pictures(1), {"fps": float("nan")}),
    ],
)
def test_what_cannot_be_encoded_is_refused(frames: object, options: dict) -> None:
    with pytest.raises(InputError):
        encode(frames, **{"fps": 10, **options})


def test_transcoding_keeps_times_and_drops_what_is_outside() -> None:
    ticks = tuple(int(n) for n in np.cumsum(np.arange(30) % 5 + 1))
    data = clip(ticks=ticks)
    again = transcode(data, codec="av1", from_frame=7, to_frame=20, size=(64, 48), g=4)
    old, new = probe(data), probe(again)
    assert (new.codec, new.width, new.height, new.num_frames) == ("av1", 64, 48, 13)
    expected = old.times()[7:20] - old.times()[7]
    assert new.times() == pytest.approx(expected, abs=1e-4)
    assert np.diff(new.keyframes).tolist() == [4, 4, 4]


def test_transcoded_frames_are_much_alike() -> None:
    data = clip("hevc")
    frames, _ = decoded(data)
    again, _ = decoded(transcode(data, crf=10))
    assert again.shape == (30, HEIGHT, WIDTH, 3)
    assert np.abs(again.astype(int) - frames).mean() < 4


def test_what_cannot_be_transcoded_is_refused() -> None:
    with pytest.raises(InputError, match="not within"):
        transcode(clip(), from_frame=4, to_frame=40)
    with pytest.raises(BadVideo):
        transcode(b"no video")
