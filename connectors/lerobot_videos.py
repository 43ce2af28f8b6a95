"""The videos of an export: out of the lake, checked against LeRobot's reader, into its files.

`lerobot` finds a frame at `from_timestamp + timestamp`: it multiplies that time by the average rate
of the file, rounds, decodes the frame of that number and refuses it if it stands more than 0.1 ms
off. Whatever is written here was checked by that rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from connectors.lerobot_chosen import Chosen, Spans
from datalake.episodes import EpisodeSet
from datalake.episodes.export import ExportProgress
from datalake.episodes.statistics import FeatureStats, sampled_frames, summarise_pictures
from datalake.errors import InputError, NotFoundError
from datalake.video import Pictures, VideoInfo, VideoReader, encode, probe, transcode

__all__ = [
    "CameraFiles",
    "Clip",
    "check_found",
    "encoded_clip",
    "picture_stats",
    "stored_clips",
]

TOLERANCE_S: Final = 1e-4
"""How far from its time LeRobot lets a frame stand."""

_PICTURES_AT_ONCE: Final = 16
_FACTS: Final = (
    "video_id",
    "num_bytes",
    "num_frames",
    "codec",
    "pix_fmt",
    "width",
    "height",
    "fps",
)


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
        self.facts: list[dict[str, Any]] = [{}] * len(place)
        """Of each of `spans.video_ids`, the columns that are small."""
        for batch in episodes.videos.scan(list(_FACTS), with_row_index=True):
            for row in batch.to_pylist():
                number = place.get(row["video_id"])
                if number is not None:
                    rows[number] = row.pop("row_index")
                    self.facts[number] = row
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


def _first_frame(chosen: Chosen, episode: int, info: VideoInfo, from_s: float) -> int:
    """The frame of a file at which an episode begins.

    Raises:
        InputError: there is none at that time, or the file ends before the episode.
    """
    length, episode_id = int(chosen.lengths[episode]), chosen.id_of(episode)
    try:
        number = int(info.frame_at([from_s], TOLERANCE_S)[0])
    except InputError as error:
        raise _unfit(episode_id, error.found) from error
    if number + length > info.num_frames:
        raise _unfit(
            episode_id,
            f"the episode has {length} frames, the video only {info.num_frames - number} from its"
            " beginning on",
        )
    return number


def check_found(chosen: Chosen, episode: int, info: VideoInfo, first: int, from_s: float) -> None:
    """See that LeRobot's reader will find each frame of an episode in a file.

    Args:
        chosen: the export.
        episode: its number there.
        info: the file.
        first: the frame of the file at which the episode begins.
        from_s: what will be written as its beginning.

    Raises:
        InputError: it would not.
    """
    length, episode_id = int(chosen.lengths[episode]), chosen.id_of(episode)
    frames = np.arange(first, first + length)
    # Timestamps are stored in single precision.
    wanted = from_s + (np.arange(length) / chosen.fps).astype(np.float32).astype(np.float64)
    away = np.abs(info.times()[frames] - wanted) + chosen.timestamp_errors_s[episode]
    if (away >= TOLERANCE_S).any():
        worst = int(np.argmax(away))
        raise _unfit(
            episode_id,
            f"frame {worst} stands {away[worst] * 1e3:.2f} ms from its time; LeRobot allows"
            f" {TOLERANCE_S * 1e3:g} ms",
        )
    numbers = np.round(wanted * info.fps)
    if (numbers != frames).any():
        worst = int(np.argmax(numbers != frames))
        raise _unfit(
            episode_id,
            f"the file states {info.fps:.4f} frames/s, by which LeRobot would take frame"
            f" {int(numbers[worst])} for frame {int(frames[worst])}",
        )


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
    if _is_even(clip.info, first, end, chosen.fps):
        data = transcode(clip.data, from_frame=first, to_frame=end, codec=codec)
    else:
        # By way of RGB: frames get times of their own.
        with VideoReader(clip.data, clip.info) as reader:
            data = encode(reader.iterate(first, end), chosen.fps, codec)
    return Clip(data, probe(data), (episode,), (0,))


def _is_even(info: VideoInfo, first: int, end: int, fps: float) -> bool:
    """Whether frames stand where the dataset's rate wants them, and the file says so."""
    times = info.times()[first:end]
    away = np.abs(times - times[0] - np.arange(end - first) / fps)
    return bool(away.max() < TOLERANCE_S / 2) and abs(info.fps - fps) < fps * 1e-6


def _in_files(spans: Spans) -> list[list[int]]:
    """The episodes in each of a camera's files, ascending."""
    order = np.argsort(spans.files, kind="stable")
    counts = np.bincount(spans.files, minlength=len(spans.video_ids))
    return [part.tolist() for part in np.split(order, np.cumsum(counts)[:-1])]


def stored_clips(chosen: Chosen, camera: str, progress: ExportProgress | None) -> Iterator[Clip]:
    """The stored files of a camera, in the order in which episodes need them, one at a time.

    Raises:
        InputError: a file does not hold the frames of an episode.
        NotFoundError: the videos table lacks a file.
    """
    spans = chosen.spans[camera]
    stored = _StoredVideos(chosen.source, spans)
    for file, episodes in enumerate(_in_files(spans)):
        if progress is not None:
            note = f"{camera}: video file {file + 1:,} of {len(spans.video_ids):,}"
            progress.update(0, total=len(chosen.rows), note=note)
        data, info = stored.load(file)
        firsts = (
            _first_frame(chosen, episode, info, spans.from_s[episode]) for episode in episodes
        )
        yield Clip(data, info, tuple(episodes), tuple(firsts))


def _unfit(episode_id: str, found: str) -> InputError:
    return InputError(
        "LeRobot's reader would not find the frames of a video",
        where=episode_id,
        found=found,
        fix="Encode the videos anew with --transcode h264, or leave the episode out",
    )
