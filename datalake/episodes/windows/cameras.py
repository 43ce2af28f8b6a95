"""Frames of episodes from the videos they lie in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from threading import local
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.blocks.ahead import Ahead
from datalake.blocks.cache import BlockCache
from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.windows.films import Films
from datalake.episodes.windows.kept import KeptFrames
from datalake.episodes.windows.spans import Spans
from datalake.errors import InputError
from datalake.quarantine import Refusal
from datalake.recording import Feature
from datalake.telemetry import Meter
from datalake.video import BadVideo, Converter, DecoderPool, Pictures, VideoInfo

__all__ = ["Allocate", "Cameras", "Failure", "Wanted"]

Wanted: TypeAlias = dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]
"""For each camera rows of episodes and times in them, in seconds, (m,)."""

Allocate: TypeAlias = Callable[[Sequence[int], npt.DTypeLike], npt.NDArray[Any]]
"""Where arrays come from: `numpy.empty`, or a pool of buffers."""

# Pieces of a call's work for each thread, so that none waits long for the others.
_PIECES: Final = 4


@dataclass(frozen=True)
class Failure:
    """Pictures that could not be had."""

    camera: str
    places: npt.NDArray[np.int64]
    """Which of the camera's pictures, (k,)."""
    error: InputError


@dataclass(frozen=True)
class _Group:
    """The pictures that one group of one video has to give."""

    camera: str
    video: int
    """A row of the videos table."""
    video_id: str
    info: VideoInfo
    group: int
    numbers: npt.NDArray[np.int64]
    """Frames of the video, ascending, repeats allowed, (k,)."""
    places: npt.NDArray[np.int64]
    """Where each goes among the camera's pictures, (k,)."""
    pictures: Pictures


