"""Encoding pictures, and encoding a video anew."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from datalake.errors import InputError
from datalake.video import CODECS, BadVideo, VideoReader, encode, probe, transcode
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
