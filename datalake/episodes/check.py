"""Checking a foreign dataset before any of it is ingested: its metadata, episodes and videos."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import BinaryIO, Final

import numpy as np

from datalake.episodes.statistics import Accumulator, numbers_of
from datalake.episodes.validation import Checks, check_episode
from datalake.errors import InputError, LakeError
from datalake.quarantine import Reason, Refusal
from datalake.recording import (
    BadEpisode,
    EpisodeCorpus,
    EpisodeData,
    EpisodeRef,
    Finding,
    Severity,
    VideoFile,
)
from datalake.tables.failures import translated
from datalake.video import BadVideo, VideoInfo, VideoReader, probe

__all__ = ["check_corpus"]

# So many episodes are asked for at once: a corpus opens what they share once.
_EPISODES_AT_ONCE: Final = 512
_DECODED_SIZE: Final = (16, 16)
_LEARNED: Final = ("action", "observation", "state")


def check_corpus(
    corpus: EpisodeCorpus,
    checks: Checks | None = None,
    *,
    with_video: bool = True,
    deep: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Finding]:
    """All faults of a dataset: of its metadata, of each episode, and of the whole.

    An episode's faults are those that an ingest would quarantine it for (errors) or pass over
    (warnings). Each video file is looked into once, when the first of its episodes is at hand.
    Holds the list of episodes, one episode, and the frame times of the videos at hand.

    Args:
        corpus: the opened dataset.
        checks: the tolerances.
        with_video: look into the video files; without, they need not be there.
        deep: decode every video to its end. Slow, and finds bytes that turned over.
        progress: is told how many episodes are done, and how many there are.

    Raises:
        StoreError: the store refused or did not answer.
        MissingPackageError: there are videos, and av is not installed.
    """
    checks = checks or Checks()
    yield from corpus.findings()
    refs = list(corpus.episodes())
    videos = _Videos(corpus, refs, deep=deep) if with_video else None
    whole = _Whole()
    yield from _same_ids(refs)
    yield from _overlaps(refs, corpus.fps)
    for done, (ref, data) in enumerate(_read(corpus, refs)):
        if isinstance(data, Finding):
            yield data
        else:
            looked = videos.of(ref) if videos else {}
            yield from check_episode(data, fps=corpus.fps, videos=looked, checks=checks)
            yield from whole.add(data)
        if videos:
            yield from videos.leave(ref)
        if progress:
            progress(done + 1, len(refs))
    yield from whole.constant()


def _read(
    corpus: EpisodeCorpus, refs: Sequence[EpisodeRef]
) -> Iterator[tuple[EpisodeRef, EpisodeData | Finding]]:
    """Each episode with its data, or with why there are none."""
    for start in range(0, len(refs), _EPISODES_AT_ONCE):
        chunk = refs[start : start + _EPISODES_AT_ONCE]
        read = corpus.read([ref for ref in chunk if ref.refusal is None])
        for ref in chunk:
            if ref.refusal is not None:
                reason, detail = ref.refusal
                yield ref, _error(ref, reason, detail)
                continue
            found = next(read)
            if isinstance(found, BadEpisode):
                yield ref, _error(ref, found.reason, found.detail, found.frame_index)
            else:
                yield ref, found


def _same_ids(refs: Sequence[EpisodeRef]) -> Iterator[Finding]:
    counted = Counter(ref.episode_id for ref in refs)
    for ref in refs:
        if counted.pop(ref.episode_id, 1) > 1:
            yield _error(ref, Reason.DUPLICATE_ID, "several episodes have this id")


def _overlaps(refs: Sequence[EpisodeRef], fps: float) -> Iterator[Finding]:
    """Episodes whose spans of one video file overlap: one of them has the other's pictures."""
    half = 0.5 / fps if fps > 0 else 0.0
    spans: dict[str, list[tuple[float, float, EpisodeRef]]] = {}
    for ref in refs:
        for span in ref.videos:
            to_s = np.inf if span.to_s is None else span.to_s
            spans.setdefault(span.video_id, []).append((span.from_s, to_s, ref))
    for video_id, found in spans.items():
        found.sort(key=lambda span: span[:2])
        for (_, before_s, before), (from_s, _, ref) in pairwise(found):
            if from_s < before_s - half:
                detail = (
                    f"expected its pictures to begin after those of {before.episode_id},"
                    f" which end at {before_s:.3f} s, found {from_s:.3f} s in {video_id}"
                )
                yield Finding(
                    Reason.METADATA_MISMATCH,
                    Severity.WARNING,
                    detail,
                    ref.episode_id,
                    origin=ref.origin,
                )


