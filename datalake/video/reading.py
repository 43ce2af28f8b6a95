"""Frames of a video by number or by time: exact, in any order, each group decoded once a call."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.video.converting import Converter
from datalake.video.decoding import Decoder
from datalake.video.info import VideoInfo
from datalake.video.source import Source

__all__ = ["Pictures", "VideoReader"]

Pictures: TypeAlias = npt.NDArray[np.uint8]
"""RGB, (num_frames, height, width, 3)."""


class VideoReader:
    """Decodes frames of one video to RGB.

    A call works out which groups of pictures it needs, decodes each of them once, in order, and
    seeks only where the next wanted frame lies in a group that decoding would not reach next. A
    rotation that the container asks of players is not applied.

    Holds the decoder's own few frames, one picture, and what it returns. Not thread-safe; the
    interpreter lock is free while FFmpeg works, so several readers in threads run side by side.

    Args:
        source: bytes in memory (never copied), or a seekable binary file that stays open.
        info: what `probe` said of it; None probes first, which reads through the file once.
        size: (width, height) to resize to, bilinear, in the pass that converts to RGB.
        num_threads: threads of the decoder; 0 is one a core. A second one decoded half as many
            frames again in a second; where readers run side by side, take 1.

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
        num_threads: int = 2,
    ) -> None:
        if size is not None and min(size) < 1:
            raise InputError("The size is impossible", found=f"{size}", expected="(width, height)")
        self._decoder = Decoder(source, info, num_threads)
        self.info = self._decoder.info
        """What `probe` says of the video."""
        self._converter = Converter(size, num_threads or None)
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
        self._decoder.close()

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
        # Where each frame goes, the frames ascending.
        order = np.argsort(wanted, kind="stable")
        numbers, starts = np.unique(wanted[order], return_index=True)
        places = np.split(order, starts)[1:]
        for place, frame in zip(places, self._decoder.decode(numbers), strict=True):
            self._converter.into(frame, pictures[place[0]])
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
        for frame in self._decoder.decode(self._checked(np.arange(from_frame, to_frame))):
            picture = np.empty((height, width, 3), np.uint8)
            self._converter.into(frame, picture)
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
