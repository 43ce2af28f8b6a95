"""Copying episodes from one set into another: rows of episodes and frames, and video files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.operations.rows import video_ids, with_columns
from datalake.episodes.schema import EPISODES
from datalake.episodes.walk import walk
from datalake.errors import InputError
from datalake.lake import Lineage
from datalake.tables import Piece

__all__ = ["Copier", "annotation_fields", "same_id"]

_BATCH_ROWS = 256

Rename = Callable[[str], str]


def same_id(own: str) -> str:
    """Every id stays what it is."""
    return own


@dataclass
class Copier:
    """Stages episodes of several sets for one other, and publishes them in one version."""

    target: EpisodeSet
    """As `to_write` gives it; its frames have a column for every feature of the sources."""
    num_episodes: int = 0
    num_frames: int = 0
    num_videos: int = 0
    num_video_bytes: int = 0
    left: set[str] = field(default_factory=set)
    """Annotations whose values do not come along: the target has no such column, or it was filled
    by something else."""
    _episodes: list[Piece] = field(default_factory=list)
    _frames: list[Piece] = field(default_factory=list)
    _videos: list[Piece] = field(default_factory=list)
    # The files that the target has or will have.
    _held: set[str] = field(default_factory=set)
    # Stamp and size of those, and of all that were checked.
    _known: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for video_id, stamp, size in _files(self.target):
            self._held.add(video_id)
            self._known[video_id] = (stamp, size)

    def check(self, source: EpisodeSet, rows: npt.NDArray[np.int64], renamed: Rename) -> None:
        """See that the video files of these episodes can be added to those checked before.

        Raises:
            InputError: a file's id is taken by another file.
        """
        wanted = self._wanted(source, rows)
        for video_id, stamp, size in _files(source):
            if video_id not in wanted:
                continue
            known = self._known.setdefault(renamed(video_id), (stamp, size))
            if known != (stamp, size):
                raise InputError(
                    f"Two different video files have the id {renamed(video_id)!r}",
                    where=source.name,
                    found=f"one of {known[1]:,} bytes, and in {source.name} one of {size:,}",
                    fix="Give the ids of each set its name in front (prefix, --prefix)",
                )

    def add(
        self, source: EpisodeSet, rows: npt.NDArray[np.int64], renamed: Rename = same_id
    ) -> None:
        """Stage episodes, in the order of `rows`, under ids that `renamed` makes of theirs."""
        rows = np.asarray(rows, np.int64)
        self._frames += self.target.frames.stager().write(self._frame_rows(source, rows, renamed))
        self._episodes += self.target.episodes.stager().write(
            self._episode_rows(source, rows, renamed)
        )
        self._videos += self._video_rows(source, rows, renamed)
        self.num_episodes += len(rows)
        self.num_frames += int(source.index.lengths[rows].sum())

    def publish(self, lineage: Lineage) -> EpisodeSet:
        """Publish what was staged.

        Raises:
            ConflictError: another writer changed the target meanwhile; nothing is published.
        """
        frames, videos = (
            table.commit(pieces, expected_version=table.version, properties=lineage.properties())
            if pieces
            else table
            for table, pieces in (
                (self.target.frames, self._frames),
                (self.target.videos, self._videos),
            )
        )
        return self.target.publish(self._episodes, frames=frames, videos=videos, lineage=lineage)

    def _frame_rows(
        self, source: EpisodeSet, rows: npt.NDArray[np.int64], renamed: Rename
    ) -> pa.RecordBatchReader:
        schema = self.target.frames.schema
        names = [name for name in source.frames.schema.names if name in schema.names]

        def batches() -> Iterator[pa.RecordBatch]:
            for frames in walk(source, rows, names):
                for batch in frames.to_batches():
                    columns = [
                        batch.column(f.name)
                        if f.name in names
                        else pa.nulls(batch.num_rows, f.type)
                        for f in schema
                    ]
                    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
                    if renamed is not same_id:
                        own = batch.column("episode_id")[0].as_py()
                        whole = with_columns(
                            whole, {"episode_id": pa.repeat(renamed(own), batch.num_rows)}
                        )
                    yield whole

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _episode_rows(
        self, source: EpisodeSet, rows: npt.NDArray[np.int64], renamed: Rename
    ) -> pa.RecordBatchReader:
        own, schema = source.episodes.schema, self.target.episodes.schema
        names = [
            field.name
            for field in schema
            if field.name in EPISODES.names
            or (field.name in own.names and _same(own.field(field.name), field))
        ]
        self.left |= set(own.names) - set(names)

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(rows), _BATCH_ROWS):
                chosen = rows[start : start + _BATCH_ROWS]
                taken = source.episodes.take(chosen, names).combine_chunks()
                for batch in taken.to_batches():
                    columns = [
                        batch.column(f.name)
                        if f.name in names
                        else pa.nulls(batch.num_rows, f.type)
                        for f in schema
                    ]
                    whole = pa.RecordBatch.from_arrays(columns, schema=schema)
                    yield whole if renamed is same_id else _with_ids(whole, renamed)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _video_rows(
        self, source: EpisodeSet, rows: npt.NDArray[np.int64], renamed: Rename
    ) -> list[Piece]:
        wanted = self._wanted(source, rows)
        places, sizes = [], []
        for place, (video_id, _, size) in enumerate(_files(source)):
            if video_id in wanted and renamed(video_id) not in self._held:
                self._held.add(renamed(video_id))
                places.append(place)
                sizes.append(size)

        def batches() -> Iterator[pa.RecordBatch]:
            # One file at a time: each may have hundreds of megabytes.
            for place in places:
                for batch in source.videos.take([place]).to_batches():
                    video_id = renamed(batch.column("video_id")[0].as_py())
                    yield with_columns(batch, {"video_id": [video_id]})

        self.num_videos += len(places)
        self.num_video_bytes += sum(sizes)
        stream = pa.RecordBatchReader.from_batches(source.videos.schema, batches())
        return self.target.videos.stager().write(stream) if places else []

    @staticmethod
    def _wanted(source: EpisodeSet, rows: npt.NDArray[np.int64]) -> set[str]:
        return video_ids(source.episodes.take(rows, ["videos"])["videos"].to_pylist())


def annotation_fields(sets: Iterable[EpisodeSet]) -> list[pa.Field]:
    """The columns that episodes of these sets have beyond `EPISODES`; of two alike the first."""
    found: dict[str, pa.Field] = {}
    for each in sets:
        for own in each.episodes.schema:
            if own.name not in EPISODES.names:
                found.setdefault(own.name, own)
    return list(found.values())


def _same(one: pa.Field, other: pa.Field) -> bool:
    """Whether two columns hold values of one kind: metadata say by what they were filled."""
    return bool(one.type == other.type and (one.metadata or {}) == (other.metadata or {}))


def _files(of: EpisodeSet) -> Iterator[tuple[str, str | None, int]]:
    """Id, stamp and size of each video file, in order."""
    for batch in of.videos.scan(["video_id", "stamp", "num_bytes"]):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _with_ids(batch: pa.RecordBatch, renamed: Rename) -> pa.RecordBatch:
    videos: list[list[Mapping[str, Any]]] = batch.column("videos").to_pylist()
    return with_columns(
        batch,
        {
            "episode_id": [renamed(own) for own in batch.column("episode_id").to_pylist()],
            "videos": [
                [{**span, "video_id": renamed(span["video_id"])} for span in spans or ()]
                for spans in videos
            ],
        },
    )
