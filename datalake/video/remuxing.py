"""Cutting and joining videos without decoding them: packets are copied as they are."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.video.info import VideoInfo
from datalake.video.muxing import open_mp4
from datalake.video.probing import probe
from datalake.video.source import Source, load_av, open_video

__all__ = ["Parameters", "concat", "cut", "parameters"]


@dataclass(frozen=True)
class Parameters:
    """What a decoder is told before the first packet. Files that agree in it can be joined."""

    codec: str
    width: int
    height: int
    pix_fmt: str
    time_base: Fraction
    extradata: bytes
    """The codec's own header (SPS and PPS of H.264, the sequence header of AV1)."""


def parameters(source: Source) -> Parameters:
    """The parameters of a file; only its headers are read.

    Raises:
        BadVideo: as `probe`.
        MissingPackageError: av is not installed.
    """
    container, stream = open_video(source)
    with container:
        return _parameters(stream)


def cut(source: Source, from_frame: int, to_frame: int) -> bytes:
    """Copy the frames from `from_frame` up to `to_frame` into an MP4 of their own.

    The packets stay as they are; the first frame stands at 0 s, and the time base is the file's.

    Args:
        source: the file.
        from_frame: the first frame; it must be a keyframe.
        to_frame: the end, exclusive.

    Raises:
        InputError: the range is none, does not begin at a keyframe, or its last frames cannot be
            decoded without a frame behind it; `transcode` cuts anywhere.
        BadVideo: as `probe`.
        MissingPackageError: av is not installed.
    """
    info = probe(source)
    if not 0 <= from_frame < to_frame <= info.num_frames:
        raise InputError(
            "The range is not within the video",
            expected=f"0 to {info.num_frames}",
            found=f"{from_frame} to {to_frame}",
        )
    if from_frame not in info.keyframes:
        before = info.keyframes[info.keyframes < from_frame]
        raise InputError(
            f"A copy cannot begin at frame {from_frame}, which is no keyframe",
            found=f"the keyframe before it is {before[-1]}" if len(before) else "none before it",
            fix="Cut at a keyframe, or encode the range anew with transcode",
        )
    sink = io.BytesIO()
    container, stream = open_video(source)
    with container, _Copier(sink, stream) as copier:
        packets = _range(container.demux(stream), info, from_frame, to_frame)
        copier.copy(packets, -int(info.frame_pts[from_frame]))
    return sink.getvalue()


def concat(sources: Iterable[Source], sink: BinaryIO) -> npt.NDArray[np.float64]:
    """Copy videos of equal parameters into one MP4, one behind the other.

    Each begins where the one before it ends: after the duration that the file states, as FFmpeg's
    own concatenation and so LeRobot's has it, or after its last frame where that ends later (MP4
    rounds a duration to milliseconds if there is an edit list, and overlaps would add up). Sound is
    left out. Holds one packet, and the index of the file that it writes, some 40 bytes a frame.

    Args:
        sources: at least one. Each is opened when its turn comes, and read twice.
        sink: a seekable binary file open for writing, and for reading if the index shall be moved
            to the front.

    Returns:
        The time in seconds at which the first frame of each source stands, and the end,
        (num_sources + 1,).

    Raises:
        InputError: there is no source, the parameters of one differ from the first's, or an edit
            list hides frames of it, which would show. `sink` then holds an unfinished file.
        BadVideo: as `probe`.
        MissingPackageError: av is not installed.
    """
    ticks = [0]
    with ExitStack() as stack:
        copier: _Copier | None = None
        for number, source in enumerate(sources):
            info = probe(source)
            container, stream = open_video(source)
            with container:
                if copier is None:
                    first = _parameters(stream)
                    copier = stack.enter_context(_Copier(sink, stream))
                _check_equal(_parameters(stream), first, number)
                start = ticks[-1] - int(info.frame_pts[0])
                end = copier.copy(_shown(container.demux(stream), number), start)
                ticks.append(max(end, ticks[-1] + (stream.duration or 0)))
    if copier is None:
        raise InputError("There is no video to join")
    return np.array(ticks, np.int64) * first.time_base.numerator / first.time_base.denominator


