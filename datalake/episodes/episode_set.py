"""An episode set: three tables that are read and written as one.

A set has the versions of its episodes table. Each of them records, as properties, the versions of
frames and videos that belong to it; so the one commit that writes episodes publishes all three,
and a reader never sees frames without their episode or the reverse. A writer that dies before that
commit leaves versions of frames and videos that no episodes version names; the next writer starts
from those that are named (`EpisodeSet.to_write`).

One writer at a time: a second one gets a ConflictError and has written nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.schema import EPISODES, VIDEOS, frames_schema
from datalake.errors import NotFoundError, nearest
from datalake.lake import Lake, Lineage
from datalake.recording import Feature
from datalake.tables import Piece, Table

__all__ = ["EpisodeSet", "Index", "create_episodes", "episode_sets", "open_episodes"]

_EPISODES: Final = "episodes"
_FRAMES: Final = "frames"
_VIDEOS: Final = "videos"

_FRAMES_VERSION: Final = "datalake.frames_version"
_VIDEOS_VERSION: Final = "datalake.videos_version"
_FEATURES: Final = "datalake.features"

# Clean-up leaves tagged versions alone.
_PUBLISHED: Final = "published"
_PUBLISHING: Final = "publishing"


@dataclass(frozen=True)
class Index:
    """Where each episode's frames are. Some 100 bytes an episode."""

    episode_ids: pa.StringArray
    lengths: npt.NDArray[np.int64]
    """Frames of each episode, shape (episodes,)."""
    starts: npt.NDArray[np.int64]
    """Row of the frames table at which each begins, and the number of rows; (episodes + 1,)."""

    def row_of(self, episode_id: str) -> int:
        """The episode's row in the episodes table.

        Raises:
            NotFoundError: there is none of that id (names the nearest).
        """
        row = self.episode_ids.index(episode_id).as_py()
        if row < 0:
            raise NotFoundError(
                f"There is no episode {episode_id!r}",
                fix=nearest(episode_id, self.episode_ids.to_pylist()),
            )
        return int(row)

    def episode_at(self, frame_rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The row of the episode that each row of the frames table belongs to; same shape."""
        return np.searchsorted(self.starts, frame_rows, side="right") - 1


@dataclass(frozen=True)
class EpisodeSet:
    """One version of an episode set. Immutable and picklable, as the tables it is made of."""

    name: str
    episodes: Table
    frames: Table
    videos: Table
    features: tuple[Feature, ...]
    """All features that some episode has, videos included."""

    @property
    def version(self) -> int:
        """The version of the set: that of its episodes table."""
        return self.episodes.version

    @cached_property
    def index(self) -> Index:
        """Where each episode's frames are; read once a handle."""
        rows = self.episodes.scan(["episode_id", "length"]).read_all().combine_chunks()
        lengths = rows["length"].to_numpy()
        return Index(
            rows["episode_id"].combine_chunks(),
            lengths,
            np.concatenate([[0], np.cumsum(lengths)]),
        )

    def feature(self, name: str) -> Feature:
        """A feature by name.

        Raises:
            NotFoundError: there is none (names the nearest).
        """
        for feature in self.features:
            if feature.name == name:
                return feature
        known = [feature.name for feature in self.features]
        raise NotFoundError(
            f"There is no feature {name!r}", where=self.name, fix=nearest(name, known)
        )

    def at(self, version: int | None = None) -> EpisodeSet:
        """The set at a version; None for the latest.

        Raises:
            NotFoundError: there is no such version, or its frames are cleaned away.
        """
        return _opened(self.name, self.episodes.at(version), self.frames, self.videos)

    def to_write(self) -> EpisodeSet:
        """The latest version, with what a writer that died left behind undone.

        Raises:
            ConflictError: another writer is at it.
        """
        latest = self.at()
        return EpisodeSet(
            latest.name,
            latest.episodes,
            _undone(latest.frames),
            _undone(latest.videos),
            latest.features,
        )

    def publish(
        self,
        episodes: Sequence[Piece],
        *,
        removing: Sequence[int] = (),
        frames: Table | None = None,
        videos: Table | None = None,
        features: Sequence[Feature] | None = None,
        lineage: Lineage,
    ) -> EpisodeSet:
        """Append episodes, and with them make these versions of frames and videos the set's.

        Args:
            episodes: staged rows, in the order in which their frames follow each other.
            removing: rows of the episodes table that go; `frames` must lack their frames.
            frames: the frames as they shall be from now on; None leaves them.
            videos: the videos likewise.
            features: all features of the set from now on; None leaves them.
            lineage: what made this version.

        Raises:
            ConflictError: the set is not at this version any more; nothing is published.
        """
        frames, videos = frames or self.frames, videos or self.videos
        features = self.features if features is None else features
        return self._published(
            frames,
            videos,
            lambda: self.episodes.commit(
                episodes,
                expected_version=self.episodes.version,
                removing=removing or None,
                properties={**lineage.properties(), **_properties(frames, videos, features)},
            ),
        )

    def rewrite(
        self,
        episodes: pa.Table,
        *,
        frames: Table | None = None,
        videos: Table | None = None,
        features: Sequence[Feature] | None = None,
        lineage: Lineage,
    ) -> EpisodeSet:
        """As `publish`, and the rows of `episodes` replace all that the episodes table had."""
        frames, videos = frames or self.frames, videos or self.videos
        features = self.features if features is None else features
        return self._published(
            frames,
            videos,
            lambda: self.episodes.overwrite(
                episodes,
                properties={**lineage.properties(), **_properties(frames, videos, features)},
            ),
        )

    def _published(self, frames: Table, videos: Table, commit: Callable[[], Table]) -> EpisodeSet:
        for table in (frames, videos):
            table.tag(_PUBLISHING, replace=True)
        episodes = commit()
        for table in (frames, videos):
            table.tag(_PUBLISHED, replace=True)
        return _opened(self.name, episodes, frames, videos)


def episode_sets(lake: Lake) -> list[str]:
    """The names of the episode sets of a lake, sorted."""
    names = set(lake.tables())
    stems = [name.removesuffix(f".{_EPISODES}") for name in names if name.endswith(f".{_EPISODES}")]
    return sorted(stem for stem in stems if f"{stem}.{_FRAMES}" in names)


def open_episodes(lake: Lake, name: str, version: int | None = None) -> EpisodeSet:
    """Open an episode set, the latest version or an earlier one.

    Raises:
        NotFoundError: there is no such set (names the nearest) or version.
    """
    if name not in episode_sets(lake):
        raise NotFoundError(
            f"There is no episode set {name!r}",
            where=str(lake.location),
            fix=nearest(name, episode_sets(lake)),
        )
    episodes, frames, videos = (lake[f"{name}.{part}"] for part in (_EPISODES, _FRAMES, _VIDEOS))
    return _opened(name, episodes.at(version), frames, videos)


def create_episodes(
    lake: Lake,
    name: str,
    features: Sequence[Feature],
    *,
    format: str = "lance",  # noqa: A002 - the word everybody uses
    lineage: Lineage,
) -> EpisodeSet:
    """Create an empty episode set.

    Raises:
        ExistsError: a table, selection or set has the name.
        InputError: the name or the format is none.
    """
    lake.check_free(name)
    # Episodes come last: until they are there, there is no set.
    videos, frames, episodes = (
        _made(lake, f"{name}.{part}", schema, format, lineage)
        for part, schema in (
            (_VIDEOS, VIDEOS),
            (_FRAMES, frames_schema(features)),
            (_EPISODES, EPISODES),
        )
    )
    return EpisodeSet(name, episodes, frames, videos, tuple(features)).publish([], lineage=lineage)


def _made(lake: Lake, name: str, schema: pa.Schema, kept_as: str, lineage: Lineage) -> Table:
    """The table, created; an empty one that a dying writer left behind is dropped first."""
    if name in lake and lake[name].count_rows() == 0:
        lake.drop(name)
    return lake.create(name, schema, format=kept_as, lineage=lineage)


def _properties(frames: Table, videos: Table, features: Sequence[Feature]) -> Mapping[str, str]:
    return {
        _FRAMES_VERSION: str(frames.version),
        _VIDEOS_VERSION: str(videos.version),
        _FEATURES: Feature.dump(features),
    }


def _opened(name: str, episodes: Table, frames: Table, videos: Table) -> EpisodeSet:
    for info in episodes.versions():
        if info.version == episodes.version and _FEATURES in info.properties:
            return EpisodeSet(
                name,
                episodes,
                frames.at(int(info.properties[_FRAMES_VERSION])),
                videos.at(int(info.properties[_VIDEOS_VERSION])),
                Feature.load(info.properties[_FEATURES]),
            )
    raise NotFoundError(
        f"Version {episodes.version} of the episode set {name} names no frames",
        where=episodes.uri,
        found="a version that something else than an episode operation made",
        fix="Open another version; see them with: datalake log " + f"{name}.{_EPISODES}",
    )


def _undone(table: Table) -> Table:
    """`table` if it is the latest version, else a new version with its rows."""
    if table.at().version == table.version:
        return table
    return table.restore()
