"""Encoding pictures as video, and encoding a video anew."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError, nearest
from datalake.video.decoding import Decoder
from datalake.video.muxing import open_mp4
from datalake.video.scheduling import ordinary_scheduling
from datalake.video.source import Source, load_av

__all__ = ["CODECS", "encode", "transcode"]

# Encoder, and options that keep it from writing to the terminal or waiting long.
_ENCODERS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "h264": ("libx264", {}),
    "hevc": ("libx265", {"x265-params": "log-level=none"}),
    "av1": ("libsvtav1", {"preset": "12"}),
}
CODECS: Final = tuple(_ENCODERS)
"""What can be written."""

# Finer than any frame rate needs, and 1/fps is exact for whole and NTSC rates.
_MAX_DENOMINATOR: Final = 1001


def encode(
    frames: Iterable[npt.NDArray[np.uint8]],
    fps: float,
    codec: str = "h264",
    *,
    pix_fmt: str = "yuv420p",
    g: int = 2,
    crf: int = 30,
    preset: str | None = None,
) -> bytes:
    """Encode pictures as an MP4 without sound.

    The defaults but for the codec are those with which LeRobot records: a keyframe every second
    frame, so that any frame costs at most one more.

    Args:
        frames: RGB, (height, width, 3) each, all of one shape. Held one at a time.
        fps: frames a second.
        codec: one of `CODECS`.
        pix_fmt: how the encoder holds colours.
        g: frames from one keyframe to the next, at most.
        crf: the encoder's quality; lower is better and larger.
        preset: the encoder's trade of time for size; None is its own, and 12 (fast) for AV1.

    Raises:
        InputError: there is no frame, shapes differ, or the encoder refuses the settings.
        MissingPackageError: av is not installed.
    """
    if not 0 < fps < math.inf:
        raise InputError("The frame rate is impossible", found=f"{fps}", expected="above 0")
    rate = Fraction(fps).limit_denominator(_MAX_DENOMINATOR)
    av = load_av()

    def pictures() -> Iterator[Any]:
        for number, frame in enumerate(frames):
            if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
                raise InputError(
                    f"Frame {number} is no picture",
                    expected="uint8 of (height, width, 3)",
                    found=f"{frame.dtype} of {frame.shape}",
                )
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
            picture.pts, picture.time_base = number, 1 / rate
            yield picture

    return _encode(pictures(), rate, 1 / rate, pix_fmt, *_encoder(codec, g, crf, preset))


def transcode(
    source: Source,
    *,
    from_frame: int = 0,
    to_frame: int | None = None,
    size: tuple[int, int] | None = None,
    codec: str = "h264",
    pix_fmt: str = "yuv420p",
    g: int = 2,
    crf: int = 30,
    preset: str | None = None,
) -> bytes:
    """Encode a video, or a range of its frames, anew as an MP4 without sound.

    Every frame keeps its presentation time, but that the first stands at 0 s. Pixels go from the
    decoder to the encoder without a turn to RGB.

    Args:
        source: the file.
        from_frame: the first frame.
        to_frame: the end, exclusive; None is the file's.
        size: (width, height) to resize to, bilinear.
        codec: as `encode`, and so the rest.
        pix_fmt: as `encode`.
        g: as `encode`.
        crf: as `encode`.
        preset: as `encode`.

    Raises:
        InputError: the range is none, or the encoder refuses the settings.
        BadVideo: the file cannot be decoded.
        MissingPackageError: av is not installed.
    """
    decoder = Decoder(source, None, 0)
    try:
        info = decoder.info
        to_frame = info.num_frames if to_frame is None else to_frame
        if not 0 <= from_frame < to_frame <= info.num_frames:
            raise InputError(
                "The range is not within the video",
                expected=f"0 to {info.num_frames}",
                found=f"{from_frame} to {to_frame}",
            )

        def pictures() -> Iterator[Any]:
            for frame in decoder.decode(np.arange(from_frame, to_frame)):
                pts = frame.pts - int(info.frame_pts[from_frame])
                width, height = size or (info.width, info.height)
                picture = frame.reformat(width, height, pix_fmt, interpolation="BILINEAR")
                picture.pts, picture.time_base = pts, info.time_base
                # Left alone, the encoder makes keyframes where the source had them.
                picture.pict_type = 0
                yield picture

        rate = Fraction(info.fps).limit_denominator(_MAX_DENOMINATOR)
        settings = _encoder(codec, g, crf, preset)
        return _encode(pictures(), rate, info.time_base, pix_fmt, *settings)
    finally:
        decoder.close()


def _encoder(codec: str, g: int, crf: int, preset: str | None) -> tuple[str, dict[str, str]]:
    """FFmpeg's name of an encoder, and its options."""
    if codec not in _ENCODERS:
        raise InputError(
            "The codec is not one that is written", found=codec, fix=nearest(codec, _ENCODERS)
        )
    # SVT-AV1 tells the terminal its settings unless told to speak of errors only.
    os.environ.setdefault("SVT_LOG", "1")
    name, options = _ENCODERS[codec]
    chosen = {} if preset is None else {"preset": preset}
    return name, {"g": str(g), "crf": str(crf), **options, **chosen}


def _encode(
    pictures: Iterator[Any],
    rate: Fraction,
    time_base: Fraction,
    pix_fmt: str,
    encoder: str,
    options: dict[str, str],
) -> bytes:
    """Encode FFmpeg's frames, which carry their times in `time_base`."""
    av = load_av()
    first = next(pictures, None)
    if first is None:
        raise InputError("There is no frame to encode")
    shape = (first.width, first.height)
    sink = io.BytesIO()
    try:
        with open_mp4(sink) as output:
            track = output.add_stream(encoder, rate=rate, options=options)
            track.width, track.height = shape
            track.pix_fmt = pix_fmt
            track.time_base = track.codec_context.time_base = time_base
            with ordinary_scheduling():
                track.codec_context.open()
            for picture in chain([first], pictures):
                if (picture.width, picture.height) != shape:
                    raise InputError(
                        "The frames of a video have one size",
                        expected="{} x {}".format(*shape),
                        found=f"{picture.width} x {picture.height}",
                    )
                picture.duration = round(1 / (rate * time_base))
                output.mux(track.encode(picture))
            output.mux(track.encode(None))
    except (av.FFmpegError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            "The video cannot be encoded",
            found=f"{encoder} with {options}, {pix_fmt}, {shape[0]} x {shape[1]}: {error}",
        ) from error
    return sink.getvalue()
