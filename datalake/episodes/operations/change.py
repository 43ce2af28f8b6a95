"""What an operation did, or would do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Change"]


@dataclass(frozen=True)
class Change:
    """One new version of an episode set, or none where there was nothing to do."""

    operation: str
    name: str
    """The set."""
    version_before: int | None
    """None: the operation made the set."""
    version: int | None
    """The version it made; the one before if nothing was to be done or nothing was written."""
    num_episodes: int
    """Episodes that it concerns."""
    num_frames: int = 0
    """Frames that went, came or were rewritten."""
    num_videos: int = 0
    """Video files that went or came."""
    num_video_bytes: int = 0
    dry_run: bool = False
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else there is to say, as JSON values."""

    @property
    def is_made(self) -> bool:
        """Whether there is a new version."""
        return self.version != self.version_before

    def as_dict(self) -> dict[str, Any]:
        """The change as JSON values."""
        return asdict(self)
