"""A finding: one fault of a robot dataset, where it is and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from datalake.quarantine import Reason

__all__ = ["Finding", "Severity"]


class Severity(StrEnum):
    """What a finding costs."""

    ERROR = "error"
    """The episode (or, without one, the dataset) cannot be ingested as it is."""
    WARNING = "warning"
    """It is ingested; a person should know."""


@dataclass(frozen=True)
class Finding:
    """One fault. Picklable."""

    reason: Reason
    severity: Severity
    detail: str
    """What was expected and what was found, in one sentence."""
    episode_id: str | None = None
    """None: the dataset as a whole."""
    frame_index: int | None = None
    """The first frame concerned."""
    feature: str | None = None
    origin: str | None = None
    """The file, relative to the dataset's root."""

    def as_dict(self) -> dict[str, Any]:
        """The finding as JSON values."""
        return {
            "severity": str(self.severity),
            "reason": str(self.reason),
            "episode_id": self.episode_id,
            "frame_index": self.frame_index,
            "feature": self.feature,
            "origin": self.origin,
            "detail": self.detail,
        }
