"""Looking into a video without decoding it: what it is, and where its frames stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.quarantine import Reason
from datalake.video.info import BadVideo, VideoInfo
from datalake.video.source import Source, load_av, open_video

__all__ = ["probe", "probed"]


def probe(source: Source) -> VideoInfo:
    """Read a file's headers and packets; nothing is decoded.

    Takes some ten microseconds a frame and no memory beyond the result.

    Args:
        source: bytes in memory (never copied), or a seekable binary file.

    Raises:
        BadVideo: `empty`, `lfs_pointer`, `video_truncated`, `corrupt`, `not_video` (no container,
            or none with a video track), `unsupported` (no decoder, or frames without a
            presentation time), `video_timestamps` (two frames at one time).
        MissingPackageError: av is not installed.
    """
    container, stream = open_video(source)
    with container:
        return probed(container, stream)


def probed(container: Any, stream: Any) -> VideoInfo:
    """What `probe` says of an opened container; reads it to its end."""
    av = load_av()
    pts, is_key, offsets, num_packets = [], [], [], 0
    try:
        for packet in container.demux(stream):
            if packet.size == 0:
                continue
            num_packets += 1
            if packet.is_corrupt:
                raise BadVideo.of(
                    Reason.VIDEO_TRUNCATED, f"frame {num_packets} in the file is cut or damaged"
                )
            if packet.is_discard:
                # Needed to decode what follows, and hidden by an edit list.
                continue
            if packet.pts is None:
                raise BadVideo.of(Reason.UNSUPPORTED, "frames without a presentation time")
            pts.append(packet.pts)
            is_key.append(packet.is_keyframe)
            offsets.append(-1 if packet.pos is None else packet.pos)
    except BadVideo:
        raise
    except (av.FFmpegError, ValueError) as error:
        raise BadVideo.of(Reason.CORRUPT, f"after {num_packets} frames: {error}") from error
    num_promised = len(stream.index_entries)
    if num_packets < num_promised:
        raise BadVideo.of(
            Reason.VIDEO_TRUNCATED,
            f"the index promises {num_promised} frames, the file holds {num_packets}",
        )
    if not pts:
        raise BadVideo.of(Reason.EMPTY, "a video track without frames")
    order = np.argsort(np.array(pts, np.int64), kind="stable")
    frame_pts = np.array(pts, np.int64)[order]
    if len(repeats := np.flatnonzero(np.diff(frame_pts) == 0)):
        raise BadVideo.of(
            Reason.VIDEO_TIMESTAMPS,
            f"frames {repeats[0]} and {repeats[0] + 1} have the same presentation time",
        )
    keyframes = np.flatnonzero(np.array(is_key)[order])
    context, time_base = stream.codec_context, stream.time_base
    return VideoInfo(
        codec=context.codec.canonical_name,
        pix_fmt=context.pix_fmt or "",
        width=context.width,
        height=context.height,
        fps=_fps(frame_pts, stream),
        num_frames=len(pts),
        duration_s=_duration_s(container, stream, frame_pts),
        time_base=time_base,
        frame_pts=frame_pts,
        keyframes=keyframes,
        keyframe_offsets=np.array(offsets, np.int64)[order][keyframes],
        has_audio=bool(container.streams.audio),
    )


def _fps(frame_pts: npt.NDArray[np.int64], stream: Any) -> float:
    """The average rate of the frames, as the container states it where the two agree.

    Containers round the times of frames, and some writers state a rate that is not the frames'.
    """
    stated = float(stream.average_rate or stream.guessed_rate or 0)
    num_steps, span = len(frame_pts) - 1, float((frame_pts[-1] - frame_pts[0]) * stream.time_base)
    if num_steps == 0 or (stated and abs(num_steps / stated - span) <= 2 * stream.time_base):
        return stated
    return num_steps / span


def _duration_s(container: Any, stream: Any, frame_pts: npt.NDArray[np.int64]) -> float:
    if stream.duration is not None:
        return float(stream.duration * stream.time_base)
    if container.duration is not None:
        # Matroska states one for the whole file only; in microseconds.
        return float(container.duration / 1e6)
    return float((frame_pts[-1] - frame_pts[0]) * stream.time_base)
