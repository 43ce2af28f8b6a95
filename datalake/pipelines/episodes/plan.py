"""The plan of an ingest: which episodes and video files must be read, once the set is known.

An episode that the set holds with the stamp that the corpus gives it now is done; one whose stamp
is another is replaced, and stays as it was if what took its place is bad; one that the corpus no
longer has is kept and counted. The set is the truth: what was removed from it comes back.

A video file is stored once for each stamp that it had, and never written over: the first time under
the id that the corpus gives it, later under that id with a hash of the stamp behind it. So a
version of the set in which some episodes are replaced already and others not yet is whole, and an
episode that is gone from the corpus keeps the pictures it came with.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from datalake.episodes import EpisodeSet
from datalake.errors import InputError
from datalake.pipelines.episodes.refused import RefusedEpisode, refused
from datalake.pipelines.episodes.settings import EpisodeSettings
from datalake.quarantine import Reason
from datalake.recording import EpisodeCorpus, EpisodeRef, Feature, Finding, Severity, VideoFile
from datalake.tables import Table

__all__ = ["VIDEO_REASONS", "EpisodePlan", "VideoTask", "make_plan"]

VIDEO_REASONS: Final = frozenset(
    {
        Reason.NOT_VIDEO,
        Reason.VIDEO_MISSING,
        Reason.VIDEO_TRUNCATED,
        Reason.VIDEO_LENGTH_MISMATCH,
        Reason.VIDEO_TIMESTAMPS,
    }
)
"""Faults that do not matter where videos are left out."""


@dataclass(frozen=True)
class VideoTask:
    """A video file to store. Picklable and small."""

    file: VideoFile
    stored_id: str
    """Its id in the set."""
    stamp: str
    """As stored."""


@dataclass
class EpisodePlan:
    """What an ingest has to do."""

    features: tuple[Feature, ...]
    """Of the corpus, as far as they are wanted."""
    num_episodes: int = 0
    """Episodes of the whole corpus."""
    num_unchanged: int = 0
    """Those that the set holds as they are."""
    num_vanished: int = 0
    """Episodes of this corpus that the set holds and the corpus no longer has."""
    num_held: int = 0
    """Episodes of this corpus that the set holds."""
    to_do: list[EpisodeRef] = field(default_factory=list)
    """The episodes to read, in the order of the corpus."""
    replaced: set[str] = field(default_factory=set)
    """The ids of those among them that the set holds otherwise."""
    refused: list[RefusedEpisode] = field(default_factory=list)
    """Episodes that cannot be taken, as the metadata alone show."""
    warnings: list[Finding] = field(default_factory=list)
    """What else the metadata show."""
    videos: list[VideoTask] = field(default_factory=list)
    """The files that these episodes need and the set lacks."""
    num_videos_held: int = 0
    """Files that these episodes need and the set has."""
    stored_ids: dict[str, str] = field(default_factory=dict)
    """The id in the set of each video file of the corpus, by its id there."""

    @property
    def num_pending(self) -> int:
        """Episodes that are not done."""
        return len(self.to_do) + len(self.refused)

    @property
    def video_bytes(self) -> int:
        """Bytes of the video files to read."""
        return sum(task.file.size_bytes or 0 for task in self.videos)

    @property
    def num_bytes(self) -> int:
        """About how many bytes of other files there are to read."""
        return sum(ref.num_bytes for ref in self.to_do)


def make_plan(
    corpus: EpisodeCorpus, held: EpisodeSet | None, settings: EpisodeSettings
) -> EpisodePlan:
    """Compare a corpus with the set, by metadata alone.

    Raises:
        InputError: the corpus as a whole cannot be used, or has no episodes.
        StoreError: the store refused or did not answer.
    """
    return _Planner(corpus, held, settings).plan()


class _Planner:
    def __init__(
        self, corpus: EpisodeCorpus, held: EpisodeSet | None, settings: EpisodeSettings
    ) -> None:
        self._corpus = corpus
        self._settings = settings
        self._plan = EpisodePlan(
            tuple(
                feature
                for feature in corpus.features
                if feature.dtype != "video" or not settings.without_video
            )
        )
        self._errors: dict[str, tuple[Finding, ...]] = {}
        # Source and stamp by id.
        self._held: dict[str, tuple[str, str]] = {}
        self._held_videos: dict[str, tuple[str, str]] = {}
        if held is not None:
            self._held = dict(_stamps(held.episodes, "episode_id"))
            self._held_videos = dict(_stamps(held.videos, "video_id"))
        self._files: dict[str, VideoFile] = {}

    def plan(self) -> EpisodePlan:
        self._judge_findings()
        self._check_rate()
        if not self._settings.without_video:
            self._files = {file.video_id: file for file in self._corpus.videos()}
        self._choose_ids()
        self._compare()
        self._choose_videos()
        return self._plan

    def _judge_findings(self) -> None:
        """Take in what the corpus says of its own metadata.

        Raises:
            InputError: the corpus as a whole has errors.
        """
        videos = {feature.name for feature in self._corpus.features if feature.dtype == "video"}
        whole: list[Finding] = []
        for finding in self._corpus.findings():
            if self._settings.without_video and finding.feature in videos:
                continue
            if finding.severity is not Severity.ERROR:
                self._plan.warnings.append(finding)
            elif finding.episode_id is None:
                whole.append(finding)
            else:
                others = self._errors.get(finding.episode_id, ())
                self._errors[finding.episode_id] = (*others, finding)
        if whole:
            first, root = whole[0], self._corpus.root
            raise InputError(
                f"The dataset cannot be ingested as it is [{first.reason}]",
                where=f"{root}: {first.origin}" if first.origin else str(root),
                found=first.detail + (f"; and {len(whole) - 1} more" if whole[1:] else ""),
                fix=f"Mend it; see all that is wrong with: datalake check {root}",
            )

    def _check_rate(self) -> None:
        if not 0 < self._corpus.fps < math.inf:
            raise InputError(
                "The dataset has no frame rate",
                where=str(self._corpus.root),
                expected="frames a second, more than 0",
                found=str(self._corpus.fps),
            )

    def _choose_ids(self) -> None:
        held = self._held_videos
        for video_id, file in self._files.items():
            stamp = self._settings.stamped(file.stamp)
            later = f"{video_id}@{hashlib.md5(stamp.encode()).hexdigest()[:8]}"
            is_first = video_id not in held or held[video_id][1] == stamp
            self._plan.stored_ids[video_id] = video_id if is_first and later not in held else later

    def _compare(self) -> None:
        """Sort the corpus's episodes into done, to do and refused.

        Raises:
            InputError: there are none.
        """
        plan, source = self._plan, self._corpus.source
        seen: set[str] = set()
        num_kept = 0
        for found in self._corpus.episodes():
            ref = replace(found, stamp=self._settings.stamped(found.stamp))
            if self._settings.without_video:
                ref = replace(ref, videos=())
            plan.num_episodes += 1
            is_repeated = ref.episode_id in seen
            seen.add(ref.episode_id)
            theirs, stamp = self._held.get(ref.episode_id, (source, None))
            if stamp is not None and theirs == source and not is_repeated:
                num_kept += 1
                if stamp == ref.stamp:
                    plan.num_unchanged += 1
                    continue
            if (fault := self._fault(ref, is_repeated, theirs)) is not None:
                plan.refused.append(fault)
                continue
            plan.to_do.append(ref)
            if stamp is not None:
                plan.replaced.add(ref.episode_id)
        if not plan.num_episodes:
            raise InputError(
                "The corpus is empty", where=str(self._corpus.root), expected="episodes"
            )
        plan.num_held = sum(theirs == source for theirs, _ in self._held.values())
        plan.num_vanished = plan.num_held - num_kept

    def _fault(self, ref: EpisodeRef, is_repeated: bool, source: str) -> RefusedEpisode | None:
        """Why an episode cannot be taken, as far as the metadata show it."""
        if is_repeated:
            return refused(ref, Reason.DUPLICATE_ID, "an earlier episode of the corpus has the id")
        if source != self._corpus.source:
            return refused(ref, Reason.DUPLICATE_ID, f"an episode of {source} has the id")
        if ref.refusal is not None:
            reason, detail = ref.refusal
            if not (self._settings.without_video and reason in VIDEO_REASONS):
                return refused(ref, reason, detail)
        if ref.episode_id in self._errors:
            return RefusedEpisode(ref.episode_id, ref.episode_index, self._errors[ref.episode_id])
        for span in ref.videos:
            file = self._files.get(span.video_id)
            if file is None or file.size_bytes is None:
                return refused(
                    ref,
                    Reason.VIDEO_MISSING,
                    "the episode's video file is not there",
                    feature=span.feature,
                    origin=span.video_id if file is None else file.path,
                )
        return None

    def _choose_videos(self) -> None:
        """Find the files that episodes need and the set lacks, in the corpus's order."""
        needed = {span.video_id for ref in self._plan.to_do for span in ref.videos}
        for video_id, file in self._files.items():
            if video_id not in needed:
                continue
            stored_id = self._plan.stored_ids[video_id]
            if stored_id in self._held_videos:
                self._plan.num_videos_held += 1
            else:
                stamp = self._settings.stamped(file.stamp)
                self._plan.videos.append(VideoTask(file, stored_id, stamp))


def _stamps(table: Table, key: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for batch in table.scan([key, "source", "stamp"]):
        ids, sources, stamps = (column.to_pylist() for column in batch.columns)
        for row_id, source, stamp in zip(ids, sources, stamps, strict=True):
            yield row_id, (source, stamp or "")
