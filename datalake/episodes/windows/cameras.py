"""Frames of episodes from the videos they lie in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from datalake.episodes.episode_set import EpisodeSet
from datalake.errors import InputError
from datalake.recording import Feature
from datalake.video import Pictures, VideoInfo, VideoReader

__all__ = ["Cameras"]

_INFO: Final = [
    *("codec", "pix_fmt", "width", "height", "fps", "num_frames", "duration_s"),
    *("time_base_num", "time_base_den", "frame_pts", "keyframes", "keyframe_offsets"),
]


class Cameras:
    """Decodes the pictures that windows want. Picklable; safe to use in several threads.

    Videos stay opened from one call to the next, those used last, up to `cache_bytes` of them.
    While pictures are decoded there are as many more as threads.
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
    ) -> None:
        self._episodes = episodes
        self._tolerance_s = tolerance_s
        self._size = size
        self._num_threads = num_threads
        self._readers = _Readers(episodes, size, cache_bytes)
        self._spans = _spans(episodes, [feature.name for feature in features])
        self._declared = {feature.name: feature.shape for feature in features}

    def pictures(
        self,
        wanted: dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]],
    ) -> dict[str, Pictures]:
        """Pictures by camera.

        Args:
            wanted: for each camera the rows of episodes and the times in them, in seconds, (m,).

        Returns:
            For each camera (m, height, width, 3). Frames of one video are decoded in one go.

        Raises:
            InputError: an episode has no video of the camera, no frame stands at a time, or videos
                differ in size.
            BadVideo: a video cannot be decoded.
        """
        jobs = [
            job
            for name, (rows, times_s) in wanted.items()
            for job in self._jobs(name, rows, times_s)
        ]
        with ThreadPoolExecutor(max(1, min(self._num_threads, len(jobs)))) as pool:
            done = list(zip(jobs, pool.map(self._decode, jobs), strict=True))
        return {
            name: self._assembled(
                name, len(rows), [(job.places, part) for job, part in done if job.camera == name]
            )
            for name, (rows, _) in wanted.items()
        }

    def _jobs(
        self, camera: str, episodes: npt.NDArray[np.int64], times_s: npt.NDArray[np.float64]
    ) -> list[_Job]:
        videos, from_s = (part[episodes] for part in self._spans[camera])
        if (videos < 0).any():
            episode = self._episodes.index.episode_ids[int(episodes[videos < 0][0])]
            raise InputError(
                f"The episode {episode} has no video of {camera}",
                fix="Leave the camera out with columns=…, or take other rows",
            )
        in_file_s = from_s + times_s
        return [
            _Job(camera, video, places := np.flatnonzero(videos == video), in_file_s[places])
            for video in np.unique(videos).tolist()
        ]

    def _decode(self, job: _Job) -> Pictures:
        reader = self._readers.borrow(job.video)
        # Timestamps were float32 once: after half an hour their rounding alone is 1e-4 s.
        rounding_s = float(np.spacing(np.float32(job.times_s.max(initial=0.0))))
        pictures = reader.at(job.times_s, self._tolerance_s + rounding_s)
        self._readers.give_back(job.video, reader)
        return pictures

    def _assembled(
        self, name: str, num_pictures: int, parts: list[tuple[npt.NDArray[np.int64], Pictures]]
    ) -> Pictures:
        shapes = {part.shape[1:] for _, part in parts}
        if len(shapes) > 1:
            raise InputError(
                f"The videos of {name} differ in size",
                found=" and ".join(f"{w} x {h}" for h, w, _ in sorted(shapes)[:2]),
                fix="Give a size to which all are resized",
            )
        if len(parts) == 1:
            return parts[0][1]
        shape = shapes.pop() if shapes else self._declared[name]
        if self._size is not None:
            shape = (*self._size[::-1], 3)
        pictures = np.empty((num_pictures, *shape), np.uint8)
        for places, part in parts:
            pictures[places] = part
        return pictures


@dataclass(frozen=True)
class _Job:
    """The pictures that one video has to give."""

    camera: str
    video: int
    """A row of the videos table."""
    places: npt.NDArray[np.int64]
    """Where they go among the camera's pictures, (k,)."""
    times_s: npt.NDArray[np.float64]
    """Where they stand in the file, (k,)."""


class _Readers:
    """Opened videos by their row, the least used dropped; each is with one borrower at a time."""

    def __init__(
        self, episodes: EpisodeSet, size: tuple[int, int] | None, cache_bytes: int
    ) -> None:
        self._episodes = episodes
        self._size = size
        self._cache_bytes = cache_bytes
        self._clear()

    def _clear(self) -> None:
        self._idle: OrderedDict[int, tuple[VideoReader, int]] = OrderedDict()
        self._num_bytes: dict[int, int] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_episodes", "_size", "_cache_bytes")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._clear()

    def borrow(self, video: int) -> VideoReader:
        """A reader of the video in a row; `give_back` it."""
        with self._lock:
            if video in self._idle:
                return self._idle.pop(video)[0]
        row = self._episodes.videos.take([video], [*_INFO, "video"])
        data = row["video"][0].as_buffer()
        self._num_bytes[video] = data.size
        info = VideoInfo.from_row(row.select(_INFO).to_pylist()[0])
        return VideoReader(data, info, size=self._size, num_threads=1)

    def give_back(self, video: int, reader: VideoReader) -> None:
        """Keep a reader for later, and drop the least used ones beyond the bound."""
        with self._lock:
            twin = self._idle.pop(video, None)
            self._idle[video] = reader, self._num_bytes[video]
            dropped = [] if twin is None else [twin]
            while sum(size for _, size in self._idle.values()) > self._cache_bytes:
                dropped.append(self._idle.popitem(last=False)[1])
        for old, _ in dropped:
            old.close()


def _spans(
    episodes: EpisodeSet, names: Sequence[str]
) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """For each camera the row of each episode's video (-1: none), and where in it it begins."""
    num_episodes = len(episodes.index.lengths)
    spans = {name: (np.full(num_episodes, -1, np.int64), np.zeros(num_episodes)) for name in names}
    if not names:
        return spans
    column = episodes.episodes.scan(["videos"]).read_all()["videos"].combine_chunks()
    flat = pa.Table.from_struct_array(column.flatten())
    owners = np.repeat(np.arange(num_episodes), column.value_lengths().fill_null(0).to_numpy())
    video_ids = episodes.videos.scan(["video_id"]).read_all()["video_id"]
    rows = pc.index_in(flat["video_id"], value_set=video_ids).fill_null(-1).to_numpy()
    for name, (video_rows, from_s) in spans.items():
        of_camera = pc.equal(flat["feature"], name).to_numpy(zero_copy_only=False)
        video_rows[owners[of_camera]] = rows[of_camera]
        from_s[owners[of_camera]] = flat["from_s"].to_numpy()[of_camera]
    return spans
