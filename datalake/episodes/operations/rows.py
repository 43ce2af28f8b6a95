"""Rows of the episodes table, rewritten in a stream; and which video files they name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet

__all__ = ["frame_rows", "rewritten", "unreferenced", "video_ids", "with_columns"]

# An episode's row with the statistics of a humanoid takes some 20 kB.
_BATCH_ROWS: Final = 256

Rows = npt.NDArray[np.int64]
Rewrite = Callable[[pa.RecordBatch, range], pa.RecordBatch]


def rewritten(episodes: EpisodeSet, rewrite: Rewrite) -> pa.RecordBatchReader:
    """All rows of the episodes table, in order, as `rewrite` makes them.

    Args:
        episodes: the set.
        rewrite: is given some rows and their positions in the table, and returns as many.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in episodes.episodes.scan(batch_size=_BATCH_ROWS):
            yield rewrite(batch, range(start, start + batch.num_rows))
            start += batch.num_rows

    return pa.RecordBatchReader.from_batches(episodes.episodes.schema, batches())


def with_columns(
    batch: pa.RecordBatch, columns: Mapping[str, Sequence[Any] | pa.Array]
) -> pa.RecordBatch:
    """The batch with the values of some columns replaced, in their types."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else own
        for field, own in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def frame_rows(episodes: EpisodeSet, rows: Rows) -> Rows:
    """The rows of the frames table that belong to these rows of the episodes table."""
    starts = episodes.index.starts
    spans = [np.arange(starts[row], starts[row + 1]) for row in rows]
    return np.concatenate([np.empty(0, np.int64), *spans])


def video_ids(videos: Iterable[Sequence[Mapping[str, Any]] | None]) -> set[str]:
    """The files that values of the column `videos` name."""
    return {span["video_id"] for spans in videos for span in spans or ()}


def unreferenced(
    episodes: EpisodeSet,
    gone: Callable[[int, Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]],
) -> tuple[Rows, int]:
    """The rows of the videos table that nothing would name any more, and their bytes.

    Files that nothing names now stay: they may be of an ingest that is at work.

    Args:
        episodes: the set.
        gone: is given an episode's row and its spans, and returns the spans that go.
    """
    lost: set[str] = set()
    kept: set[str] = set()
    row = 0
    for batch in episodes.episodes.scan(["videos"]):
        for spans in batch.column("videos").to_pylist():
            going = gone(row, spans or ())
            lost |= video_ids([going])
            kept |= video_ids([[span for span in spans or () if span not in going]])
            row += 1
    lost -= kept
    rows: list[int] = []
    num_bytes = start = 0
    for batch in episodes.videos.scan(["video_id", "num_bytes"]) if lost else ():
        for at, (video_id, size) in enumerate(
            zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ):
            if video_id in lost:
                rows.append(start + at)
                num_bytes += size
        start += batch.num_rows
    return np.array(rows, np.int64), num_bytes
