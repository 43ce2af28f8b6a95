"""Frames of a video by number or by time: exact, in any order, each group decoded once a call."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.quarantine import Reason
from datalake.video.info import BadVideo, VideoInfo
from datalake.video.probing import probed
from datalake.video.source import Source, load_av, open_video

__all__ = ["Pictures", "VideoReader"]

Pictures: TypeAlias = npt.NDArray[np.uint8]
"""RGB, (num_frames, height, width, 3)."""

_SKIP_FRAMES: Final = 0


class VideoReader:
    """Decodes frames of one video to RGB.

    A call works out which groups of pictures it needs and decodes each of them once, in order. It
    seeks only where the next wanted frame lies in a group that decoding would not reach next.
    Frames are told apart by their presentation time, which the decoder hands through, and never by
    counting. Rotation that a container asks of players is not applied.

    Holds the decoder's own few frames, one picture, and what it returns. Not thread-safe; the
    interpreter lock is free while FFmpeg works, so several readers in threads run side by side.

    Args:
        source: bytes in memory (never copied), or a seekable binary file that stays open.
        info: what `probe` said of it; None probes first, which reads through the file once.
        size: (width, height) to resize to, bilinear, in the pass that converts to RGB.
        num_threads: threads of the decoder; 0 is one a core.

    Raises:
        BadVideo: as `probe`.
        InputError: the size is impossible.
        MissingPackageError: av is not installed.
    """

    def __init__(
        self,
        source: Source,
        info: VideoInfo | None = None,
        *,
        size: tuple[int, int] | None = None,
        num_threads: int = 1,
    ) -> None:
        if size is not None and min(size) < 1:
            raise InputError("The size is impossible", found=f"{size}", expected="(width, height)")
        self._source = source
        self._num_threads = num_threads
        self._av = load_av()
        self._open()
        self._at_start = info is not None
        try:
            self.info = probed(self._container, self._stream) if info is None else info
        except BaseException:
            self.close()
            raise
        self._is_resized = size is not None
        self.size = size or (self.info.width, self.info.height)
        """(width, height) of the pictures."""

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Pictures]:
        """All frames in order, (height, width, 3) each."""
        return self.iterate()

    def close(self) -> None:
        """Let go of the decoder. The source stays as it is."""
        self._container.close()

    def frames(self, indices: npt.ArrayLike) -> Pictures:
        """Frames by number, in the order asked, repeats allowed.

        Args:
            indices: numbers in presentation order, from 0, (n,).

        Returns:
            uint8 RGB, (n, height, width, 3).

        Raises:
            InputError: a number is out of range.
            BadVideo: `corrupt`: a frame cannot be decoded.
        """
        wanted = self._checked(indices)
        width, height = self.size
        pictures = np.empty((len(wanted), height, width, 3), np.uint8)
        order = np.argsort(wanted, kind="stable")
        numbers, starts = np.unique(wanted[order], return_index=True)
        slots = np.split(order, starts[1:])
        for place, frame in zip(slots, self._decode(numbers), strict=True):
            self._convert(frame, pictures[place[0]])
            pictures[place[1:]] = pictures[place[0]]
        return pictures

    def at(self, times_s: npt.ArrayLike, tolerance_s: float = 1e-4) -> Pictures:
        """The frames that stand at these presentation times, (n, height, width, 3).

        Raises:
            InputError: a time has no frame within the tolerance; names the nearest.
            BadVideo: `corrupt`: a frame cannot be decoded.
        """
        return self.frames(self.info.frame_at(times_s, tolerance_s))

    def iterate(self, from_frame: int = 0, to_frame: int | None = None) -> Iterator[Pictures]:
        """The frames of a range in order, (height, width, 3) each; all of them by default.

        Raises:
            InputError: the range is not within the video.
            BadVideo: `corrupt`: a frame cannot be decoded.
        """
        to_frame = self.info.num_frames if to_frame is None else to_frame
        width, height = self.size
        for frame in self._decode(self._checked(np.arange(from_frame, to_frame))):
            picture = np.empty((height, width, 3), np.uint8)
            self._convert(frame, picture)
            yield picture

    def _checked(self, indices: npt.ArrayLike) -> npt.NDArray[np.int64]:
        wanted = np.asarray(indices)
        if wanted.size == 0:
            return np.empty(0, np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise InputError(
                "Frames are asked for by number",
                expected="a sequence of integers",
                found=f"{wanted.dtype} of shape {wanted.shape}",
            )
        if wanted.min() < 0 or wanted.max() >= self.info.num_frames:
            raise InputError(
                "A frame is out of range",
                expected=f"0 to {self.info.num_frames - 1}",
                found=f"{wanted.min() if wanted.min() < 0 else wanted.max()}",
            )
        return wanted.astype(np.int64)

    # Decoding -----------------------------------------------------------------------------------

    def _decode(self, numbers: npt.NDArray[np.int64]) -> Iterator[Any]:
        """FFmpeg's frames of these ascending numbers."""
        groups = np.searchsorted(self.info.keyframes, numbers, side="right") - 1
        # The frame at which decoding would begin for each; -1: before the first.
        begins = np.where(groups < 0, -1, self.info.keyframes[groups.clip(0)])
        leaps = np.flatnonzero(begins[1:] > numbers[:-1] + 1 + _SKIP_FRAMES) + 1
        for run, group in zip(
            np.split(numbers, leaps), groups[np.concatenate([[0], leaps])], strict=True
        ):
            if len(run):
                yield from self._decode_run(run, int(group))

    def _decode_run(self, numbers: npt.NDArray[np.int64], group: int) -> Iterator[Any]:
        """Decode forward from a group's keyframe through the last of `numbers`."""
        missing = self.info.frame_pts[numbers].tolist()
        while True:
            for frame in self._forward(missing, group):
                # A frame of a lower time than the next one wanted is one on the way to it.
                if missing and frame.pts == missing[0]:
                    missing.pop(0)
                    yield frame
            if not missing:
                return
            if group < 0:
                number = int(np.searchsorted(self.info.frame_pts, missing[0]))
                raise BadVideo.of(
                    Reason.CORRUPT, f"frame {number} cannot be decoded, or is no longer there"
                )
            # The keyframe could not do without what lies before it.
            group = group - 1 if group > 0 else -1

    def _forward(self, wanted_pts: list[int], group: int) -> Iterator[Any]:
        """Decoded frames from a group's keyframe on, until all that are wanted must have come."""
        still, context, av = set(wanted_pts), self._stream.codec_context, self._av
        try:
            for packet in self._packets(group):
                yield from context.decode(packet)
                still.discard(packet.pts)
                if not still:
                    break
            yield from context.decode(None)
        except (av.FFmpegError, ValueError) as error:
            raise BadVideo.of(Reason.CORRUPT, str(error)) from error

    def _packets(self, group: int) -> Iterator[Any]:
        """Packets in decoding order, from a group's keyframe or one before it."""
        key_pts = self.info.frame_pts[self.info.keyframes[group]] if group >= 0 else None
        while key_pts is not None and group >= 0:
            # Containers seek by decoding time, so that the place reached may lie too late.
            self._at_start = False
            target = int(self.info.frame_pts[self.info.keyframes[group]])
            try:
                self._container.seek(target, stream=self._stream, backward=True)
            except self._av.FFmpegError:
                break
            packets = self._container.demux(self._stream)
            first = next(packets, None)
            if first is not None and first.size and first.is_keyframe and first.pts <= key_pts:
                yield first
                yield from (packet for packet in packets if packet.size)
                return
            group -= 1
        if not self._at_start:
            self.close()
            self._open()
        self._at_start = False
        yield from (packet for packet in self._container.demux(self._stream) if packet.size)

    def _open(self) -> None:
        self._container, self._stream = open_video(self._source)
        self._stream.codec_context.thread_count = self._num_threads
        self._stream.thread_type = "AUTO"

    def _convert(self, frame: Any, picture: Pictures) -> None:
        width, height = self.size
        if not self._is_resized and (frame.width, frame.height) != self.size:
            raise BadVideo.of(
                Reason.UNSUPPORTED,
                f"a frame of {frame.width}x{frame.height} in a video of {width}x{height}",
            )
        plane = frame.reformat(width, height, "rgb24", interpolation="BILINEAR").planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)
        picture[:] = rows[:, : 3 * width].reshape(height, width, 3)
