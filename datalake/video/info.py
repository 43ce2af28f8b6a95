"""What is known of a video file after a look inside, and the error that says it is bad."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.quarantine import Reason, Refusal

__all__ = ["BadVideo", "VideoInfo"]


@dataclass(frozen=True, eq=False)
class VideoInfo:
    """Facts about one video file, its frames in the order in which they are shown.

    Frames that an edit list hides are no frames. 16 bytes a frame at most, 8 for most.
    """

    codec: str
    """`h264`, `hevc`, `av1`, `vp9`, … as FFmpeg names them."""
    pix_fmt: str
    width: int
    height: int
    fps: float
    """The average rate of the frames; it says nothing of any one of them."""
    num_frames: int
    duration_s: float
    """Of the video track: to the end of its last frame, not to its beginning."""
    time_base: Fraction
    """A presentation time of n is n * time_base seconds."""
    frame_pts: npt.NDArray[np.int64] = field(repr=False)
    """The presentation time of each frame, ascending, (num_frames,). The first need not be 0."""
    keyframes: npt.NDArray[np.int64] = field(repr=False)
    """The numbers of the frames at which decoding can begin, ascending."""
    keyframe_offsets: npt.NDArray[np.int64] = field(repr=False)
    """Where the packets of these frames begin in the file, in bytes; -1 where unknown."""
    has_audio: bool | None = None
    """None: a table row was asked, which does not say."""

    def times(self) -> npt.NDArray[np.float64]:
        """The presentation time of each frame in seconds, (num_frames,)."""
        return self.frame_pts * self.time_base.numerator / self.time_base.denominator

    def group_of(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Which group of pictures each frame is shown in; -1: before the first. (n,)."""
        return np.searchsorted(self.keyframes, frames, side="right") - 1

    def frame_at(self, times_s: npt.ArrayLike, tolerance_s: float = 1e-4) -> npt.NDArray[np.int64]:
        """The number of the frame nearest to each time; of two equally near the earlier.

        Args:
            times_s: presentation times in seconds, of any shape.
            tolerance_s: how far a frame may be from its time.

        Returns:
            Frame numbers, shaped as `times_s`.

        Raises:
            InputError: a time has no frame within the tolerance; names the nearest.
        """
        wanted = np.asarray(times_s, np.float64)
        times = self.times()
        right = np.searchsorted(times, wanted).clip(1, max(1, self.num_frames - 1))
        left = right - 1
        right = right.clip(max=self.num_frames - 1)
        frames = np.where(wanted - times[left] <= times[right] - wanted, left, right)
        away = np.abs(times[frames] - wanted)
        # Written so that NaN is out of tolerance.
        if not (away <= tolerance_s).all():
            worst = int(np.argmax(np.where(np.isnan(away), np.inf, away)))
            frame = int(frames.flat[worst])
            raise InputError(
                f"No frame of the video stands at {wanted.flat[worst]:.6f} s",
                expected=f"one within {tolerance_s:g} s",
                found=f"the nearest, frame {frame} of {self.num_frames}, at {times[frame]:.6f} s:"
                f" {away.flat[worst]:.6f} s away",
            )
        return frames.astype(np.int64)

    def as_row(self) -> dict[str, Any]:
        """The facts as columns of `datalake.episodes.VIDEOS`."""
        return {
            "codec": self.codec,
            "pix_fmt": self.pix_fmt,
            "width": self.width,
            "height": self.height,
            "fps": self.fps,
            "num_frames": self.num_frames,
            "duration_s": self.duration_s,
            "time_base_num": self.time_base.numerator,
            "time_base_den": self.time_base.denominator,
            "frame_pts": self.frame_pts,
            "keyframes": self.keyframes,
            "keyframe_offsets": self.keyframe_offsets,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> VideoInfo:
        """The facts that `as_row` made `row` of."""
        return cls(
            codec=row["codec"],
            pix_fmt=row["pix_fmt"],
            width=row["width"],
            height=row["height"],
            fps=row["fps"],
            num_frames=row["num_frames"],
            duration_s=row["duration_s"],
            time_base=Fraction(row["time_base_num"], row["time_base_den"]),
            frame_pts=np.asarray(row["frame_pts"], np.int64),
            keyframes=np.asarray(row["keyframes"], np.int64),
            keyframe_offsets=np.asarray(row["keyframe_offsets"], np.int64),
        )


class BadVideo(InputError):  # noqa: N818 - the noun is what callers catch
    """A video that cannot be used. `refusal` holds the reason code and the detail."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__("The video cannot be used", found=f"{refusal.detail} [{refusal.reason}]")

    @classmethod
    def of(cls, reason: Reason, detail: str) -> BadVideo:
        """The error for a reason code and a detail."""
        return cls(Refusal(reason, detail))

    def __reduce__(self) -> tuple[object, ...]:
        return (BadVideo, (self.refusal,))
