"""How many frames there are, and how they are numbered."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.validation.faults import error, first_of, warning
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, Finding

__all__ = ["foreign_rows", "frame_numbers", "odd_frame_index", "odd_index", "wrong_length"]


def wrong_length(data: EpisodeData) -> Iterator[Finding]:
    """No frame at all, or another number than the metadata promise."""
    found, promised = data.frames.num_rows, data.ref.length
    if found == 0:
        yield error(data, Reason.EMPTY, f"expected {promised or 'some'} frames, found none")
    elif promised is not None and promised != found:
        detail = f"the metadata promise {promised:,} frames, found {found:,}"
        yield error(data, Reason.LENGTH_MISMATCH, detail, frame=min(promised, found))


def odd_frame_index(data: EpisodeData) -> Iterator[Finding]:
    """frame_index is not 0, 1, 2, …"""
    numbers = _integers(data, "frame_index")
    if numbers is None:
        if "frame_index" in data.frames.column_names:
            detail = f"frame_index holds {data.frames['frame_index'].type}, or nulls"
            yield error(data, Reason.INDEX_GAP, detail, feature="frame_index")
        return
    if numbers[0] != 0:
        detail = f"expected frame_index to begin at 0, found {numbers[0]}"
        yield error(data, Reason.INDEX_GAP, detail, frame=0, feature="frame_index")
    steps = np.diff(numbers)
    for bad, reason, what in (
        (steps > 1, Reason.FRAME_GAP, "leaves frames out"),
        (steps == 0, Reason.FRAME_REPEAT, "stands twice"),
        (steps < 0, Reason.INDEX_GAP, "goes back"),
    ):
        if bad.any():
            row, more = first_of(bad)
            detail = (
                f"frame_index {what}: expected {numbers[row] + 1} after {numbers[row]},"
                f" found {numbers[row + 1]}{more}"
            )
            yield error(data, reason, detail, frame=row + 1, feature="frame_index")


def odd_index(data: EpisodeData) -> Iterator[Finding]:
    """`index`, the number of a frame in the whole dataset, has a jump."""
    numbers = _integers(data, "index")
    if numbers is not None and (bad := np.diff(numbers) != 1).any():
        row, more = first_of(bad)
        detail = (
            f"index is not contiguous: expected {numbers[row] + 1} after {numbers[row]},"
            f" found {numbers[row + 1]}{more}"
        )
        yield warning(data, Reason.INDEX_GAP, detail, frame=row + 1, feature="index")


def foreign_rows(data: EpisodeData) -> Iterator[Finding]:
    """Rows that call themselves another episode's."""
    numbers = _integers(data, "episode_index")
    expected = data.ref.episode_index
    if numbers is not None and (bad := numbers != expected).any():
        row, more = first_of(bad)
        detail = f"expected episode_index {expected}, found {numbers[row]}{more}"
        yield error(data, Reason.METADATA_MISMATCH, detail, frame=row, feature="episode_index")


def frame_numbers(data: EpisodeData) -> npt.NDArray[np.int64]:
    """frame_index where it can be used, else the rows' positions."""
    numbers = _integers(data, "frame_index")
    if numbers is None or numbers[0] != 0 or (np.diff(numbers) < 1).any():
        return np.arange(data.frames.num_rows)
    return numbers


def _integers(data: EpisodeData, name: str) -> npt.NDArray[np.int64] | None:
    if name not in data.frames.column_names:
        return None
    column = data.frames[name]
    if not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return None
    return np.asarray(column.to_numpy(), np.int64)
