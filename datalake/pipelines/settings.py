"""The options of an ingest."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, Literal, TypeAlias

from datalake.audio import Preset
from datalake.errors import InputError

__all__ = ["ExecutorName", "OnError", "Settings"]

OnError: TypeAlias = Literal["quarantine", "skip", "raise"]
ExecutorName: TypeAlias = Literal["auto", "ray", "local"]

_CHOICES: Final = {"on_error": ("quarantine", "skip", "raise"), "transcode": (None, "flac16k")}


@dataclass(frozen=True)
class Settings:
    """The options of an ingest that decide what it writes and when.

    Raises:
        InputError: a value is not one of those allowed.
    """

    on_error: OnError = "quarantine"
    max_bad_fraction: float = 0.01
    transcode: Preset | None = None
    min_duration_s: float = 0.0
    max_duration_s: float = 3600.0
    part_rows: int = 4096
    """About how many rows a part has when a corpus is first ingested."""
    commit_every_s: float = 60.0
    """Commit what is staged at least this often; a run that is killed loses no more."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                choices = ", ".join(choice for choice in allowed if choice)
                raise InputError(
                    f"The option {name} has an unknown value",
                    expected=choices,
                    found=repr(getattr(self, name)),
                )
        if not 0 <= self.max_bad_fraction <= 1:
            raise InputError(
                "The option max_bad_fraction is out of range",
                expected="a fraction from 0 to 1",
                found=str(self.max_bad_fraction),
            )
        if not 0 <= self.min_duration_s < self.max_duration_s:
            raise InputError(
                "The bounds of the duration are out of order",
                expected="0 <= min_duration_s < max_duration_s",
                found=f"{self.min_duration_s} and {self.max_duration_s}",
            )
        if self.part_rows < 1:
            raise InputError(
                "The option part_rows is out of range",
                expected="at least 1",
                found=str(self.part_rows),
            )
        if not self.commit_every_s >= 0:
            raise InputError(
                "The option commit_every_s is out of range",
                expected="0 or more seconds",
                found=str(self.commit_every_s),
            )

    @property
    def encoding(self) -> str:
        """How stored bytes are made: the preset, or `original`."""
        return self.transcode or "original"

    @property
    def fingerprint(self) -> str:
        """What a finished part depends on besides its files and rows."""
        kept = "dropped" if self.on_error == "skip" else "kept"
        return f"{self.encoding}|{self.min_duration_s}|{self.max_duration_s}|refused={kept}"

    def as_config(self) -> dict[str, object]:
        """These settings as JSON values, for lineage and reports."""
        return asdict(self)
