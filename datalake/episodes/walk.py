"""The frames of episodes, one episode after the other, in whatever order they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet
from datalake.schema import is_media

__all__ = ["walk"]

# Reading a table through costs less than taking rows out of it, until most of it is passed over.
_SCAN_FROM: Final = 0.5
# Rows of numbers that are taken at once.
_TAKEN_ROWS: Final = 8192


def walk(
    episodes: EpisodeSet, rows: Sequence[int] | npt.NDArray[np.int64], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The frames of each episode, in the order of `rows`.

    Args:
        episodes: the set.
        rows: rows of its episodes table; none twice.
        columns: columns of the frames table.

    Memory holds one episode; without pictures among the columns some thousand frames, if that is
    more.
    """
    wanted = np.asarray(rows, np.int64)
    index = episodes.index
    num_frames = int(index.lengths[wanted].sum())
    if np.all(np.diff(wanted) > 0) and num_frames >= _SCAN_FROM * index.starts[-1]:
        yield from _scanned(episodes, wanted, columns)
        return
    schema = episodes.frames.schema
    at_once = 1 if any(is_media(schema.field(name)) for name in columns) else _TAKEN_ROWS
    for group in _groups(index.lengths[wanted], at_once):
        chosen = wanted[group]
        spans = [np.arange(index.starts[row], index.starts[row + 1]) for row in chosen]
        taken = episodes.frames.take(np.concatenate(spans), columns)
        start = 0
        for span in spans:
            yield taken.slice(start, len(span))
            start += len(span)


def _scanned(
    episodes: EpisodeSet, rows: npt.NDArray[np.int64], columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The frames of episodes whose rows ascend, out of one scan."""
    starts = episodes.index.starts
    schema = pa.schema([episodes.frames.schema.field(name) for name in columns])
    batches = iter(episodes.frames.scan(columns))
    held: list[pa.RecordBatch] = []
    # The rows of the table that are held.
    begin = end = 0
    for row in rows:
        first, last = int(starts[row]), int(starts[row + 1])
        while end < last:
            batch = next(batches)
            held.append(batch)
            end += batch.num_rows
            while held and begin + held[0].num_rows <= first:
                begin += held.pop(0).num_rows
        while held and begin + held[0].num_rows <= first:
            begin += held.pop(0).num_rows
        yield pa.Table.from_batches(held, schema).slice(first - begin, last - first)


def _groups(lengths: npt.NDArray[np.int64], at_once: int) -> Iterator[slice]:
    """Runs of episodes of some `at_once` frames together, one episode at least."""
    start = total = 0
    for number, length in enumerate(lengths):
        if number > start and total + length > at_once:
            yield slice(start, number)
            start, total = number, 0
        total += int(length)
    if start < len(lengths):
        yield slice(start, len(lengths))