class Cameras:
    """Decodes the pictures that windows want, each group of pictures once a call.

    Safe to use in several threads. Picklable; a copy, and a forked process, has decoders and
    threads of its own.

    Args:
        episodes: the set, at a version.
        features: its cameras.
        tolerance_s: how far a frame may be from its time.
        size: (width, height) to resize to as frames are converted.
        cache_bytes: facts and indexes of videos that stay in memory, and their encoded bytes where
            they can be had only whole; those used last.
        decoded_bytes: decoded frames that stay until they are used, as the decoder leaves them
            (1.5 bytes a pixel for most). To get to a frame means to decode others of its group: in
            an order that comes back to a group soon, or where much of a set fits, each group is
            then decoded once.
        num_threads: groups decoded side by side; 1 works in the calling thread.
        cache: where parts of videos on a store are kept; None for the one in the default place.
    """

    def __init__(
        self,
        episodes: EpisodeSet,
        features: Sequence[Feature],
        *,
        tolerance_s: float,
        size: tuple[int, int] | None,
        cache_bytes: int,
        num_threads: int,
        decoded_bytes: int = 0,
        cache: BlockCache | None = None,
    ) -> None:
        self._spans = Spans(episodes, [feature.name for feature in features])
        self._declared = {feature.name: feature.shape for feature in features}
        self._tolerance_s = tolerance_s
        self._size = size
        self._num_threads = num_threads
        self._decoded_bytes = decoded_bytes
        self._films = Films(episodes.videos, cache_bytes, cache)
        self._meter = Meter()
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        left = ("_pool", "_kept", "_threads", "_of_thread", "_process")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._pool = DecoderPool(2 * self._num_threads)
        self._kept = KeptFrames(self._decoded_bytes) if self._decoded_bytes else None
        self._threads: ThreadPoolExecutor | None = None
        self._of_thread = local()

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._meter = meter
        self._films.attach(meter)

    def scatter(self, is_scattered: bool) -> None:
        """Whether pictures come one here and one there; see `TableReader.scatter`."""
        self._films.scatter(is_scattered)

    @property
    def is_in_pieces(self) -> bool:
        """Whether there are videos that lie on a store and are read by parts."""
        return bool(self._declared) and self._films.is_in_pieces

    def prefetch(self, wanted: Wanted) -> list[Ahead]:
        """Begin to bring near the groups of these pictures, where videos are read by parts.

        Waits for the facts about videos. What is wrong with them is left to `pictures`.
        """
        if not self.is_in_pieces:
            return []
        nothing = np.empty((0, 0, 0, 3), np.uint8)
        groups = [
            group
            for name in wanted
            for group in self._groups(name, *wanted[name], nothing, failures=[])
        ]
        found = (_bytes_of(group) for group in groups)
        return self._films.prefetch(part for part in found if part is not None)

    def view(self) -> Cameras:
        """The same cameras for another reader of windows: videos that are open are shared, while
        decoders and `decoded_bytes` of frames are its own."""
        made = copy(self)
        made._films = self._films.view()
        made.attach(Meter())
        return made

    def prepare_fork(self) -> None:
        """Read what a forked process could not: 16 bytes a frame of all videos.

        Raises:
            InputError: a forked process cannot read these videos at all.
        """
        if self._declared:
            self._films.prepare_fork()

    def expect(self, wanted: Wanted) -> None:
        """These pictures will be asked for soon; whoever gets to their group decodes them too.

        Takes some microseconds a picture. Without `decoded_bytes` it does nothing. What is wrong
        with them is left to `pictures`.
        """
        if self._process != os.getpid():
            self._begin()
        if self._kept is not None:
            for name in wanted:
                nothing = np.empty((0, 0, 0, 3), np.uint8)
                for group in self._groups(name, *wanted[name], nothing, []):
                    self._kept.expect((group.video, n) for n in group.numbers.tolist())

    def pictures(
        self,
        wanted: Wanted,
        *,
        allocate: Allocate = np.empty,
        failures: list[Failure] | None = None,
    ) -> dict[str, Pictures]:
        """Pictures by camera.

        Args:
            wanted: for each camera the rows of episodes and the times in them, in seconds, (m,).
            allocate: makes the arrays that are returned.
            failures: takes what went wrong; the other pictures are there all the same. None raises
                the first error, once nothing writes into the arrays any more.

        Returns:
            For each camera (m, height, width, 3).

        Raises:
            InputError: an episode has no video of the camera, no frame stands at a time, or videos
                differ in size.
            BadVideo: a video cannot be decoded; names it.
        """
        if self._process != os.getpid():
            self._begin()
        found: dict[str, Pictures] = {}
        groups: list[_Group] = []
        for name, (rows, times_s) in wanted.items():
            shape = self._shape(name, rows)
            found[name] = allocate((len(rows), *shape), np.uint8)
            groups += self._groups(name, rows, times_s, found[name], failures)
        for group, error in self._run(groups, is_patient=failures is not None):
            if failures is None:
                raise error
            failures.append(Failure(group.camera, group.places, error))
        return found

    def _shape(self, camera: str, episodes: npt.NDArray[np.int64]) -> tuple[int, ...]:
        """Height, width and channels of a camera's pictures."""
        if self._size is not None:
            return (*self._size[::-1], 3)
        videos, _ = self._spans.of(camera, episodes)
        infos = self._films.infos(np.unique(videos[videos >= 0]).tolist(), self._meter).values()
        shapes = {(info.height, info.width, 3) for _, info in infos}
        if len(shapes) > 1:
            raise InputError(
                f"The videos of {camera} differ in size",
                found=" and ".join(f"{w} x {h}" for h, w, _ in sorted(shapes)[:2]),
                fix="Give a size to which all are resized",
            )
        return shapes.pop() if shapes else self._declared[camera]

    def _groups(
        self,
        camera: str,
        episodes: npt.NDArray[np.int64],
        times_s: npt.NDArray[np.float64],
        pictures: Pictures,
        failures: list[Failure] | None,
    ) -> list[_Group]:
        """What each group of pictures has to give, by video and in order."""
        videos, from_s = self._spans.of(camera, episodes)
        if (videos < 0).any():
            error = self._spans.lacking(camera, episodes[videos < 0])
            if failures is None:
                raise error
            failures.append(Failure(camera, np.flatnonzero(videos < 0), error))
        in_file_s = from_s + times_s
        groups: list[_Group] = []
        infos = self._films.infos(np.unique(videos[videos >= 0]).tolist(), self._meter)
        for video, (video_id, info) in infos.items():
            places = np.flatnonzero(videos == video)
            try:
                numbers = self._numbers(info, in_file_s[places])
            except InputError as error:
                if failures is None:
                    raise
                failures.append(Failure(camera, places, error))
                continue
            order = np.argsort(numbers, kind="stable")
            places, numbers = places[order], numbers[order]
            of_each = info.group_of(numbers)
            cuts = np.flatnonzero(np.diff(of_each)) + 1
            groups += [
                _Group(camera, video, video_id, info, group, part, where, pictures)
                for group, part, where in zip(
                    of_each[np.append(0, cuts)].tolist(),
                    np.split(numbers, cuts),
                    np.split(places, cuts),
                    strict=True,
                )
            ]
        return groups

    def _numbers(self, info: VideoInfo, times_s: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        # Timestamps were float32 once: after half an hour their rounding alone is 1e-4 s.
        rounding_s = float(np.spacing(np.float32(times_s.max(initial=0.0))))
        return info.frame_at(times_s, self._tolerance_s + rounding_s)

    def _run(self, groups: list[_Group], *, is_patient: bool) -> list[tuple[_Group, InputError]]:
        """Decode groups side by side; what went wrong. When it returns nothing runs any more."""
        if self._num_threads == 1 or len(groups) < 2:
            return self._work(groups, is_patient)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._num_threads, "video")
        num_pieces = min(len(groups), _PIECES * self._num_threads)
        bounds = np.linspace(0, len(groups), num_pieces + 1).astype(int).tolist()
        futures = [
            self._threads.submit(self._work, groups[start:stop], is_patient)
            for start, stop in pairwise(bounds)
        ]
        wait(futures)
        return [failure for future in futures for failure in future.result()]

    def _work(self, groups: list[_Group], is_patient: bool) -> list[tuple[_Group, InputError]]:
        failures: list[tuple[_Group, InputError]] = []
        for group in groups:
            try:
                with self._meter.during("decode", group.video_id):
                    self._decode(group)
            except BadVideo as error:
                refusal = error.refusal
                named = BadVideo(Refusal(refusal.reason, f"{group.video_id}: {refusal.detail}"))
                failures.append((group, named))
            except InputError as error:
                failures.append((group, error))
            if failures and not is_patient:
                break
        return failures

    def _decode(self, group: _Group) -> None:
        places: dict[int, list[int]] = {}
        for number, place in zip(group.numbers.tolist(), group.places.tolist(), strict=True):
            places.setdefault(number, []).append(place)
        film = self._films.get(group.video, group.info, self._meter)
        if self._kept is None:
            for number, frame in film.decode(self._pool, group.group, np.array([*places])):
                if number in places:
                    self._convert(frame, group.pictures, places[number])
            return
        self._decode_ahead(film, group, places, self._kept)

    def _decode_ahead(
        self, film: Any, group: _Group, places: dict[int, list[int]], kept: KeptFrames
    ) -> None:
        """Take what is kept, and keep what passes."""
        frames: dict[int, Any] = {}
        with kept.turn(group.video, group.group):
            for number in places:
                frame = kept.take((group.video, number))
                if frame is not None:
                    frames[number] = frame
            missing = np.array([number for number in places if number not in frames], np.int64)
            if len(missing):
                ends = np.append(group.info.keyframes, group.info.num_frames)
                begin = int(ends[group.group]) if group.group >= 0 else 0
                ahead = kept.expected_of(group.video, range(begin, int(ends[group.group + 1])))
                for number, frame in film.decode(
                    self._pool, group.group, missing, np.array(ahead, np.int64)
                ):
                    kept.put((group.video, number), frame, is_used=number in places)
                    if number in places:
                        frames[number] = frame
        self._meter.count("video_frames_kept", len(places) - len(missing))
        for number, where in places.items():
            self._convert(frames[number], group.pictures, where)

    def _convert(self, frame: Any, pictures: Pictures, places: list[int]) -> None:
        converters = self._of_thread.__dict__
        key = f"{frame.format.name}, {frame.width}x{frame.height}"
        if key not in converters:
            if len(converters) > 8:
                converters.clear()
            converters[key] = Converter(self._size)
        converters[key].into(frame, pictures[places[0]])
        for place in places[1:]:
            pictures[place] = pictures[places[0]]


def _bytes_of(group: _Group) -> tuple[int, int, int] | None:
    """The video of a group, and about where in it the group lies; None where that is not known."""
    begins = group.info.keyframe_offsets
    if group.group < 0 or begins[group.group] < 0:
        return None
    begin = int(begins[group.group])
    later = begins[begins > begin]
    if not len(later):
        return None
    return group.video, begin, int(later.min())
