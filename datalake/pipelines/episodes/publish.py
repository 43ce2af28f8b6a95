"""Publishing staged units: the driver's half of an ingest, and what a crash at each step costs.

Units are published in groups. A group of videos:

1. Their rows are committed to the videos table, without touching rows that are there.
2. A version of the set is published that has them; no episode refers to them yet.

A group of episodes:

3. Refused episodes are merged into the quarantine table.
4. Their frames are committed, and the frames of the episodes they replace removed, in one version.
5. The episodes are committed likewise; this one commit makes episodes, frames and videos visible.

At the end of a run that saw all episodes:

6. Quarantine rows of faults that are mended go.
7. Video files of this source that neither an episode refers to nor the corpus has go.

*Crash after 1 or 4*: versions that no version of the set names; the next writer goes back behind
them (`EpisodeSet.to_write`), and what was staged for the one group is read again. *Crash after 2*:
the next run finds these files in the set; a terabyte of video that was half read is half done.
*Crash after 3*: the next run writes the same rows over them. *Crash after 5, 6 or 7*: the next run
finds nothing left to do but what follows.

Order: a group's episodes follow each other as in the corpus, and its frames as its episodes. Units
that are staged ahead of an earlier one wait for it, so that the whole run keeps the corpus's order,
unless more than a group's worth of them would wait. Episodes that are replaced, or come in with a
later run, stand at the end.

One writer at a time: a second one gets a ConflictError and has published nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from datalake.episodes import EpisodeSet
from datalake.errors import ConflictError
from datalake.lake import Lineage
from datalake.pipelines.episodes.quarantine import EpisodeQuarantine
from datalake.pipelines.episodes.refused import RefusedEpisode
from datalake.pipelines.episodes.report import EpisodeReport
from datalake.pipelines.episodes.stage import StagedEpisodes
from datalake.pipelines.episodes.videos import StagedVideos
from datalake.tables import Piece, Table

__all__ = ["EpisodePublisher"]

_GROUP_BYTES: Final = 8 << 30
_GROUP_UNITS: Final = 4096


class _Staged(Protocol):
    index: int
    num_bytes: int


class EpisodePublisher:
    """Collects staged units and publishes them in groups. `set` is the set as published last."""

    def __init__(
        self,
        episode_set: EpisodeSet,
        *,
        replaced: frozenset[str],
        quarantine: EpisodeQuarantine | None,
        commit_every_s: float,
        lineage: Lineage,
        report: EpisodeReport,
    ) -> None:
        self.set = episode_set
        self._replaced = replaced
        self._quarantine = quarantine
        self._commit_every_s = commit_every_s
        self._lineage = lineage
        self._report = report
        self._videos: list[StagedVideos] = []
        self._episodes: list[StagedEpisodes] = []
        self._next = 0
        self._since = time.monotonic()

    # Videos -------------------------------------------------------------------------------------

    def add_videos(self, unit: StagedVideos) -> None:
        """Take a staged unit; publish the group if it is large or old enough."""
        self._videos.append(unit)
        if self._is_due(self._videos):
            self.publish_videos()

    def publish_videos(self) -> None:
        """Publish the video files that have been taken so far.

        Raises:
            ConflictError: another writer was faster.
            StoreError: the store refused.
        """
        group = sorted(self._videos, key=lambda unit: unit.index)
        pieces = [piece for unit in group for piece in unit.pieces]
        if pieces:
            videos = self._commit(self.set.videos, pieces)
            self._publish([], videos=videos)
        self._report.num_videos_added += sum(piece.num_rows for piece in pieces)
        self._report.num_bytes += sum(unit.num_bytes for unit in group)
        self._videos = []
        self._since = time.monotonic()

    # Episodes -----------------------------------------------------------------------------------

    def refuse(self, episodes: Sequence[RefusedEpisode]) -> None:
        """Take episodes that are refused without having been read."""
        if self._quarantine is not None:
            self._quarantine.put(episodes)
        self._report.refused.update(str(episode.reason) for episode in episodes)

    def add_episodes(self, unit: StagedEpisodes) -> None:
        """Take a staged unit; publish the group if it is large or old enough."""
        self._episodes.append(unit)
        if self._is_due(self._episodes) and (ready := self._in_order()):
            self._publish_episodes(ready)

    def publish_episodes(self) -> None:
        """Publish the episodes that have been taken so far.

        Raises:
            ConflictError: another writer was faster.
            StoreError: the store refused.
        """
        self._publish_episodes(self._episodes)

    def _in_order(self) -> list[StagedEpisodes]:
        """The units that follow what is published without a gap; all if too much would wait."""
        units = sorted(self._episodes, key=lambda unit: unit.index)
        ready = [unit for nth, unit in enumerate(units) if unit.index == self._next + nth]
        waiting = sum(unit.num_bytes for unit in units[len(ready) :])
        return units if waiting >= _GROUP_BYTES else ready

    def _publish_episodes(self, units: Sequence[StagedEpisodes]) -> None:
        group = sorted(units, key=lambda unit: unit.index)
        self.refuse([episode for unit in group for episode in unit.refused])
        if any(unit.episodes for unit in group):
            self._publish_rows(group)
        self._count(group)
        published = {unit.index for unit in group}
        self._episodes = [unit for unit in self._episodes if unit.index not in published]
        self._next = max([self._next, *(index + 1 for index in published)])
        self._since = time.monotonic()

    def _publish_rows(self, group: Sequence[StagedEpisodes]) -> None:
        replaced = self._replaced.intersection(id_ for unit in group for id_ in unit.episode_ids)
        rows: list[int] = []
        frame_rows = np.empty(0, np.int64)
        if replaced:
            index = self.set.index
            ids = index.episode_ids.to_pylist()
            rows = [row for row, episode_id in enumerate(ids) if episode_id in replaced]
            frame_rows = np.concatenate(
                [np.arange(index.starts[row], index.starts[row + 1]) for row in rows]
            )
        frames = self._commit(
            self.set.frames,
            [piece for unit in group for piece in unit.frames],
            removing=frame_rows if replaced else None,
        )
        self._publish(
            [piece for unit in group for piece in unit.episodes], removing=rows, frames=frames
        )
        self._report.num_replaced += len(rows)
        self._report.num_added += sum(len(unit.episode_ids) for unit in group) - len(rows)

    def _count(self, group: Sequence[StagedEpisodes]) -> None:
        report = self._report
        for unit in group:
            report.num_frames += unit.num_frames
            report.duration_s += unit.duration_s
            report.num_bytes += unit.num_bytes
            report.warn(unit.warnings, unit.examples)

    # The end ------------------------------------------------------------------------------------

    def finish(self, source: str, current: frozenset[str]) -> None:
        """Tidy up after a run that saw all episodes.

        Args:
            source: the corpus's name.
            current: the ids in the set of the files that the corpus has.
        """
        if self._quarantine is not None:
            self._quarantine.resolve()
        self._drop_videos(source, current)

    def _drop_videos(self, source: str, current: frozenset[str]) -> None:
        rows = self.set.videos.scan(["video_id", "source"]).read_all().to_pylist()
        idle = {
            row["video_id"]: number
            for number, row in enumerate(rows)
            if row["source"] == source and row["video_id"] not in current
        }
        if not idle:
            return
        for batch in self.set.episodes.scan(["videos"]):
            for spans in batch.column(0).to_pylist():
                for span in spans or ():
                    idle.pop(span["video_id"], None)
        if idle:
            videos = self._commit(self.set.videos, [], removing=np.array(sorted(idle.values())))
            self._publish([], videos=videos)
            self._report.num_videos_dropped += len(idle)

    # Commits ------------------------------------------------------------------------------------

    def _is_due(self, group: Sequence[_Staged]) -> bool:
        return (
            len(group) >= _GROUP_UNITS
            or time.monotonic() - self._since >= self._commit_every_s
            or sum(unit.num_bytes for unit in group) >= _GROUP_BYTES
        )

    def _commit(
        self, table: Table, pieces: Sequence[Piece], removing: np.ndarray | None = None
    ) -> Table:
        try:
            return table.commit(
                pieces,
                expected_version=table.version,
                removing=removing,
                properties=self._lineage.properties(),
            )
        except ConflictError as error:
            raise _overtaken(self.set, error) from error

    def _publish(
        self,
        episodes: Sequence[Piece],
        *,
        removing: Sequence[int] = (),
        frames: Table | None = None,
        videos: Table | None = None,
    ) -> None:
        try:
            self.set = self.set.publish(
                episodes, removing=removing, frames=frames, videos=videos, lineage=self._lineage
            )
        except ConflictError as error:
            raise _overtaken(self.set, error) from error
        self._report.version_after = self.set.version


def _overtaken(episode_set: EpisodeSet, error: ConflictError) -> ConflictError:
    return ConflictError(
        f"Another writer is at the episode set {episode_set.name}",
        where=error.where or episode_set.episodes.uri,
        found="a version of its making; what this run had published before stays",
        fix="Run the same command again when the other one is over: it goes on where it stopped",
    )
