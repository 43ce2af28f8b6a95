"""An episode that an ingest does not take."""

from __future__ import annotations

from typing import NamedTuple

from datalake.quarantine import Reason
from datalake.recording import EpisodeRef, Finding, Severity

__all__ = ["RefusedEpisode", "refused"]


class RefusedEpisode(NamedTuple):
    """An episode that is not taken, and why. Picklable and small."""

    episode_id: str
    episode_index: int
    findings: tuple[Finding, ...]
    """At least one; the first names it."""

    @property
    def reason(self) -> Reason:
        """What it counts as."""
        return self.findings[0].reason

    def __str__(self) -> str:
        first = self.findings[0]
        frame = "" if first.frame_index is None else f", frame {first.frame_index}"
        return f"{self.episode_id}{frame}: {first.detail}"


def refused(
    ref: EpisodeRef,
    reason: Reason,
    detail: str,
    *,
    feature: str | None = None,
    frame_index: int | None = None,
    origin: str | None = None,
) -> RefusedEpisode:
    """An episode refused for one reason."""
    finding = Finding(
        reason,
        Severity.ERROR,
        detail,
        episode_id=ref.episode_id,
        frame_index=frame_index,
        feature=feature,
        origin=origin or ref.origin,
    )
    return RefusedEpisode(ref.episode_id, ref.episode_index, (finding,))
