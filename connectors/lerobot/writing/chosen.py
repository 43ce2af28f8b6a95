"""The episodes of an export: what is known of all, and their frames in LeRobot's columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.lerobot.writing.features import BOOKKEEPING_FEATURES, parquet_column, parquet_schema
from connectors.lerobot.writing.limits import check_features, check_same_features
from connectors.lerobot.writing.tasks import Tasks, number_tasks
from datalake.episodes import EpisodeSet
from datalake.episodes.walk import walk
from datalake.errors import InputError
from datalake.recording import Feature

__all__ = ["Chosen", "Spans", "choose"]

_LOOKED_AT: Final = (
    "episode_id",
    "embodiment",
    "split",
    "fps",
    "length",
    "max_timestamp_error_s",
    "tasks",
    "features",
    "videos",
)
# Rows of the episodes table that are held at once.
_AT_ONCE: Final = 1024
_OWN: Final = ("timestamp", "task_index")
_LARGEST: Final = (1 << 63) - 1

# Timestamps in single precision are this far from their formula within a minute or two.
_ROUNDING_S: Final = 5e-6


@dataclass(frozen=True)
class Spans:
    """Where the episodes are in the video files of one camera; arrays of shape (episodes,)."""

    video_ids: tuple[str, ...]
    files: npt.NDArray[np.int64]
    """Places in `video_ids`."""
    from_s: npt.NDArray[np.float64]

    def by_file(self) -> list[list[int]]:
        """The episodes in each of `video_ids`, ascending."""
        order = np.argsort(self.files, kind="stable")
        counts = np.bincount(self.files, minlength=len(self.video_ids))
        return [part.tolist() for part in np.split(order, np.cumsum(counts)[:-1])]


@dataclass(frozen=True)
class Chosen:
    """The episodes of an export, in its order. Some hundred bytes each."""

    source: EpisodeSet
    rows: npt.NDArray[np.int64]
    """Their rows in the episodes table, (episodes,)."""
    lengths: npt.NDArray[np.int64]
    timestamp_errors_s: npt.NDArray[np.float64]
    """The largest difference between a timestamp and frame_index / fps, (episodes,)."""
    fps: float
    robot_type: str | None
    features: tuple[Feature, ...]
    """Without those that number and time the frames."""
    tasks: Tasks
    spans: Mapping[str, Spans]
    """By camera."""
    splits: Mapping[str, tuple[int, int]]
    """First episode and the one after the last."""
    notes: tuple[str, ...]

    @property
    def num_frames(self) -> int:
        """Frames of all episodes."""
        return int(self.starts[-1])

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """The `index` at which each episode begins, and the number of frames; (episodes + 1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of a data file."""
        return parquet_schema([*self.features, *BOOKKEEPING_FEATURES])

    def timestamps(self, episode: int) -> npt.NDArray[np.float64]:
        """The timestamps of an episode as they will be read again, in seconds, (length,).

        They are read only where they are not frame_index / fps, as of a camera that runs at 29.97
        frames a second in a dataset that says 30.
        """
        length = int(self.lengths[episode])
        if self.timestamp_errors_s[episode] <= _ROUNDING_S:
            times = np.arange(length) / self.fps
        else:
            start = int(self.source.index.starts[self.rows[episode]])
            column = self.source.frames.take(range(start, start + length), ["timestamp"])
            times = column["timestamp"].to_numpy()
        # Written in single precision.
        return times.astype(np.float32).astype(np.float64)

    def feature(self, name: str) -> Feature:
        """A feature by name."""
        return next(feature for feature in self.features if feature.name == name)

    def frames(self) -> Iterator[pa.Table]:
        """The rows of a data file, one episode after the other.

        Raises:
            InputError: a frame lacks a value.
        """
        stored = [feature for feature in self.features if feature.dtype != "video"]
        columns = [*_OWN, *(feature.column for feature in stored)]
        for number, frames in enumerate(walk(self.source, self.rows, columns)):
            yield self._as_written(number, frames, stored)

    def _as_written(self, number: int, frames: pa.Table, stored: list[Feature]) -> pa.Table:
        length = frames.num_rows
        arrays: list[pa.Array | pa.ChunkedArray] = []
        for feature in stored:
            values = frames[feature.column].combine_chunks()
            self._check_values(number, feature, values)
            arrays.append(parquet_column(feature, values))
        first = int(self.starts[number])
        task_index = self.tasks.renumbered(number, frames["task_index"].combine_chunks())
        arrays += [
            frames["timestamp"].combine_chunks().cast(pa.float32(), safe=False),
            pa.array(np.arange(length)),
            pa.array(np.full(length, number)),
            pa.array(np.arange(first, first + length)),
            pa.array(task_index),
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _check_values(self, number: int, feature: Feature, values: pa.Array) -> None:
        flat = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
        found = None
        if values.null_count or flat.null_count:
            found = "frames without a value, and LeRobot knows no gaps"
        elif feature.dtype == "uint64" and pc.max(flat).as_py() > _LARGEST:
            found = "numbers above 2**63 - 1, which torch does not take"
        if found:
            raise InputError(
                f"LeRobot cannot hold the values of {feature.name}",
                where=f"{self.source.name}, episode {self.id_of(number)}",
                found=found,
                fix="Leave the episode out with --where or --episodes, or drop the feature:"
                " datalake episodes drop-feature",
            )

    def tables_of_episodes(self, columns: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """Columns of the episodes table in runs, and the number of each run's first episode."""
        for start in range(0, len(self.rows), _AT_ONCE):
            yield start, self.source.episodes.take(self.rows[start : start + _AT_ONCE], columns)

    def rows_of_episodes(self, columns: list[str]) -> Iterator[dict[str, Any]]:
        """Columns of the episodes table, an episode at a time."""
        for _, table in self.tables_of_episodes(columns):
            for batch in table.to_batches(max_chunksize=64):
                yield from batch.to_pylist()

    def id_of(self, number: int) -> str:
        """The id of an episode in the lake."""
        return str(self.source.index.episode_ids[int(self.rows[number])])


def choose(episodes: EpisodeSet, rows: npt.NDArray[np.int64], *, by_split: bool) -> Chosen:
    """Look at the episodes of an export, and see that one LeRobot dataset can hold them.

    Raises:
        InputError: it cannot; says why and what would help.
    """
    rows, splits = _ordered(episodes, rows) if by_split else (rows, {"train": (0, len(rows))})
    survey = _Survey(episodes)
    tasks = number_tasks(
        [(each["task_index"], each["task"] or "") for each in found or ()]
        for found in survey.run(rows)
    )
    fps, features = survey.fps, survey.features
    notes = []
    if len(survey.embodiments) > 1:
        named = ", ".join(sorted(map(str, survey.embodiments)))
        notes.append(f"robot_type is null: the episodes are of several embodiments ({named})")
    if "" in tasks.texts:
        notes.append("Some episodes have no task: theirs is the empty text")
    if fps != int(fps):
        notes.append(
            f"fps is {fps:g}: lerobot 0.4 reads it, though its format means a whole number, and its"
            " converter from 2.1 to 3.0 cuts the fraction off"
        )
    check_features(features, episodes.name)
    return Chosen(
        episodes,
        rows,
        survey.lengths(),
        survey.timestamp_errors_s(),
        fps,
        next(iter(survey.embodiments)) if len(survey.embodiments) == 1 else None,
        features,
        tasks,
        survey.spans(),
        splits,
        tuple(notes),
    )


def _ordered(
    episodes: EpisodeSet, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], dict[str, tuple[int, int]]]:
    """The rows split by split, in the order in which the splits appear; LeRobot's are ranges."""
    names = episodes.episodes.take(rows, ["split"])["split"].to_pylist()
    members: dict[str, list[int]] = {}
    for name, row in zip(names, rows.tolist(), strict=True):
        members.setdefault(name or "train", []).append(row)
    splits, start = {}, 0
    for name, own in members.items():
        splits[name] = (start, start + len(own))
        start += len(own)
    return np.concatenate([np.array(own, np.int64) for own in members.values()]), splits


