"""The decoder behind a reader: which groups of pictures to decode, and how to get to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.quarantine import Reason
from datalake.video.info import BadVideo, VideoInfo
from datalake.video.probing import probed
from datalake.video.source import Source, load_av, open_video

__all__ = ["Decoder"]


class Decoder:
    """Decodes wanted frames of one video, each group of pictures once, in order.

    Frames are told apart by their presentation time, which FFmpeg hands through from the packet to
    the frame, and never by counting. Leaping takes a few milliseconds less than decoding even one
    frame for nothing, so it leaps over whatever is not wanted (measured on H.264, H.265 and AV1 at
    640x480, groups of 2 and of 30).
    """

    def __init__(self, source: Source, info: VideoInfo | None, num_threads: int) -> None:
        self._source = source
        self._num_threads = num_threads
        self._av = load_av()
        self._open()
        try:
            # Probing reads to the end, so that the first run must seek.
            self._at_start = info is not None
            self.info = probed(self._container, self._stream) if info is None else info
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the container; the source stays as it is."""
        self._container.close()

    def decode(self, numbers: npt.NDArray[np.int64]) -> Iterator[Any]:
        """FFmpeg's frames of these numbers, which ascend and do not repeat.

        Raises:
            BadVideo: `corrupt`.
        """
        if not len(numbers):
            return
        groups = np.searchsorted(self.info.keyframes, numbers, side="right") - 1
        # Where decoding would begin for each; -1: before the first frame that is shown.
        begins = np.append(self.info.keyframes, -1)[groups]
        leaps = np.flatnonzero(begins[1:] > numbers[:-1] + 1) + 1
        firsts = groups[np.append(0, leaps)]
        for run, group in zip(np.split(numbers, leaps), firsts.tolist(), strict=True):
            yield from self._decode_run(run, group)

    def _decode_run(self, numbers: npt.NDArray[np.int64], group: int) -> Iterator[Any]:
        """Decode straight through, from a group's keyframe to the last of `numbers`."""
        missing = self.info.frame_pts[numbers].tolist()[::-1]
        while True:
            for frame in self._forward(missing, group):
                # Any other is on the way to the next one wanted.
                if missing and frame.pts == missing[-1]:
                    missing.pop()
                    yield frame
            if not missing:
                return
            if group < 0:
                number = int(np.searchsorted(self.info.frame_pts, missing[-1]))
                raise BadVideo.of(
                    Reason.CORRUPT, f"frame {number} does not come out of the decoder"
                )
            # The keyframe could not do without what lies before it.
            group -= 1

    def _forward(self, wanted_pts: list[int], group: int) -> Iterator[Any]:
        """Frames from a group's keyframe on, until all those wanted have been through."""
        not_fed = set(wanted_pts)
        try:
            for packet in self._packets(group):
                yield from self._stream.codec_context.decode(packet)
                not_fed.discard(packet.pts)
                if not not_fed:
                    break
            yield from self._stream.codec_context.decode(None)
        except BadVideo:
            raise
        except (self._av.FFmpegError, ValueError) as error:
            raise BadVideo.of(Reason.CORRUPT, str(error)) from error

    def _packets(self, group: int) -> Iterator[Any]:
        """Packets in decoding order, from a group's keyframe or from one before it."""
        keyframe_pts = self.info.frame_pts[self.info.keyframes[: group + 1]].tolist()
        for target in reversed(keyframe_pts):
            # Containers seek by decoding time: the place reached may lie too late.
            first = self._seek(target)
            if _begins(first, keyframe_pts[-1]):
                yield first
                yield from self._rest
                return
        if not self._at_start:
            self.close()
            self._open()
        self._at_start = False
        yield from self._demuxed()

    def _seek(self, pts: int) -> Any:
        """Go to the last keyframe at or before a time; the first packet there, or None."""
        self._at_start = False
        try:
            self._container.seek(pts, stream=self._stream, backward=True)
        except self._av.FFmpegError:
            return None
        self._rest = self._demuxed()
        return next(self._rest, None)

    def _demuxed(self) -> Iterator[Any]:
        # An empty packet marks the end.
        return (packet for packet in self._container.demux(self._stream) if packet.size)

    def _open(self) -> None:
        self._container, self._stream = open_video(self._source)
        self._stream.codec_context.thread_count = self._num_threads
        self._stream.thread_type = "AUTO"


def _begins(packet: Any, pts: int) -> bool:
    """Whether decoding can begin with the packet and reach the keyframe at `pts`."""
    if packet is None or packet.pts is None:
        return False
    return bool(packet.is_keyframe and packet.pts <= pts)