class _Copier:
    """Writes packets into one MP4, as they are but for their times."""

    def __init__(self, sink: BinaryIO, template: Any) -> None:
        self._av = load_av()
        self._codec = template.codec_context.codec.canonical_name
        self._output = open_mp4(sink)
        try:
            self._track = self._output.add_stream_from_template(template, opaque=True)
        except (self._av.FFmpegError, ValueError) as error:
            self._output.close()
            raise self._refused(error) from error
        self._track.time_base = template.time_base

    def __enter__(self) -> _Copier:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._output.close()
        except (self._av.FFmpegError, ValueError) as error:
            # What went wrong before says more.
            if kind is None:
                raise self._refused(error) from error

    def copy(self, packets: Iterator[Any], shift: int) -> int:
        """Copy packets, `shift` ticks later; where the last of them ends, in ticks."""
        end = 0
        for packet in _with_dts(packets):
            packet.stream = self._track
            packet.pts += shift
            packet.dts += shift
            end = max(end, packet.pts + (packet.duration or 0))
            try:
                self._output.mux(packet)
            except (self._av.FFmpegError, ValueError) as error:
                raise self._refused(error) from error
        return end

    def _refused(self, error: Exception) -> InputError:
        return InputError(
            "MP4 does not take these packets",
            found=f"{self._codec}: {error}",
            fix="Encode the video anew with transcode",
        )


def _with_dts(packets: Iterator[Any]) -> Iterator[Any]:
    """Packets with decoding times, which Matroska lacks ahead of the first reordered frame."""
    early: list[Any] = []
    for packet in packets:
        if packet.dts is None:
            early.append(packet)
            continue
        for steps, other in enumerate(reversed(early), 1):
            other.dts = packet.dts - steps * (packet.duration or 1)
        yield from early
        early = []
        yield packet
    for packet in early:
        packet.dts = packet.pts
        yield packet


def _parameters(stream: Any) -> Parameters:
    context = stream.codec_context
    return Parameters(
        context.codec.canonical_name,
        context.width,
        context.height,
        context.pix_fmt or "",
        stream.time_base,
        bytes(context.extradata or b""),
    )


def _check_equal(found: Parameters, first: Parameters, number: int) -> None:
    for part in fields(Parameters):
        ours, theirs = getattr(found, part.name), getattr(first, part.name)
        if ours != theirs:
            is_header = part.name == "extradata"
            raise InputError(
                f"Video {number} cannot be joined to video 0 without encoding it anew",
                expected="the same codec header" if is_header else f"{part.name} {theirs}",
                found="another one (other settings of the encoder)" if is_header else f"{ours}",
                fix="Write it to a file of its own, or transcode it",
            )


def _shown(packets: Iterator[Any], number: int) -> Iterator[Any]:
    """All packets of a file; none of them may be one that an edit list hides."""
    for packet in packets:
        if packet.size == 0:
            continue
        if packet.is_discard:
            raise InputError(
                f"Video {number} cannot be joined: an edit list hides frames of it",
                fix="Transcode it, which drops them",
            )
        yield packet


def _range(
    packets: Iterator[Any], info: VideoInfo, from_frame: int, to_frame: int
) -> Iterator[Any]:
    """The packets of a range that begins at a keyframe, in decoding order."""
    first_pts, begun, num_left = info.frame_pts[from_frame], False, to_frame - from_frame
    for packet in packets:
        begun = begun or packet.pts == first_pts
        # What comes behind a keyframe and is shown before it belongs to the group before.
        if not begun or packet.size == 0 or packet.pts < first_pts:
            continue
        if packet.pts > info.frame_pts[to_frame - 1]:
            last = int(np.searchsorted(info.frame_pts, packet.pts))
            raise InputError(
                f"A copy cannot end before frame {to_frame}",
                found=f"frames before it are decoded from frame {last}, which comes later",
                fix="End at a keyframe, or encode the range anew with transcode",
            )
        yield packet
        num_left -= 1
        if num_left == 0:
            return
