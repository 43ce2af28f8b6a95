"""The work of a run: the set made ready, video files staged, episodes staged, all published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from datalake.episodes import EpisodeSet, create_episodes, frames_schema
from datalake.episodes.validation import Checks
from datalake.errors import ConflictError, ExistsError
from datalake.lake import Lake, Lineage
from datalake.pipelines.columns import widen
from datalake.pipelines.episodes.features import Fit
from datalake.pipelines.episodes.payloads import write_payloads
from datalake.pipelines.episodes.phase import Phase
from datalake.pipelines.episodes.plan import EpisodePlan
from datalake.pipelines.episodes.publish import EpisodePublisher
from datalake.pipelines.episodes.refused import RefusedEpisode, refused
from datalake.pipelines.episodes.rows import Source
from datalake.pipelines.episodes.settings import EpisodeSettings
from datalake.pipelines.episodes.stage import EpisodeJob, Unit
from datalake.pipelines.episodes.tolerance import Tolerance
from datalake.pipelines.episodes.units import cut
from datalake.pipelines.episodes.videos import VideoJob
from datalake.pipelines.executors import Executor
from datalake.pipelines.run import ProgressSink
from datalake.quarantine import Refusal
from datalake.recording import EpisodeCorpus, EpisodeRef
from datalake.tables import Table
from datalake.uri import Location

__all__ = ["EpisodeWork", "prepare_set"]

_MIB: Final = 1 << 20
_KEPT: Final = "what was published stays"


def prepare_set(
    lake: Lake,
    name: str,
    held: EpisodeSet | None,
    fitted: Fit,
    *,
    format: str | None,  # noqa: A002 - the word everybody uses
    lineage: Lineage,
) -> EpisodeSet:
    """The set, made or changed so that it can hold these features.

    Raises:
        ConflictError: another writer is at it.
    """
    if held is None:
        try:
            return create_episodes(
                lake, name, fitted.features, format=format or "lance", lineage=lineage
            )
        except ExistsError as error:
            raise ConflictError(
                f"Another writer made the episode set {name} at the same time",
                where=error.where,
                fix="Run the same command again when the other one is over",
            ) from error
    ready = held.to_write()
    if fitted.features == held.features:
        return ready
    return ready.publish(
        [],
        frames=_with_columns(ready, fitted, lineage),
        features=fitted.features,
        lineage=lineage,
    )


def _with_columns(episode_set: EpisodeSet, fitted: Fit, lineage: Lineage) -> Table:
    """The frames of the set with the columns of all features that it shall have."""
    if not episode_set.episodes.count_rows():
        # Nothing was taken so far: the set may become another.
        rows = frames_schema(fitted.features).empty_table()
        return episode_set.frames.overwrite(rows, properties=lineage.properties())
    columns = [feature.field() for feature in fitted.added if feature.dtype != "video"]
    return widen(episode_set.frames, pa.schema(columns), lineage.properties())


class EpisodeWork:
    """Does what a plan says, by way of an executor and a publisher."""

    def __init__(
        self,
        corpus: EpisodeCorpus,
        plan: EpisodePlan,
        publisher: EpisodePublisher,
        *,
        settings: EpisodeSettings,
        tolerance: Tolerance,
        executor: Executor,
        workspace: Location,
        progress: ProgressSink | None,
    ) -> None:
        self._corpus = corpus
        self._plan = plan
        self._publisher = publisher
        self._settings = settings
        self._tolerance = tolerance
        self._executor = executor
        self._workspace = workspace
        self._progress = progress
        self._lost: set[str] = set()
        """Ids of episodes whose videos turned out bad."""

    def run(self) -> None:
        """Stage and publish everything.

        Raises:
            LakeError: see `ingest`; what was published stays.
        """
        self._publisher.refuse(self._plan.refused)
        self._stage_videos()
        self._stage_episodes()
        self._publisher.finish(self._corpus.source, frozenset(self._plan.stored_ids.values()))

    # Videos -------------------------------------------------------------------------------------

    def _stage_videos(self) -> None:
        tasks, publisher = self._plan.videos, self._publisher
        if not tasks:
            return
        location = self._workspace.join("videos.arrow")
        units = cut(
            tasks,
            lambda task: task.file.size_bytes or 0,
            num_workers=self._executor.num_workers,
            least_bytes=16 * _MIB,
            most_bytes=256 * _MIB,
            most_items=256,
        )
        job = VideoJob(
            root=self._corpus.root,
            source=self._corpus.source,
            units=location,
            stager=publisher.set.videos.stager(),
            transcode=self._settings.transcode,
        )
        needed_by = self._needed_by()
        progress = Phase(self._progress, 1, "videos", len(tasks))
        with closing(self._executor.run(job, write_payloads(location, units))) as outcomes:
            for unit in outcomes:
                publisher.add_videos(unit)
                bad = self._lose(unit.refused, needed_by)
                publisher.refuse(bad)
                progress.add(unit.num_items, unit.num_bytes, self._tolerance.num_bad)
                if (error := self._tolerance.see(len(bad), bad, kept=_KEPT)) is not None:
                    publisher.publish_videos()
                    raise error
        publisher.publish_videos()

    def _needed_by(self) -> Mapping[str, list[EpisodeRef]]:
        """The episodes to read that need each video file."""
        needed_by: dict[str, list[EpisodeRef]] = {}
        for ref in self._plan.to_do:
            for span in ref.videos:
                needed_by.setdefault(span.video_id, []).append(ref)
        return needed_by

    def _lose(
        self, files: Mapping[str, Refusal], needed_by: Mapping[str, Sequence[EpisodeRef]]
    ) -> list[RefusedEpisode]:
        """The episodes that cannot be taken without these files, each once."""
        found = []
        for video_id, fault in files.items():
            for ref in needed_by[video_id]:
                if ref.episode_id not in self._lost:
                    self._lost.add(ref.episode_id)
                    [feature, *_] = (s.feature for s in ref.videos if s.video_id == video_id)
                    origin = video_id.removeprefix(f"{self._corpus.source}/")
                    found.append(
                        refused(ref, fault.reason, fault.detail, feature=feature, origin=origin)
                    )
        return found

    # Episodes -----------------------------------------------------------------------------------

    def _stage_episodes(self) -> None:
        publisher, episode_set = self._publisher, self._publisher.set
        refs = [ref for ref in self._plan.to_do if ref.episode_id not in self._lost]
        if not refs:
            return
        location = self._workspace.join("episodes.arrow")
        job = EpisodeJob(
            corpus=self._corpus,
            source=Source(
                self._corpus.source,
                self._corpus.embodiment,
                self._corpus.fps,
                self._plan.features,
                stored_ids={},
            ),
            units=location,
            videos=episode_set.videos,
            frames_schema=episode_set.frames.schema,
            frames_stager=episode_set.frames.stager(),
            episodes_schema=episode_set.episodes.schema,
            episodes_stager=episode_set.episodes.stager(),
            checks=Checks(),
            union=self._settings.union,
        )
        num_units = write_payloads(location, self._units(refs, episode_set))
        progress = Phase(self._progress, 2, "episodes", len(refs))
        with closing(self._executor.run(job, num_units)) as outcomes:
            for unit in outcomes:
                publisher.add_episodes(unit)
                error = self._tolerance.see(unit.num_items, unit.refused, kept=_KEPT)
                progress.add(unit.num_items, unit.num_bytes, self._tolerance.num_bad)
                if error is not None:
                    publisher.publish_episodes()
                    raise error
        publisher.publish_episodes()

    def _units(self, refs: Sequence[EpisodeRef], episode_set: EpisodeSet) -> Iterator[Unit]:
        """The work of each unit. Episodes of one file stay together where they fit."""
        stored_ids = self._plan.stored_ids
        rows: dict[str, int] = {}
        if stored_ids:
            ids = episode_set.videos.scan(["video_id"]).read_all().column(0).to_pylist()
            rows = {video_id: row for row, video_id in enumerate(ids)}
        for unit in cut(
            refs,
            lambda ref: ref.num_bytes,
            num_workers=self._executor.num_workers,
            least_bytes=4 * _MIB,
            most_bytes=128 * _MIB,
            most_items=512,
            together=lambda ref: ref.origin.partition(":")[0],
        ):
            needed = {span.video_id for ref in unit for span in ref.videos}
            stored = {video_id: stored_ids[video_id] for video_id in sorted(needed)}
            yield Unit(tuple(unit), {id_: rows[at] for id_, at in stored.items()}, stored)
