"""The options of an ingest of episodes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from datalake.errors import InputError
from datalake.pipelines.settings import OnError

__all__ = ["EpisodeSettings", "VideoCodec"]

VideoCodec: TypeAlias = Literal["h264", "hevc", "av1"]

_CHOICES: Final = {
    "on_error": ("quarantine", "skip", "raise"),
    "transcode": (None, "h264", "hevc", "av1"),
}


@dataclass(frozen=True)
class EpisodeSettings:
    """The options of an ingest of episodes that decide what it writes and when.

    Raises:
        InputError: a value is not one of those allowed.
    """

    on_error: OnError = "quarantine"
    max_bad_fraction: float | None = None
    """Stop if a larger fraction of the episodes is bad. None: go on however many are: robot
    datasets have few episodes, and one bad one of six is no reason to take none."""
    transcode: VideoCodec | None = None
    """Store videos re-encoded; None stores their bytes as they were found."""
    without_video: bool = False
    """Leave out features that are videos: neither their files nor their absence matter then."""
    union: bool = False
    """Let episodes with other features than the set's in; what an episode lacks is null."""
    commit_every_s: float = 60.0
    """Publish what is staged at least this often; a run that is killed loses no more."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"The option {name} has an unknown value for robot episodes",
                    expected=", ".join(choice for choice in allowed if choice),
                    found=repr(getattr(self, name)),
                )
        if self.max_bad_fraction is not None and not 0 <= self.max_bad_fraction <= 1:
            raise InputError(
                "The option max_bad_fraction is out of range",
                expected="a fraction from 0 to 1",
                found=str(self.max_bad_fraction),
            )
        if not self.commit_every_s >= 0:
            raise InputError(
                "The option commit_every_s is out of range",
                expected="0 or more seconds",
                found=str(self.commit_every_s),
            )
        if self.transcode and self.without_video:
            raise InputError("Videos cannot be transcoded and left out at once")

    def stamped(self, stamp: str) -> str:
        """A stamp of the source with what, besides the source, decides the stored bytes."""
        return f"{stamp}|{'without video' if self.without_video else self.transcode or 'original'}"

    def as_config(self) -> dict[str, object]:
        """These settings as JSON values, for lineage and reports."""
        return asdict(self)
