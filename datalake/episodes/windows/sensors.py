"""Reads a `FrameStream`: the rows of other tables nearest to the times of windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.blocks.ahead import Ahead
from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.windows.cameras import Allocate
from datalake.episodes.windows.columns import feature_of_field, read_feature, value_shape
from datalake.episodes.windows.nearest import Nearest, nearest_rows
from datalake.episodes.windows.streams import FrameStream, Ints, checked_owners, matched
from datalake.errors import InputError, NotFoundError, SchemaError, nearest
from datalake.recording import Feature
from datalake.tables import Table
from datalake.telemetry import Meter

__all__ = ["SensorReader"]

_EPISODE: Final = "episode_id"
_TIME: Final = "timestamp"

Times = npt.NDArray[np.float64]


class SensorReader:
    """Reads a stream of frames for the episodes of a set. Thread-safe and picklable.

    Holds some 50 bytes an episode, and nothing a row.

    Args:
        name: what the stream is called.
        stream: what to read.
        episode_ids: the episodes of the set.
        cache: where blocks of other machines' tables are kept.
        meter: counts and times.

    Raises:
        InputError: there are no offsets; rows of an episode stand apart or run backwards.
        SchemaError: the table lacks `episode_id` or `timestamp`.
        NotFoundError: there is no such column (names the nearest).
    """

    def __init__(
        self,
        name: str,
        stream: FrameStream,
        episode_ids: pa.StringArray,
        *,
        cache: BlockCache | None,
        meter: Meter,
    ) -> None:
        self._name = name
        self._deltas = _deltas(name, stream.delta_timestamps)
        if isinstance(stream.frames, EpisodeSet):
            self._table, known = stream.frames.frames, stream.frames.features
            self._spans = _Spans.of_set(stream.frames)
        else:
            self._table, known = stream.frames, _features(stream.frames)
            self._spans = _Spans.of_table(stream.frames)
        self._features = _chosen(name, known, stream.columns)
        self._tolerance_s = stream.tolerance_s
        self._episode_ids = episode_ids
        self._places = matched(episode_ids, self._spans.episode_ids)
        self._reader = TableReader(self._table, cache=cache, meter=meter)

    def read(self, owners: Ints, times_s: Times, allocate: Allocate) -> dict[str, npt.NDArray[Any]]:
        """The values of the rows nearest to `times_s` and each offset; see `FrameStream`."""
        del allocate  # Numbers of sensors are small.
        places = checked_owners(self._places, owners, self._episode_ids, self._name)
        found, wanted = self._nearest(places, times_s)
        tolerance_s = self._tolerance_s
        far = 1 / self._spans.rates[places] if tolerance_s is None else tolerance_s
        shape = (len(owners), len(self._deltas))
        rows = found.rows.reshape(shape)
        away_s = np.abs(found.times_s - wanted).reshape(shape)
        # Timestamps may have been float32: their rounding is no distance.
        is_pad = away_s > np.reshape(far, (-1, 1)) + 1e-6
        values = {
            f"{self._name}.{feature.name}": read_feature(self._reader, feature, rows)
            for feature in self._features
        }
        return {
            **values,
            f"{self._name}.{_TIME}": found.times_s.reshape(shape),
            f"{self._name}_is_pad": is_pad,
        }

    def scatter(self, is_scattered: bool) -> None:
        """Changes nothing: blocks of numbers and texts are small."""

    def prefetch(self, owners: Ints, times_s: Times) -> list[Ahead]:
        """Begin to bring near the rows that stand there if rows are evenly apart."""
        rows = self._guessed(owners, times_s)
        return [self._reader.prefetch(self._columns, rows)] if len(rows) else []

    def expect(self, owners: Ints, times_s: Times, in_s: float) -> None:
        """The blocks of these windows are wanted again in about so many seconds."""
        rows = self._guessed(owners, times_s)
        if len(rows):
            self._reader.expect(self._columns, rows, in_s)

    def view(self) -> SensorReader:
        """The same stream for another reader of windows, with counts of its own."""
        made = copy(self)
        made._reader = self._reader.view()
        made.attach(Meter())
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._reader.attach(meter)

    def prepare_fork(self) -> None:
        """Read what a forked process could not."""
        self._reader.prepare_fork(self._columns)

    def keys(self) -> Mapping[str, str]:
        """The type and shape of each key."""
        steps = len(self._deltas)
        return {
            **{
                f"{self._name}.{feature.name}": f"{feature.dtype} {(steps, *value_shape(feature))}"
                for feature in self._features
            },
            f"{self._name}.{_TIME}": f"float64 {(steps,)}",
            f"{self._name}_is_pad": f"bool {(steps,)}",
        }

    def identity(self) -> Mapping[str, str | int]:
        """Uri and version of the table."""
        return {"uri": self._table.uri, "version": self._table.version}

    @property
    def _columns(self) -> list[str]:
        return [_TIME, *(feature.column for feature in self._features)]

    def _nearest(self, places: Ints, times_s: Times) -> tuple[Nearest, Times]:
        wanted = (times_s[:, np.newaxis] + self._deltas).ravel()
        each = np.repeat(places, len(self._deltas))
        spans = self._spans
        return nearest_rows(
            wanted,
            spans.starts[each],
            spans.ends[each],
            spans.guess(each, wanted),
            lambda rows: self._reader.numbers(_TIME, rows),
        ), wanted

    def _guessed(self, owners: Ints, times_s: Times) -> Ints:
        places = self._places[owners]
        is_there = places >= 0
        wanted = (times_s[is_there, np.newaxis] + self._deltas).ravel()
        each = np.repeat(places[is_there], len(self._deltas))
        spans = self._spans
        guesses = spans.guess(each, wanted)
        return np.unique(guesses.clip(spans.starts[each], spans.ends[each] - 1))


@dataclass(frozen=True)
class _Spans:
    """Where the rows of each episode are, and when. All arrays are (episodes,)."""

    episode_ids: pa.Array
    starts: Ints
    ends: Ints
    first_s: Times
    """When its first row is, as far as is known without reading."""
    rates: Times
    """Rows a second."""

    @classmethod
    def of_set(cls, episodes: EpisodeSet) -> _Spans:
        index = episodes.index
        fps = episodes.episodes.scan(["fps"]).read_all()["fps"].to_numpy()
        return cls(index.episode_ids, index.starts[:-1], index.starts[1:], np.zeros(len(fps)), fps)

    @classmethod
    def of_table(cls, table: Table) -> _Spans:
        runs = list(_runs(table))
        ids = pa.array([run.episode_id for run in runs], pa.string())
        if pc.count_distinct(ids).as_py() < len(ids):
            repeats = pc.value_counts(ids)
            twice = next(each["values"].as_py() for each in repeats if each["counts"].as_py() > 1)
            raise InputError(
                "The rows of an episode do not stand together",
                where=table.uri,
                found=f"the episode {twice} in several places",
                fix="Write the table again, ordered by episode_id and timestamp",
            )
        starts, ends = (
            np.array([getattr(run, name) for run in runs], np.int64) for name in ("start", "end")
        )
        first_s, last_s = (
            np.array([getattr(run, name) for run in runs]) for name in ("first_s", "last_s")
        )
        extents = last_s - first_s
        rates = np.divide(ends - starts - 1, extents, out=np.ones(len(runs)), where=extents > 0)
        return cls(ids, starts, ends, first_s, rates)

    def guess(self, places: Ints, times_s: Times) -> Ints:
        """The rows that stand at times if rows are evenly apart; they may lie outside."""
        steps = np.floor((times_s - self.first_s[places]) * self.rates[places] + 1e-6)
        return self.starts[places] + steps.clip(-(1 << 40), 1 << 40).astype(np.int64)


@dataclass
class _Run:
    """Rows of one episode that follow each other."""

    episode_id: str
    start: int
    end: int
    first_s: float
    last_s: float


def _runs(table: Table) -> Iterator[_Run]:
    """The runs of equal episode ids, in one pass over two columns."""
    missing = {_EPISODE, _TIME} - set(table.schema.names)
    if missing:
        raise SchemaError(
            "The table cannot be a stream beside episodes",
            where=table.uri,
            expected="columns episode_id and timestamp (seconds from the episode's beginning)",
            found=f"no {' and no '.join(sorted(missing))}",
        )
    row, run = 0, None
    for batch in table.scan([_EPISODE, _TIME]):
        if not batch.num_rows:
            continue
        times = batch[_TIME].cast(pa.float64()).to_numpy(zero_copy_only=False)
        encoded = pc.run_end_encode(batch[_EPISODE])
        ends = encoded.run_ends.to_numpy().astype(np.int64)
        starts = np.append(0, ends[:-1])
        for episode_id, start, end in zip(encoded.values.to_pylist(), starts, ends, strict=True):
            part = times[start:end]
            if run is not None and run.episode_id == episode_id:
                part = np.append(run.last_s, part)
            elif run is not None:
                yield run
                run = None
            if episode_id is None or not (np.diff(part) >= 0).all() or not np.isfinite(part).all():
                raise InputError(
                    "A stream does not run forward in time",
                    where=f"{table.uri}, near row {row + int(start)}, episode {episode_id}",
                    expected="an episode_id, and timestamps that do not fall within the episode",
                )
            if run is None:
                run = _Run(episode_id, row + int(start), 0, float(part[0]), 0.0)
            run.end, run.last_s = row + int(end), float(part[-1])
        row += batch.num_rows
    if run is not None:
        yield run


def _features(table: Table) -> tuple[Feature, ...]:
    found = (feature_of_field(field) for field in table.schema if field.name != _EPISODE)
    return tuple(feature for feature in found if feature is not None and feature.name != _TIME)


def _chosen(
    name: str, known: Sequence[Feature], columns: Sequence[str] | None
) -> tuple[Feature, ...]:
    readable = {f.name: f for f in known if f.dtype not in ("video", "image")}
    if columns is None:
        return tuple(readable.values())
    for column in columns:
        if column not in readable:
            raise NotFoundError(
                f"The stream {name} has no numbers or texts {column!r}",
                fix=nearest(column, readable),
            )
    return tuple(readable[column] for column in dict.fromkeys(columns))


def _deltas(name: str, seconds: Sequence[float]) -> Times:
    deltas = np.asarray(seconds, np.float64)
    if deltas.ndim != 1 or not len(deltas) or not np.isfinite(deltas).all():
        raise InputError(
            f"The offsets of the stream {name} are none",
            expected="a list of seconds",
            found=f"{seconds!r}",
        )
    return deltas
