"""What a worker does with a unit of episodes: read, check, and stage frames and episode rows.

Memory: one episode and its copy in the table's writer, and a few kilobytes for the row of each
episode of the unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from datalake.episodes.validation import Checks, check_episode
from datalake.pipelines.episodes.payloads import read_payload
from datalake.pipelines.episodes.refused import RefusedEpisode, refused
from datalake.pipelines.episodes.rows import Source, episode_row, frame_rows, misfit
from datalake.quarantine import Reason, Refusal
from datalake.recording import (
    BadEpisode,
    EpisodeCorpus,
    EpisodeData,
    EpisodeRef,
    Finding,
    Severity,
)
from datalake.tables import Piece, Stager, Table
from datalake.tables.failures import translated
from datalake.uri import Location
from datalake.video import VideoInfo

__all__ = ["EpisodeJob", "StagedEpisodes", "Unit", "stage_episodes"]

_EXAMPLES: Final = 5
"""Warnings of each reason that a unit brings back; the others are only counted."""


@dataclass(frozen=True)
class Unit:
    """Episodes to read, and where the facts about their videos are. Picklable and small."""

    refs: tuple[EpisodeRef, ...]
    video_rows: Mapping[str, int]
    """The row of the videos table of each file that they need, by its id in the corpus."""
    stored_ids: Mapping[str, str]
    """The id in the set of each of these files."""


@dataclass
class StagedEpisodes:
    """What became of a unit. Picklable and small: rows travel by way of the store."""

    index: int
    frames: list[Piece] = field(default_factory=list)
    """The frames of the episodes, one episode after the other."""
    episodes: list[Piece] = field(default_factory=list)
    """The episodes, in that order."""
    episode_ids: list[str] = field(default_factory=list)
    """Likewise."""
    num_items: int = 0
    """Episodes looked at."""
    num_frames: int = 0
    duration_s: float = 0.0
    num_bytes: int = 0
    """About how many bytes were read."""
    refused: list[RefusedEpisode] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    """Findings that are no errors, by reason."""
    examples: list[Finding] = field(default_factory=list)
    """Some of them."""


@dataclass(frozen=True)
class EpisodeJob:
    """What all units of episodes share. Picklable."""

    corpus: EpisodeCorpus
    source: Source
    units: Location
    """`Unit` by number."""
    videos: Table
    """The videos of the set."""
    frames_schema: pa.Schema
    frames_stager: Stager
    episodes_schema: pa.Schema
    """Of the table as it is: columns that an ingest cannot fill are null in what it brings."""
    episodes_stager: Stager
    checks: Checks
    union: bool

    def stage(self, index: int) -> StagedEpisodes:
        """Read, check and stage the episodes of a unit.

        Raises:
            StoreError: the store refused to give or to take.
        """
        return stage_episodes(self, index)


def stage_episodes(job: EpisodeJob, index: int) -> StagedEpisodes:
    """Stage the rows of unit `index`. Publishes nothing."""
    return _Staging(job, index).run()


class _Staging:
    def __init__(self, job: EpisodeJob, index: int) -> None:
        unit: Unit = read_payload(job.units, index)
        self._job = job
        self._refs = unit.refs
        self._source = replace(job.source, stored_ids=unit.stored_ids)
        self._videos = _infos(job.videos, unit.video_rows)
        self._names = {feature.name for feature in job.source.features}
        self._rows: list[dict[str, Any]] = []
        self._staged = StagedEpisodes(index, num_items=len(unit.refs))
        self._staged.num_bytes = sum(ref.num_bytes for ref in unit.refs)

    def run(self) -> StagedEpisodes:
        staged = self._staged
        staged.frames = self._job.frames_stager.write(self._frames())
        if self._rows:
            rows = pa.RecordBatch.from_pylist(self._rows, self._job.episodes_schema)
            staged.episodes = self._job.episodes_stager.write(rows)
        return staged

    def _frames(self) -> Iterator[pa.RecordBatch]:
        """The frames of the episodes that turn out good; the others are refused."""
        for ref, found in self._read():
            if isinstance(found, BadEpisode):
                fault = refused(ref, found.reason, found.detail, frame_index=found.frame_index)
                self._staged.refused.append(fault)
                continue
            data = self._wanted(found, ref)
            if (bad := self._judge(data)) is not None:
                self._staged.refused.append(bad)
                continue
            frames = frame_rows(data, self._job.frames_schema)
            row = episode_row(data, frames, self._source)
            self._rows.append(row)
            self._staged.episode_ids.append(ref.episode_id)
            self._staged.num_frames += frames.num_rows
            self._staged.duration_s += row["duration_s"]
            yield from frames.to_batches()

    def _read(self) -> Iterator[tuple[EpisodeRef, EpisodeData | BadEpisode]]:
        corpus = self._job.corpus
        found = iter(corpus.read(self._refs))
        for ref in self._refs:
            # An error that the connector did not foresee names the episode at least.
            with translated(corpus.root.join(ref.origin), "Reading an episode"):
                data = next(found)
            yield ref, data

    def _wanted(self, data: EpisodeData, ref: EpisodeRef) -> EpisodeData:
        """The episode without the features that are not wanted (videos, on request)."""
        features = tuple(
            feature
            for feature in data.features
            if feature.dtype != "video" or feature.name in self._names
        )
        return replace(data, ref=ref, features=features)

    def _judge(self, data: EpisodeData) -> RefusedEpisode | None:
        ref = data.ref
        findings = check_episode(
            data, fps=self._source.fps, videos=self._videos, checks=self._job.checks
        )
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if errors:
            return RefusedEpisode(ref.episode_id, ref.episode_index, tuple(errors))
        if (fault := misfit(data, self._source, union=self._job.union)) is not None:
            return refused(ref, fault.reason, fault.detail)
        if not data.frames.num_rows:
            return refused(ref, Reason.EMPTY, "the episode has no frames")
        for finding in findings:
            self._staged.warnings[str(finding.reason)] += 1
            if self._staged.warnings[str(finding.reason)] <= _EXAMPLES:
                self._staged.examples.append(finding)
        return None


def _infos(videos: Table, rows: Mapping[str, int]) -> dict[str, VideoInfo | Refusal]:
    """What the set knows of video files, by their ids in the corpus; the files stay unread."""
    if not rows:
        return {}
    columns = [name for name in videos.schema.names if name != "video"]
    found: Sequence[dict[str, Any]] = videos.take(list(rows.values()), columns).to_pylist()
    return {video_id: VideoInfo.from_row(row) for video_id, row in zip(rows, found, strict=True)}
