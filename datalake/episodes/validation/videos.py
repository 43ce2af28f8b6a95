"""Video against frames: as many, of the declared size, where the timestamps want them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from datalake.episodes.validation.checks import Checks
from datalake.episodes.validation.faults import error, first_of, warning
from datalake.episodes.validation.timing import rounding_s, timestamps
from datalake.quarantine import Reason, Refusal
from datalake.recording import EpisodeData, Feature, Finding, VideoSpan
from datalake.video import VideoInfo

__all__ = ["bad_videos", "frames_in"]

_CHANNELS: Final = (1, 3, 4)


def bad_videos(
    data: EpisodeData,
    fps: float,
    videos: Mapping[str, VideoInfo | Refusal],
    checks: Checks,
    *,
    with_times: bool = True,
) -> Iterator[Finding]:
    """Faults of the videos that were looked into; `with_times`: also where their frames stand."""
    features = {feature.name: feature for feature in data.features}
    for span in data.ref.videos:
        found = videos.get(span.video_id)
        if isinstance(found, Refusal):
            yield error(data, found.reason, found.detail, feature=span.feature)
        elif found is not None:
            if span.feature in features:
                yield from _wrong_size(data, features[span.feature], found)
            first, end = frames_in(span, found, fps)
            yield from _wrong_count(data, span, found, end - first, checks)
            if with_times and end - first >= data.frames.num_rows:
                yield from _wrong_times(data, span, found, checks)


def frames_in(span: VideoSpan, video: VideoInfo, fps: float) -> tuple[int, int]:
    """The first frame of the video that is in the span, and the one after the last."""
    times = video.times()
    # Ends are sums of durations; half a frame is far more than they are off.
    half = 0.5 / fps if fps > 0 else 0.0
    first = int(np.searchsorted(times, span.from_s - half))
    if span.to_s is None:
        return first, len(times)
    return first, max(first, int(np.searchsorted(times, span.to_s - half)))


def _wrong_count(
    data: EpisodeData, span: VideoSpan, video: VideoInfo, found: int, checks: Checks
) -> Iterator[Finding]:
    expected = data.frames.num_rows
    if found == expected:
        return
    extra = found - expected
    until = "the end" if span.to_s is None else f"{span.to_s:.3f} s"
    detail = (
        f"expected {expected:,} video frames from {span.from_s:.3f} s to {until}, found {found:,}:"
        f" {abs(extra):,} {'more' if extra > 0 else 'fewer'}"
        f" (the file has {video.num_frames:,} frames in {video.duration_s:.3f} s)"
    )
    say = warning if 0 < extra <= checks.max_extra_video_frames else error
    frame = found if extra < 0 else None
    yield say(data, Reason.VIDEO_LENGTH_MISMATCH, detail, frame=frame, feature=span.feature)


def _wrong_times(
    data: EpisodeData, span: VideoSpan, video: VideoInfo, checks: Checks
) -> Iterator[Finding]:
    times = timestamps(data)
    if times is None or not video.num_frames:
        return
    wanted, there = span.from_s + times, video.times()
    right = np.searchsorted(there, wanted).clip(0, len(there) - 1)
    left = (right - 1).clip(0)
    nearest = np.where(wanted - there[left] <= there[right] - wanted, left, right)
    away = np.abs(there[nearest] - wanted)
    bad = ~(away <= checks.timestamp_tolerance_s + rounding_s(data, times))
    if bad.any():
        row, more = first_of(bad)
        detail = (
            f"expected a video frame at {wanted[row]:.6f} s within"
            f" {checks.timestamp_tolerance_s:g} s, found the nearest at"
            f" {there[nearest[row]]:.6f} s{more}; at most {away.max():.6f} s off"
        )
        yield error(data, Reason.VIDEO_TIMESTAMPS, detail, frame=row, feature=span.feature)


def _wrong_size(data: EpisodeData, feature: Feature, video: VideoInfo) -> Iterator[Finding]:
    if len(feature.shape) != 3:
        return
    height, width = _height_width(feature)
    if (height, width) != (video.height, video.width):
        detail = (
            f"expected pictures of {height}×{width} (height, width),"
            f" found a video of {video.height}×{video.width}"
        )
        yield error(data, Reason.SHAPE_CHANGED, detail, feature=feature.name)


def _height_width(feature: Feature) -> tuple[int, int]:
    """What a shape of three says, whose axes are named, or named wrong, or not at all.

    LeRobot once wrote (channels, height, width), and converters go on doing so.
    """
    axes = [name[:1].lower() for name in feature.names]
    sizes = dict(zip(axes, feature.shape, strict=False))
    if sorted(axes) != ["c", "h", "w"] or sizes["c"] not in _CHANNELS:
        is_first = feature.shape[2] not in _CHANNELS and feature.shape[0] in _CHANNELS
        sizes = dict(zip("chw" if is_first else "hwc", feature.shape, strict=True))
    return sizes["h"], sizes["w"]
