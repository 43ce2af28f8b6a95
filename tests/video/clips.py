"""Small clips of every kind, made with PyAV and read frame by frame to compare with."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np

from datalake.video.scheduling import ordinary_scheduling

WIDTH, HEIGHT = 96, 64

# Name -> encoder and its options. Groups of several frames, most with B-frames.
ENCODERS: dict[str, tuple[str, dict[str, str]]] = {
    "h264": ("libx264", {"g": "6", "bf": "2"}),
    "h264_open_gop": (
        "libx264",
        {"g": "6", "bf": "2", "x264-params": "open-gop=1:scenecut=0:b-adapt=0"},
    ),
    "h264_one_group": ("libx264", {"g": "999", "bf": "3"}),
    "hevc": ("libx265", {"g": "7", "x265-params": "log-level=none:bframes=3:open-gop=1"}),
    "av1": ("libsvtav1", {"g": "5", "preset": "12"}),
    "vp9": ("libvpx-vp9", {"g": "5", "cpu-used": "8", "deadline": "realtime"}),
}


def pictures(num_frames: int, seed: int = 0) -> np.ndarray:
    """Frames that all differ: a gradient that wanders, and a patch of noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    frames = np.empty((num_frames, HEIGHT, WIDTH, 3), np.uint8)
    for number, frame in enumerate(frames):
        frame[..., 0] = (2 * x + 9 * number) % 256
        frame[..., 1] = (3 * y + 5 * number + 40 * seed) % 256
        frame[..., 2] = (11 * number) % 256
        frame[8:24, 8:40] = rng.integers(0, 255, (16, 32, 3))
    return frames


@cache
def clip(
    kind: str = "h264",
    num_frames: int = 30,
    *,
    fps: int = 30,
    seed: int = 0,
    container: str = "mp4",
    ticks: Sequence[int] | None = None,
    **options: str,
) -> bytes:
    """A clip of `pictures`; `ticks` are the frames' times in units of 1/fps."""
    encoder, settings = ENCODERS[kind]
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        stream: Any = output.add_stream(encoder, rate=fps, options={**settings, **options})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        with ordinary_scheduling():
            stream.codec_context.open()
        for number, pixels in enumerate(pictures(num_frames, seed)):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts = number if ticks is None else ticks[number]
            frame.time_base = 1 / stream.codec_context.framerate
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return file.getvalue()


def remuxed(
    data: bytes,
    change: Callable[[Any], Any] = lambda packet: packet,
    *,
    container: str = "mp4",
    options: dict[str, str] | None = None,
) -> bytes:
    """The packets of a clip in a new file, each as `change` leaves it (None: dropped)."""
    # FFmpeg reads a file again to move its index, so that it must have a name.
    with (
        tempfile.NamedTemporaryFile() as file,
        av.open(io.BytesIO(data)) as source,
        av.open(file.name, "w", format=container, options=options or {}) as output,
    ):
        track = source.streams.video[0]
        stream = output.add_stream_from_template(track, opaque=True)
        stream.time_base = track.time_base
        for packet in source.demux(track):
            if packet.size and (changed := change(packet)) is not None:
                changed.stream = stream
                output.mux(changed)
        output.close()
        return Path(file.name).read_bytes()


def later(num_ticks: int) -> Callable[[Any], Any]:
    """A change that moves packets in time; before 0, an MP4 hides them by an edit list."""

    def change(packet: Any) -> Any:
        packet.pts += num_ticks
        packet.dts += num_ticks
        return packet

    return change


def decoded(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    """All frames one by one, and their presentation times in ticks."""
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(video=0))
    times = np.array([frame.pts for frame in frames])
    return np.stack([frame.to_ndarray(format="rgb24") for frame in frames]), times
