"""Frames of the decoder to pictures: RGB, resized in the same pass, straight to where they go."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.quarantine import Reason
from datalake.video.info import BadVideo
from datalake.video.source import load_av

__all__ = ["Converter"]


class Converter:
    """Converts frames of one video, or of videos of one size. Not thread-safe.

    To set one up takes longer than it works on a frame, so keep it.

    Args:
        size: (width, height) to resize to, bilinear; None leaves frames as they are.
        num_threads: threads that work on one frame; None is one a core.
    """

    def __init__(self, size: tuple[int, int] | None, num_threads: int | None = 1) -> None:
        self._size = size
        self._num_threads = num_threads
        self._reformatter = load_av().video.reformatter.VideoReformatter()

    def into(self, frame: Any, picture: npt.NDArray[np.uint8]) -> None:
        """Write a frame into (height, width, 3).

        Raises:
            BadVideo: `unsupported`: the frame is not as large as the picture, and is not resized.
        """
        height, width = picture.shape[:2]
        if self._size is None and (frame.width, frame.height) != (width, height):
            raise BadVideo.of(
                Reason.UNSUPPORTED,
                f"a frame of {frame.width}x{frame.height} in a video of {width}x{height}",
            )
        rgb = self._reformatter.reformat(
            frame, width, height, "rgb24", interpolation="BILINEAR", threads=self._num_threads
        )
        plane = rgb.planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(height, plane.line_size)
        picture[:] = rows[:, : 3 * width].reshape(height, width, 3)
