"""The tolerances of validation."""

from __future__ import annotations

from dataclasses import dataclass

from datalake.errors import ConfigError

__all__ = ["Checks"]


@dataclass(frozen=True)
class Checks:
    """How far data may be off before it is a fault. Picklable.

    Raises:
        ConfigError: a tolerance is negative or no number.
    """

    timestamp_tolerance_s: float = 1e-4
    """Between timestamps, frame_index / fps and the presentation times of video; LeRobot's."""
    stats_tolerance: float = 1e-3
    """Between declared and true mean and std, as a part of the largest absolute value. Those that
    were computed in float32 (LeRobot) are off by up to some 5e-4."""
    max_extra_video_frames: int = 1
    """So many more frames than the episode are a warning, and more of them an error."""

    def __post_init__(self) -> None:
        for name in ("timestamp_tolerance_s", "stats_tolerance", "max_extra_video_frames"):
            if not getattr(self, name) >= 0:
                raise ConfigError(
                    "A tolerance cannot be used",
                    where=name,
                    expected="a number of at least 0",
                    found=str(getattr(self, name)),
                )
