"""An episode set: three tables that are read and written as one.

A set has the versions of its episodes table. Each of them records, as properties, the versions of
frames and videos that belong to it; so the one commit that writes episodes publishes all three,
and a reader never sees frames without their episode or the reverse. A writer that dies before that
commit leaves versions of frames and videos that no episodes version names; the next writer starts
from those that are named (`EpisodeSet.to_write`).

One writer at a time: of two, the one that publishes later gets a ConflictError, and what it wrote
is never seen. Frames and videos are committed against the version that `to_write` gave
(`expected_version`, or `removing`, which implies it), so that no other writer's rows slip in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.episodes.schema import EPISODES, FRAME_KEYS, VIDEOS, frames_schema
from datalake.errors import (
    ConflictError,
    ExistsError,
    InputError,
    NotFoundError,
    StoreError,
    nearest,
)
from datalake.lake import Lake, Lineage
from datalake.recording import Feature
from datalake.tables import Batches, Piece, RowIndices, Table, VersionInfo

__all__ = [
    "PARTS",
    "EpisodeSet",
    "Index",
    "create_episodes",
    "episode_sets",
    "named_versions",
    "open_episodes",
    "require_set",
    "set_of",
]

_EPISODES: Final = "episodes"
_FRAMES: Final = "frames"
_VIDEOS: Final = "videos"

PARTS: Final = (_EPISODES, _FRAMES, _VIDEOS)
"""What follows a set's name and a dot in the names of its tables."""

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
        """Where each episode's frames are; read once a handle.

        Raises:
            StoreError: the frames are not as many as the episodes promise.
        """
        rows = self.episodes.scan(["episode_id", "length"]).read_all().combine_chunks()
        lengths = rows["length"].to_numpy()
        starts = np.concatenate([[0], np.cumsum(lengths)])
        if starts[-1] != self.frames.count_rows():
            raise StoreError(
                f"The frames of the episode set {self.name} are not those of its episodes",
                where=self.frames.uri,
                expected=f"{starts[-1]:,} frames",
                found=f"{self.frames.count_rows():,}",
                fix="Make an earlier version the latest: datalake episodes restore " + self.name,
            )
        ids = rows["episode_id"]
        return Index(pa.concat_arrays(ids.chunks or [pa.array([], pa.string())]), lengths, starts)

    def rows(
        self, *, episode_ids: Iterable[str] | None = None, where: str | None = None
    ) -> npt.NDArray[np.int64]:
        """Rows of the episodes table: those of ids, in their order; or where a condition holds.

        All of them for neither. Every id must be there, and none may be named twice.

        Raises:
            NotFoundError: there is no episode of an id (names the nearest).
            PredicateError: `where` does not parse.
            SchemaError: it names an unknown column.
            InputError: both are given, or an id twice.
        """
        if episode_ids is not None and where is not None:
            raise InputError("Episodes are chosen by their ids or by a condition, not by both")
        if episode_ids is None:
            found = self.episodes.scan(["episode_id"], where=where, with_row_index=True).read_all()
            return np.asarray(found["row_index"].to_numpy(), np.int64)
        wanted = list(episode_ids)
        ids = self.index.episode_ids
        found = pc.index_in(pa.array(wanted, pa.string()), value_set=ids)
        if found.null_count:
            # Raises, and names the nearest.
            self.index.row_of(wanted[found.to_pylist().index(None)])
        rows = np.asarray(found.to_numpy(), np.int64)
        if len(np.unique(rows)) < len(rows):
            twice = next(each for each in wanted if wanted.count(each) > 1)
            raise InputError("An episode is named twice", where=self.name, found=twice)
        return rows

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
        """The set at a version; None for the latest. An old one stays until it is cleaned up.

        Raises:
            NotFoundError: there is no such version, or its frames are cleaned away.
        """
        return _opened(self.name, self.episodes.at(version), self.frames, self.videos)

    def to_write(self) -> EpisodeSet:
        """This version with what a writer that died left behind undone: where a writer begins.

        Raises:
            ConflictError: the set is not at this version any more, or another writer is at it.
        """
        latest = self.episodes.at().version
        if latest != self.version:
            raise ConflictError(
                f"The episode set {self.name} has changed since it was opened; nothing was written",
                where=self.episodes.uri,
                expected=f"version {self.version}",
                found=f"version {latest}",
                fix="Open the set again and repeat the operation",
            )
        return replace(self, frames=_undone(self.frames), videos=_undone(self.videos))

    def publish(
        self,
        episodes: Sequence[Piece],
        *,
        removing: RowIndices = (),
        frames: Table | None = None,
        videos: Table | None = None,
        features: Sequence[Feature] | None = None,
        lineage: Lineage,
    ) -> EpisodeSet:
        """Append episodes, and with them make these versions of frames and videos the set's.

        Args:
            episodes: staged rows, in the order in which their frames follow each other.
            removing: rows of the episodes table that go; `frames` must lack their frames.
            frames: the frames as they shall be from now on, committed on top of this handle's and
                of nothing else; None leaves them.
            videos: the videos likewise.
            features: all features of the set from now on; None leaves them.
            lineage: what made this version.

        Raises:
            ConflictError: the set is not at this version any more; nothing is published.
        """
        return self._published(
            lambda properties: self.episodes.commit(
                episodes,
                expected_version=self.episodes.version,
                removing=removing if len(removing) else None,
                properties=properties,
            ),
            frames,
            videos,
            features,
            lineage,
        )

    def rewrite(
        self,
        episodes: Batches,
        *,
        frames: Table | None = None,
        videos: Table | None = None,
        features: Sequence[Feature] | None = None,
        lineage: Lineage,
    ) -> EpisodeSet:
        """As `publish`, and the rows of `episodes`, which are streamed, replace all there were.

        Raises:
            ConflictError: the set is not at this version any more; nothing is published.
        """
        return self._published(
            lambda properties: self.episodes.overwrite(episodes, properties=properties),
            frames,
            videos,
            features,
            lineage,
        )

    def compact(self, *, lineage: Lineage) -> EpisodeSet:
        """Rewrite small pieces of the three tables into larger ones; no row changes its place.

        Where there is nothing to gain no version is made.

        Raises:
            ConflictError: the set is not at this version any more; nothing is published.
        """
        properties = lineage.properties()
        frames, videos = (table.compact(properties=properties) for table in self._beside)
        made = self._published(
            lambda properties: self.episodes.compact(properties=properties),
            frames,
            videos,
            None,
            lineage,
        )
        moved = (frames.version, videos.version) != tuple(table.version for table in self._beside)
        if made.version == self.version and moved:
            # The episodes lie well, and must name the new versions all the same.
            return self.publish([], frames=frames, videos=videos, lineage=lineage)
        return made

    def restore(self, *, lineage: Lineage) -> EpisodeSet:
        """Make this version the latest again, as a new version. Moves no data.

        Raises:
            ConflictError: another writer is at it; nothing is published.
        """
        frames, videos = (_undone(table) for table in self._beside)
        return self._published(
            lambda properties: self.episodes.restore(properties=properties),
            frames,
            videos,
            None,
            lineage,
        )

    @property
    def _beside(self) -> tuple[Table, Table]:
        return self.frames, self.videos

    def _published(
        self,
        commit: Callable[[Mapping[str, str]], Table],
        frames: Table | None,
        videos: Table | None,
        features: Sequence[Feature] | None,
        lineage: Lineage,
    ) -> EpisodeSet:
        """The set after `commit` made a version of episodes, whose properties it is given."""
        frames = self.frames if frames is None else frames
        videos = self.videos if videos is None else videos
        features = self.features if features is None else tuple(features)
        for table in (frames, videos):
            table.tag(_PUBLISHING, replace=True)
        episodes = commit({**lineage.properties(), **_properties(frames, videos, features)})
        if episodes.version == self.episodes.version:
            return self
        for table in (frames, videos):
            table.tag(_PUBLISHED, replace=True)
        return EpisodeSet(self.name, episodes, frames, videos, features)


