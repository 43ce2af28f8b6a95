"""Why a row is refused. The codes are stored, so they are never renamed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["QUARANTINE_SUFFIX", "Reason", "Refusal"]

QUARANTINE_SUFFIX: Final = ".quarantine"
"""What follows a table's name in the name of the table of its refused rows."""


class Reason(StrEnum):
    """Reason codes of the quarantine table."""

    EMPTY = "empty"
    """The file has no bytes, or no samples."""
    NOT_AUDIO = "not_audio"
    """The bytes are no audio that can be read."""
    WRONG_EXTENSION = "wrong_extension"
    """The bytes are audio of another kind than the file name says."""
    TRUNCATED = "truncated"
    """The header promises more than the file holds, or decoding stops early."""
    CORRUPT = "corrupt"
    """The file begins well and cannot be decoded to its end."""
    NON_FINITE = "non_finite"
    """Some samples are NaN or infinite."""
    TOO_SHORT = "too_short"
    """The duration is below the bound."""
    TOO_LONG = "too_long"
    """The duration is above the bound."""
    BAD_HEADER = "bad_header"
    """The header holds an impossible sample rate or number of channels."""
    UNREADABLE = "unreadable"
    """The file is there, and the file system or store does not give it."""
    NO_FILE = "no_file"
    """A protocol row names a file that is not there."""
    NO_PROTOCOL_ROW = "no_protocol_row"
    """A file that no protocol row names."""
    DUPLICATE_ID = "duplicate_id"
    """The id was given to another row before."""
    BAD_LABEL = "bad_label"
    """The label is none of the spellings of bona fide or spoof."""
    BAD_ROW = "bad_row"
    """A protocol row that cannot be parsed, or lacks a value it must have."""


@dataclass(frozen=True)
class Refusal:
    """One refused row: its reason, and what a person needs to see why."""

    reason: Reason
    detail: str
