"""Streams of other rates beside the frames of an episode: sensors and sound, found by time.

    Windows(episodes, {"action": […]}, streams={
        "imu": FrameStream.span(sensors, -0.5, 0.0, 100),
        "audio": AudioStream(recordings, -1.0, 0.0),
    })

A stream gives what stands around the time of a window's frame. All times count in seconds from the
beginning of the episode; what belongs to an episode bears its `episode_id`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.blocks.ahead import Ahead
from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.windows.cameras import Allocate
from datalake.errors import InputError
from datalake.tables import Table
from datalake.telemetry import Meter

__all__ = [
    "AudioStream",
    "FrameStream",
    "Stream",
    "StreamReader",
    "checked_owners",
    "matched",
]

Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FrameStream:
    """Rows of another episode set, or of a table with `episode_id` and `timestamp`.

    A window holds for each column the values of the rows nearest to its times, as
    `<stream>.<column>`, (T, *shape), when those rows are, as `<stream>.timestamp`, (T,) float64,
    and where none is near, as `<stream>_is_pad`, (T,) bool: the nearest row stands in.

    A set is opened at once. A table is read through once, its two columns alone, since its
    episodes have to be found: the rows of an episode must stand together, in the order of time.
    """

    frames: EpisodeSet | Table
    delta_timestamps: Sequence[float] = (0.0,)
    """Seconds from the window's frame, (T,); any, whatever the rates of both."""
    columns: Sequence[str] | None = None
    """Numbers and texts to read; None for all."""
    tolerance_s: float | None = None
    """How far the nearest row may be; None: as far as rows are apart, by the frame rate of a set
    or the mean of an episode of a table."""

    @classmethod
    def span(
        cls,
        frames: EpisodeSet | Table,
        from_s: float,
        to_s: float,
        num_steps: int,
        *,
        columns: Sequence[str] | None = None,
        tolerance_s: float | None = None,
    ) -> FrameStream:
        """So many steps, evenly over [from_s, to_s) around the window's frame, by the nearest row.

        Raises:
            InputError: the span is empty, or no step is to be taken.
        """
        if num_steps < 1 or not from_s < to_s:
            raise InputError(
                "The span of a stream is empty",
                expected="from_s below to_s, and a step or more",
                found=f"{num_steps} steps from {from_s} to {to_s} s",
            )
        steps = from_s + (to_s - from_s) * np.arange(num_steps) / num_steps
        return cls(frames, tuple(steps.tolist()), columns, tolerance_s)


@dataclass(frozen=True)
class AudioStream:
    """The sound around a window's frame, from a table with one recording an episode.

    A window holds it as `<stream>`, float32 (samples,), 0 outside of the recording, and
    `<stream>_is_pad`, bool (samples,), which says where that is. A recording begins with its
    episode.
    """

    table: Table
    """Has `episode_id` and a column of encoded audio."""
    from_s: float
    """Where the span begins, from the window's frame; the end is exclusive."""
    to_s: float
    sample_rate_hz: int = 16_000
    column: str = "audio"

    @property
    def num_samples(self) -> int:
        """Samples of a span: the same for every window."""
        return round((self.to_s - self.from_s) * self.sample_rate_hz)


Stream: TypeAlias = FrameStream | AudioStream


class StreamReader(Protocol):
    """A stream, bound to the episodes of a set. Thread-safe and picklable."""

    def read(
        self, owners: Ints, times_s: npt.NDArray[np.float64], allocate: Allocate
    ) -> dict[str, npt.NDArray[Any]]:
        """What stands around times in episodes.

        Args:
            owners: rows of the episodes table, (n,).
            times_s: seconds from the beginning of each, (n,).
            allocate: for large arrays.

        Returns:
            By key, (n, …).

        Raises:
            InputError: an episode has nothing in the stream, or a value is missing.
            BadAudio: a recording cannot be decoded.
        """
        ...

    def scatter(self, is_scattered: bool) -> None:
        """Whether windows come one here and one there; see `TableReader.scatter`."""
        ...

    def prefetch(self, owners: Ints, times_s: npt.NDArray[np.float64]) -> list[Ahead]:
        """Begin to bring near what `read` will need."""
        ...

    def expect(self, owners: Ints, times_s: npt.NDArray[np.float64], in_s: float) -> None:
        """What these windows read is wanted again in about so many seconds."""
        ...

    def view(self) -> StreamReader:
        """The same stream for another reader of windows, with counts of its own."""
        ...

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        ...

    def prepare_fork(self) -> None:
        """Read what a forked process could not."""
        ...

    def keys(self) -> Mapping[str, str]:
        """The type and shape of each key, as text."""
        ...

    def identity(self) -> Mapping[str, str | int]:
        """Uri and version of what is read."""
        ...


def matched(episode_ids: pa.StringArray, others: pa.Array) -> Ints:
    """For each episode its place among other ids, (episodes,); -1 where it is not there."""
    found: Ints = (
        pc.index_in(episode_ids, value_set=others).fill_null(-1).to_numpy().astype(np.int64)
    )
    return found


def checked_owners(places: Ints, owners: Ints, episode_ids: pa.StringArray, name: str) -> Ints:
    """The places of some episodes in a stream, (n,).

    Raises:
        InputError: one of them has none.
    """
    found = places[owners]
    if (found < 0).any():
        episode = episode_ids[int(owners[found < 0][0])].as_py()
        raise InputError(
            f"The episode {episode} has nothing in the stream {name}",
            fix="Take other rows, or leave the stream out",
        )
    return found