def episode_sets(lake: Lake, tables: Iterable[str] | None = None) -> list[str]:
    """The names of the episode sets of a lake, sorted. Opens none of them.

    Args:
        lake: the lake.
        tables: the names of its tables, if they are known already.
    """
    names = set(lake.tables() if tables is None else tables)
    stems = {name.rpartition(".")[0] for name in names if name.endswith(f".{_EPISODES}")}
    return sorted(stem for stem in stems if all(f"{stem}.{part}" in names for part in PARTS))


def set_of(lake: Lake, table: str) -> str | None:
    """The episode set that a table is a part of; None for any other table."""
    stem, _, part = table.rpartition(".")
    return stem if part in PARTS and stem in episode_sets(lake) else None


def require_set(lake: Lake, name: str) -> None:
    """See that there is an episode set of that name.

    Raises:
        NotFoundError: there is none (names the nearest).
    """
    known = episode_sets(lake)
    if name not in known:
        # A corpus of utterances is a table; somebody who has one may look for it here.
        hint = "There is a table of that name" if name in lake else nearest(name, known)
        raise NotFoundError(f"There is no episode set {name!r}", where=str(lake.location), fix=hint)


def open_episodes(lake: Lake, name: str, version: int | None = None) -> EpisodeSet:
    """Open an episode set, the latest version or an earlier one.

    Raises:
        NotFoundError: there is no such set (names the nearest) or version.
    """
    require_set(lake, name)
    episodes, frames, videos = (lake[f"{name}.{part}"] for part in PARTS)
    return _opened(name, episodes.at(version), frames, videos)


