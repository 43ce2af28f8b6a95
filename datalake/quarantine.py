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

    # Episodes.
    NOT_FOUND = "not_found"
    """A file that the metadata names is not there."""
    LFS_POINTER = "lfs_pointer"
    """A Git-LFS pointer lies in the place of the file."""
    EMPTY_METADATA = "empty_metadata"
    """A metadata file is absent, empty or cannot be parsed."""
    METADATA_MISMATCH = "metadata_mismatch"
    """Metadata contradict each other: totals, ranges, names."""
    LENGTH_MISMATCH = "length_mismatch"
    """The metadata promise another number of frames than the episode holds."""
    BAD_TIMESTAMPS = "bad_timestamps"
    """Timestamps are out of step with the frame rate, or do not grow."""
    FRAME_GAP = "frame_gap"
    """Frames are missing within the episode."""
    FRAME_REPEAT = "frame_repeat"
    """A frame occurs twice."""
    INDEX_GAP = "index_gap"
    """Numbers of episodes or frames are not contiguous."""
    NOT_VIDEO = "not_video"
    """The bytes are no video that can be read."""
    VIDEO_MISSING = "video_missing"
    """The episode's video file is not there."""
    VIDEO_TRUNCATED = "video_truncated"
    """The video ends before its container says so, or cannot be opened."""
    VIDEO_LENGTH_MISMATCH = "video_length_mismatch"
    """The video has another number of frames than the episode."""
    VIDEO_TIMESTAMPS = "video_timestamps"
    """Frames of the video do not stand where the episode's timestamps want them."""
    OUT_OF_RANGE = "out_of_range"
    """A value lies outside of the range that its feature declares."""
    CONSTANT = "constant"
    """Values that should change never do."""
    SHAPE_CHANGED = "shape_changed"
    """A feature has another shape or type than declared, or is absent."""
    NO_TASK = "no_task"
    """A task without text."""
    STATS_MISMATCH = "stats_mismatch"
    """The declared statistics are not those of the data."""
    MARKED_INVALID = "marked_invalid"
    """The source itself marks the episode as one not to be used."""
    ASSUMED = "assumed"
    """The source does not say it; the detail says what was taken, and which option changes it."""
    UNSUPPORTED = "unsupported"
    """The source uses something that is not supported; the detail says what."""


@dataclass(frozen=True)
class Refusal:
    """One refused row: its reason, and what a person needs to see why."""

    reason: Reason
    detail: str
