"""The videos of an export, one stored file at a time, and what is done to them on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from connectors.lerobot.writing.chosen import Chosen, Spans
from connectors.lerobot.writing.reader_rule import first_frame, is_even
from datalake.episodes import EpisodeSet
from datalake.episodes.export import ExportProgress
from datalake.episodes.statistics import FeatureStats, sampled_frames, summarise_pictures
from datalake.errors import NotFoundError
from datalake.video import Pictures, VideoInfo, VideoReader, encode, probe, transcode

__all__ = [
    "CameraFiles",
    "Clip",
    "encoded_clip",
    "picture_stats",
    "stored_clips",
]

_PICTURES_AT_ONCE: Final = 16


@dataclass(frozen=True)
class Clip:
    """Encoded video of one episode or more, as it will be written or joined."""

    data: Any
    """Bytes, or a buffer of them."""
    info: VideoInfo
    episodes: tuple[int, ...]
    first_frames: tuple[int, ...]
    """The frame at which each of the episodes begins."""

    @property
    def num_bytes(self) -> int:
        """Its size."""
        return len(memoryview(self.data))


@dataclass
class CameraFiles:
    """What was written of one camera."""

    files: npt.NDArray[np.int64]
    """The number of each episode's file, (episodes,)."""
    from_s: npt.NDArray[np.float64]
    """When its first frame stands there, (episodes,)."""
    stats: dict[int, FeatureStats] = field(default_factory=dict)
    """Of the pictures of the episodes of which the lake had none, by episode."""
    first: Mapping[str, Any] = field(default_factory=dict)
    """The facts of the first file, by the names of the videos table."""
    num_files: int = 0

    @classmethod
    def of(cls, num_episodes: int) -> CameraFiles:
        """Nothing written yet."""
        return cls(np.zeros(num_episodes, np.int64), np.zeros(num_episodes))

    def note(self, clip: Clip, info: VideoInfo, from_s: Sequence[float]) -> None:
        """A clip's episodes are in the file that was written last, and begin at these times."""
        for episode, begin in zip(clip.episodes, from_s, strict=True):
            self.files[episode] = self.num_files - 1
            self.from_s[episode] = begin
        self.first = self.first or info.as_row()


class _StoredVideos:
    """The video files of one camera that the episodes of an export are in.

    Raises:
        NotFoundError: the videos table lacks a file that an episode names.
    """

    def __init__(self, episodes: EpisodeSet, spans: Spans) -> None:
        self._table = episodes.videos
        place = {video_id: number for number, video_id in enumerate(spans.video_ids)}
        rows: list[int | None] = [None] * len(place)
        for batch in episodes.videos.scan(["video_id"], with_row_index=True):
            for row in batch.to_pylist():
                number = place.get(row["video_id"])
                if number is not None:
                    rows[number] = row["row_index"]
        missing = [video_id for video_id, row in zip(place, rows, strict=True) if row is None]
        if missing:
            raise NotFoundError(
                "Episodes name video files that the set does not have",
                where=episodes.name,
                found=", ".join(missing[:5]),
                fix="Ingest the dataset again, or drop the camera with:"
                " datalake episodes drop-feature",
            )
        self._rows = [row for row in rows if row is not None]

    def load(self, number: int) -> tuple[Any, VideoInfo]:
        """A file's bytes, and what is known of it."""
        rows = self._table.take([self._rows[number]])
        info = VideoInfo.from_row(
            {name: rows[name][0].as_py() for name in rows.column_names if name != "video"}
        )
        return rows["video"][0].as_buffer(), info


def picture_stats(
    chosen: Chosen, camera: str, clip: Clip, unknown: npt.NDArray[np.bool_]
) -> dict[int, FeatureStats]:
    """The statistics of the pictures of a clip's episodes that are `unknown`, decoded from it."""
    found = {}
    for episode, first in zip(clip.episodes, clip.first_frames, strict=True):
        if unknown[episode]:
            stats = _summarised(camera, clip, first, int(chosen.lengths[episode]))
            if stats is not None:
                found[episode] = stats
    return found


def _summarised(camera: str, clip: Clip, first: int, length: int) -> FeatureStats | None:

    def pictures() -> Iterator[Pictures]:
        numbers = first + sampled_frames(length)
        with VideoReader(clip.data, clip.info) as reader:
            for start in range(0, len(numbers), _PICTURES_AT_ONCE):
                yield from reader.frames(numbers[start : start + _PICTURES_AT_ONCE])

    return summarise_pictures(camera, pictures())


def encoded_clip(chosen: Chosen, episode: int, clip: Clip, codec: str) -> Clip:
    """An episode of a clip, decoded and encoded anew, with a frame at every step of its rate."""
    first = clip.first_frames[clip.episodes.index(episode)]
    end = first + int(chosen.lengths[episode])
    if is_even(clip.info, first, end, chosen.fps):
        data = transcode(clip.data, from_frame=first, to_frame=end, codec=codec)
    else:
        # By way of RGB: frames get times of their own.
        with VideoReader(clip.data, clip.info) as reader:
            data = encode(reader.iterate(first, end), chosen.fps, codec)
    return Clip(data, probe(data), (episode,), (0,))


def stored_clips(chosen: Chosen, camera: str, progress: ExportProgress | None) -> Iterator[Clip]:
    """The stored files of a camera, in the order in which episodes need them, one at a time.

    Raises:
        InputError: a file does not hold the frames of an episode.
        NotFoundError: the videos table lacks a file.
    """
    spans = chosen.spans[camera]
    stored = _StoredVideos(chosen.source, spans)
    for file, episodes in enumerate(spans.by_file()):
        if progress is not None:
            note = f"{camera}: video file {file + 1:,} of {len(spans.video_ids):,}"
            progress.update(0, total=len(chosen.rows), note=note)
        data, info = stored.load(file)
        firsts = (first_frame(chosen, episode, info, spans.from_s[episode]) for episode in episodes)
        yield Clip(data, info, tuple(episodes), tuple(firsts))