def named_versions(infos: Iterable[VersionInfo]) -> set[tuple[int, int]]:
    """The versions of frames and videos that versions of the episodes table name."""
    return {
        (int(info.properties[_FRAMES_VERSION]), int(info.properties[_VIDEOS_VERSION]))
        for info in infos
        if _FEATURES in info.properties
    }


def create_episodes(
    lake: Lake,
    name: str,
    features: Sequence[Feature],
    *,
    format: str = "lance",  # noqa: A002 - the word everybody uses
    lineage: Lineage,
    annotations: Sequence[pa.Field] = (),
) -> EpisodeSet:
    """Create an empty episode set.

    Args:
        lake: the lake.
        name: its name.
        features: what its episodes have.
        format: of its tables.
        lineage: what makes it.
        annotations: columns of the episodes beyond `EPISODES`, all nullable.

    Raises:
        ExistsError: a table, selection or set has the name.
        InputError: the name or the format is none.
    """
    lake.check_free(name)
    _check_untaken(lake, name)
    _check_features(features, name)
    videos, frames = (
        _emptied(lake, f"{name}.{part}", schema, format, lineage)
        for part, schema in ((_VIDEOS, VIDEOS), (_FRAMES, frames_schema(features)))
    )
    # Episodes come last: until they are there, there is no set, and of two writers one makes them.
    # Their first version names the others already, so that there is no moment at which the set
    # cannot be opened.
    try:
        episodes = lake.create(
            f"{name}.{_EPISODES}",
            pa.schema([*EPISODES, *annotations]),
            format=format,
            lineage=lineage,
            properties=_properties(frames, videos, features),
        )
    except ExistsError:
        # Raises and says so, if it is another writer's set.
        _check_untaken(lake, name)
        raise
    return EpisodeSet(name, episodes, frames, videos, tuple(features)).publish([], lineage=lineage)


def _check_features(features: Sequence[Feature], where: str) -> None:
    columns = [feature.column for feature in features]
    for feature in features:
        if columns.count(feature.column) > 1 or feature.column in FRAME_KEYS.names:
            raise InputError(
                f"The feature {feature.name!r} cannot be kept",
                where=where,
                expected="names that are not taken, each once, also where dots become slashes",
                found=", ".join(sorted(columns)),
            )


def _check_untaken(lake: Lake, name: str) -> None:
    if name in episode_sets(lake):
        raise ExistsError(
            f"The name {name!r} is taken",
            where=str(lake.location),
            found="an episode set of that name",
            fix="Choose another name, or remove it with: datalake rm " + name,
        )


def _emptied(lake: Lake, name: str, schema: pa.Schema, kept_as: str, lineage: Lineage) -> Table:
    """The table, created; or one that lies there without its episodes, emptied.

    It was left behind by a writer that died, or is being made by one that is at work: nothing is
    dropped, so the version that either of the two names holds what it shall hold.
    """
    with suppress(ExistsError):
        return lake.create(name, schema, format=kept_as, lineage=lineage)
    return lake[name].overwrite(schema.empty_table(), properties=lineage.properties())


def _properties(frames: Table, videos: Table, features: Sequence[Feature]) -> Mapping[str, str]:
    return {
        _FRAMES_VERSION: str(frames.version),
        _VIDEOS_VERSION: str(videos.version),
        _FEATURES: Feature.dump(features),
    }


def _opened(name: str, episodes: Table, frames: Table, videos: Table) -> EpisodeSet:
    properties = episodes.info().properties
    if _FEATURES not in properties:
        raise NotFoundError(
            f"Version {episodes.version} of the episode set {name} names no frames",
            where=episodes.uri,
            found="a version that something else than an episode operation made",
            fix="Make an earlier one the latest: datalake episodes restore "
            f"{name} VERSION; see them with: datalake log {name}.{_EPISODES}",
        )
    return EpisodeSet(
        name,
        episodes,
        frames.at(int(properties[_FRAMES_VERSION])),
        videos.at(int(properties[_VIDEOS_VERSION])),
        Feature.load(properties[_FEATURES]),
    )


def _undone(table: Table) -> Table:
    """`table` if it is the latest version, else a new version with its rows."""
    if table.at().version == table.version:
        return table
    return table.restore()
