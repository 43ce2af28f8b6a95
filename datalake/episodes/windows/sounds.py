"""Reads an `AudioStream`: the sound around windows, from one recording an episode."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.audio import open_clip
from datalake.blocks.ahead import Ahead
from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.episodes.windows.cameras import Allocate
from datalake.episodes.windows.streams import AudioStream, Ints, checked_owners, matched
from datalake.errors import InputError, SchemaError
from datalake.telemetry import Meter

__all__ = ["SoundReader"]

_EPISODE: Final = "episode_id"


class SoundReader:
    """Reads a stream of sound for the episodes of a set. Thread-safe and picklable.

    Holds 16 bytes an episode. A recording that several windows of a batch ask for is opened once.

    Args:
        name: what the stream is called.
        stream: what to read.
        episode_ids: the episodes of the set.
        cache: where blocks of other machines' tables are kept.
        meter: counts and times.

    Raises:
        InputError: the span is empty, or an episode has two recordings.
        SchemaError: the table lacks a column.
    """

    def __init__(
        self,
        name: str,
        stream: AudioStream,
        episode_ids: pa.StringArray,
        *,
        cache: BlockCache | None,
        meter: Meter,
    ) -> None:
        _check(name, stream)
        self._name, self._stream = name, stream
        self._episode_ids = episode_ids
        ids = stream.table.scan([_EPISODE]).read_all()[_EPISODE].combine_chunks()
        self._rows = matched(episode_ids, ids)
        _check_single(ids, episode_ids, stream)
        self._reader = TableReader(stream.table, cache=cache, meter=meter)
        self._meter = meter

    def read(
        self, owners: Ints, times_s: npt.NDArray[np.float64], allocate: Allocate
    ) -> dict[str, npt.NDArray[Any]]:
        """The sound around `times_s`; see `AudioStream`."""
        rows = checked_owners(self._rows, owners, self._episode_ids, self._name)
        rate_hz, length = self._stream.sample_rate_hz, self._stream.num_samples
        firsts = np.floor((times_s + self._stream.from_s) * rate_hz + 0.5).astype(np.int64)
        samples = allocate((len(rows), length), np.float32)
        is_pad = np.ones((len(rows), length), bool)
        recordings, inverse = np.unique(rows, return_inverse=True)
        with self._meter.during("decode", f"sound of {self._name}"):
            for place, data in enumerate(self._reader.views(self._stream.column, recordings)):
                if data is None:
                    raise InputError(
                        f"A recording of the stream {self._name} is missing",
                        where=f"{self._stream.table.uri}, row {recordings[place]}",
                        found="null",
                    )
                clip = open_clip(data, rate_hz)
                for window in np.flatnonzero(inverse == place).tolist():
                    first = int(firsts[window])
                    start, stop = max(first, 0), min(first + length, clip.num_samples)
                    out = samples[window]
                    if start >= stop:
                        out[:] = 0
                        continue
                    begin, end = start - first, stop - first
                    out[:begin], out[end:] = 0, 0
                    clip.write(out[begin:end], start)
                    is_pad[window, begin:end] = False
        return {self._name: samples, f"{self._name}_is_pad": is_pad}

    def scatter(self, is_scattered: bool) -> None:
        """Whether windows come one here and one there; see `TableReader.scatter`."""
        self._reader.scatter(is_scattered, [self._stream.column])

    def prefetch(self, owners: Ints, times_s: npt.NDArray[np.float64]) -> list[Ahead]:
        """Begin to bring the recordings near."""
        del times_s
        rows = self._known(owners)
        return [self._reader.prefetch([self._stream.column], rows)] if len(rows) else []

    def expect(self, owners: Ints, times_s: npt.NDArray[np.float64], in_s: float) -> None:
        """The recordings are wanted again in about so many seconds."""
        del times_s
        rows = self._known(owners)
        if len(rows):
            self._reader.expect([self._stream.column], rows, in_s)

    def view(self) -> SoundReader:
        """The same stream for another reader of windows, with counts of its own."""
        made = copy(self)
        made._reader = self._reader.view()
        made.attach(Meter())
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._meter = meter
        self._reader.attach(meter)

    def prepare_fork(self) -> None:
        """Read what a forked process could not."""
        self._reader.prepare_fork([self._stream.column])

    def keys(self) -> Mapping[str, str]:
        """The type and shape of each key."""
        shape = (self._stream.num_samples,)
        return {
            self._name: f"float32 {shape} {self._stream.sample_rate_hz} Hz",
            f"{self._name}_is_pad": f"bool {shape}",
        }

    def identity(self) -> Mapping[str, str | int]:
        """Uri and version of the table."""
        return {"uri": self._stream.table.uri, "version": self._stream.table.version}

    def _known(self, owners: Ints) -> Ints:
        rows = np.unique(self._rows[owners])
        return rows[rows >= 0]


def _check(name: str, stream: AudioStream) -> None:
    missing = {_EPISODE, stream.column} - set(stream.table.schema.names)
    if missing:
        raise SchemaError(
            "The table cannot be a stream of sound",
            where=stream.table.uri,
            expected=f"columns episode_id and {stream.column} (encoded audio)",
            found=f"no {' and no '.join(sorted(missing))}",
        )
    times_s = (stream.from_s, stream.to_s)
    if not np.isfinite(times_s).all() or stream.num_samples < 1:
        raise InputError(
            f"The span of the stream {name} is empty",
            expected="from_s below to_s by a sample or more",
            found=f"from {stream.from_s} to {stream.to_s} s at {stream.sample_rate_hz} Hz",
        )


def _check_single(ids: pa.Array, episode_ids: pa.StringArray, stream: AudioStream) -> None:
    ours = ids.filter(pc.is_in(ids, value_set=episode_ids))
    if pc.count_distinct(ours).as_py() < len(ours):
        twice = next(
            each["values"].as_py() for each in pc.value_counts(ours) if each["counts"].as_py() > 1
        )
        raise InputError(
            "An episode has several recordings",
            where=stream.table.uri,
            found=f"the episode {twice} in more than one row",
            expected="one recording an episode",
            fix="Make a table of the recordings wanted, or a stream of each microphone",
        )