class _Survey:
    """One look at the rows of all episodes."""

    def __init__(self, episodes: EpisodeSet) -> None:
        self._episodes = episodes
        self.embodiments: dict[str | None, None] = {}
        self.fps = 0.0
        self.features: tuple[Feature, ...] = ()
        self._first_id = ""
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._errors_s: list[npt.NDArray[np.float64]] = []
        self._ids: dict[str, dict[str, int]] = {}
        self._spans: dict[str, tuple[list[int], list[float]]] = {}

    def run(self, rows: npt.NDArray[np.int64]) -> Iterator[list[dict[str, Any]] | None]:
        """The tasks of each episode; the rest is kept."""
        first_features: pa.Array | None = None
        for start in range(0, len(rows), _AT_ONCE):
            table = self._episodes.episodes.take(rows[start : start + _AT_ONCE], list(_LOOKED_AT))
            table = table.combine_chunks()
            features = table["features"].combine_chunks()
            if first_features is None:
                first_features = features[:1]
                self.features = _features(features, 0)
                self.fps = table["fps"][0].as_py()
                self._first_id = table["episode_id"][0].as_py()
                for feature in self.features:
                    if feature.dtype == "video":
                        self._ids[feature.name] = {}
                        self._spans[feature.name] = ([], [])
            ids = table["episode_id"].to_pylist()
            for row, episode_id in enumerate(ids):
                # Comparing Arrow's arrays is quick, and nearly all of them are equal.
                if not features[row : row + 1].equals(first_features):
                    check_same_features(
                        self.features,
                        self._first_id,
                        _features(features, row),
                        episode_id,
                        self._episodes.name,
                    )
            self._check_frames(table, ids)
            self.embodiments.update(dict.fromkeys(table["embodiment"].unique().to_pylist()))
            self._lengths.append(table["length"].to_numpy())
            self._errors_s.append(table["max_timestamp_error_s"].fill_null(0.0).to_numpy())
            for episode_id, spans in zip(ids, table["videos"].to_pylist(), strict=True):
                self._note_spans(episode_id, spans or ())
            yield from table["tasks"].to_pylist()

    def lengths(self) -> npt.NDArray[np.int64]:
        """Frames of each episode."""
        return np.concatenate(self._lengths)

    def timestamp_errors_s(self) -> npt.NDArray[np.float64]:
        """How far the timestamps of each episode are from frame_index / fps."""
        return np.concatenate(self._errors_s)

    def spans(self) -> dict[str, Spans]:
        """Where the episodes are in the files of each camera."""
        return {
            camera: Spans(tuple(self._ids[camera]), np.array(files, np.int64), np.array(from_s))
            for camera, (files, from_s) in self._spans.items()
        }

    def _check_frames(self, table: pa.Table, ids: list[str]) -> None:
        for episode_id, fps, length in zip(
            ids, table["fps"].to_pylist(), table["length"].to_pylist(), strict=True
        ):
            if fps != self.fps or fps <= 0:
                raise InputError(
                    "A LeRobot dataset has one frame rate",
                    where=self._episodes.name,
                    found=f"{self.fps:g} fps in {self._first_id}, {fps:g} in {episode_id}",
                    fix=f"Export the episodes apart, such as with --where 'fps = {self.fps:g}'",
                )
            if length < 1:
                raise InputError(
                    "LeRobot knows no episode without frames",
                    where=self._episodes.name,
                    found=episode_id,
                    fix="Leave it out with --where 'length > 0'",
                )

    def _note_spans(self, episode_id: str, found: Any) -> None:
        spans = {span["feature"]: span for span in found}
        for camera, (files, from_s) in self._spans.items():
            span = spans.get(camera)
            if span is None:
                raise InputError(
                    "A LeRobot dataset has every camera in every episode",
                    where=self._episodes.name,
                    found=f"no video of {camera} in {episode_id}",
                    fix="Leave the episode out with --where or --episodes, or drop the feature:"
                    " datalake episodes drop-feature",
                )
            ids = self._ids[camera]
            files.append(ids.setdefault(span["video_id"], len(ids)))
            from_s.append(span["from_s"] or 0.0)


def _features(column: pa.Array, row: int) -> tuple[Feature, ...]:
    return tuple(Feature.from_row(each) for each in column[row].as_py() or ())