class _Videos:
    """What the video files hold; each is looked into once and forgotten after its last episode."""

    def __init__(self, corpus: EpisodeCorpus, refs: Sequence[EpisodeRef], *, deep: bool) -> None:
        self._corpus = corpus
        self._deep = deep
        self._files = {video.video_id: video for video in corpus.videos()}
        self._waiting = Counter(span.video_id for ref in refs for span in ref.videos)
        self._claimed: Counter[str] = Counter()
        self._open_ended: set[str] = set()
        self._found: dict[str, VideoInfo | Refusal] = {}

    def of(self, ref: EpisodeRef) -> dict[str, VideoInfo | Refusal]:
        """What is in the videos of an episode."""
        for span in ref.videos:
            if span.video_id not in self._found:
                self._found[span.video_id] = self._look(span.video_id)
        return {span.video_id: self._found[span.video_id] for span in ref.videos}

    def leave(self, ref: EpisodeRef) -> Iterator[Finding]:
        """Be done with an episode; of a video that no more of them need, what is left over."""
        for span in ref.videos:
            self._waiting[span.video_id] -= 1
            self._claimed[span.video_id] += ref.length or 0
            if span.to_s is None or ref.length is None:
                self._open_ended.add(span.video_id)
            if self._waiting[span.video_id] == 0:
                found = self._found.pop(span.video_id, None)
                if isinstance(found, VideoInfo):
                    yield from self._left_over(span.video_id, found)

    def _left_over(self, video_id: str, found: VideoInfo) -> Iterator[Finding]:
        left = found.num_frames - self._claimed[video_id]
        if left > 0 and video_id not in self._open_ended:
            video = self._files[video_id]
            detail = (
                f"{left:,} of its {found.num_frames:,} frames are no episode's, as if the metadata"
                " had lost some"
            )
            yield Finding(
                Reason.VIDEO_LENGTH_MISMATCH,
                Severity.WARNING,
                detail,
                feature=video.feature,
                origin=video.path,
            )

    def _look(self, video_id: str) -> VideoInfo | Refusal:
        video = self._files.get(video_id)
        if video is None or video.size_bytes is None:
            where = video_id if video is None else video.path
            return Refusal(Reason.VIDEO_MISSING, f"{where} is not there")
        try:
            with self._open(video) as file:
                return self._looked_into(video, file)
        except BadVideo as error:
            reason, detail = error.refusal.reason, error.refusal.detail
            return Refusal(reason, f"{video.path}: {detail}")
        except LakeError:
            raise  # The store's, some of which are of the kinds below.
        except FileNotFoundError:
            return Refusal(Reason.VIDEO_MISSING, f"{video.path} is not there")
        except PermissionError as error:
            return Refusal(Reason.UNREADABLE, f"{video.path}: {error.strerror or error}")

    def _open(self, video: VideoFile) -> BinaryIO:
        filesystem, base = self._corpus.root.filesystem()
        opened: BinaryIO = filesystem.open(posixpath.join(base, video.path), "rb")
        return opened

    def _looked_into(self, video: VideoFile, file: BinaryIO) -> VideoInfo:
        with translated(self._corpus.root.join(video.path), "Looking into a video"):
            found = probe(file)
            if self._deep:
                file.seek(0)
                with VideoReader(file, found, size=_DECODED_SIZE) as reader:
                    for _ in reader:
                        pass
            return found


class _Whole:
    """What shows only over all episodes."""

    def __init__(self) -> None:
        self._moments: dict[str, Accumulator] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._next_index: int | None = None
        self._next_episode = -1

    def add(self, data: EpisodeData) -> Iterator[Finding]:
        """Take in an episode; its `index` must go on where the one before it ended."""
        yield from self._jumps(data)
        for feature in data.features:
            if not feature.dtype.startswith("float") or not feature.name.startswith(_LEARNED):
                continue
            if feature.name not in data.frames.column_names:
                continue
            try:
                values = numbers_of(data.frames[feature.name])
            except InputError:
                # Named by the episode's rules.
                continue
            if values.shape[1] == feature.num_elements:
                moments = self._moments.setdefault(feature.name, Accumulator(values.shape[1]))
                if len(moments.counts) == values.shape[1]:
                    moments.add(values)
                    self._names[feature.name] = feature.names

    def constant(self) -> Iterator[Finding]:
        """Elements that never change: whoever normalises by their std divides by 0."""
        for name, moments in self._moments.items():
            still = np.flatnonzero((moments.min == moments.max) & (moments.counts > 1))
            if not len(still):
                continue
            names = self._names[name]
            named = len(names) == len(moments.counts)
            shown = [names[i] if named else str(i) for i in still[:5]]
            more = f" and {len(still) - 5} more" if len(still) > 5 else ""
            detail = (
                f"{len(still)} of {len(moments.counts)} elements never change in any episode"
                f" ({', '.join(shown)}{more}): their std is 0, and normalising divides by it"
            )
            yield Finding(Reason.CONSTANT, Severity.WARNING, detail, feature=name)

    def _jumps(self, data: EpisodeData) -> Iterator[Finding]:
        ref, frames = data.ref, data.frames
        if not frames.num_rows or "index" not in frames.column_names:
            return
        first, last = frames["index"][0].as_py(), frames["index"][-1].as_py()
        if not isinstance(first, int) or not isinstance(last, int):
            return
        expected = 0 if ref.episode_index == 0 else self._next_index
        follows = ref.episode_index in (0, self._next_episode)
        if follows and expected is not None and first != expected:
            detail = f"expected index to go on with {expected} after the episode before it"
            yield Finding(
                Reason.INDEX_GAP,
                Severity.WARNING,
                f"{detail}, found {first}",
                ref.episode_id,
                0,
                "index",
                ref.origin,
            )
        self._next_index, self._next_episode = last + 1, ref.episode_index + 1


def _error(ref: EpisodeRef, reason: Reason, detail: str, frame_index: int | None = None) -> Finding:
    return Finding(reason, Severity.ERROR, detail, ref.episode_id, frame_index, origin=ref.origin)
