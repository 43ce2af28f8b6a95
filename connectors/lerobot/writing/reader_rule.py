"""How LeRobot's reader finds a frame of a video, so that nothing is written that it would not find.

It takes `from_timestamp + timestamp`, multiplies by the average rate that the file states, rounds,
decodes the frame of that number, and refuses it if it stands 0.1 ms or more from the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from connectors.lerobot.writing.chosen import Chosen
from datalake.episodes import VIDEOS
from datalake.errors import InputError
from datalake.video import VideoInfo

__all__ = ["check_found", "check_stored", "first_frame", "is_even"]

_TOLERANCE_S: Final = 1e-4
_ALL_BUT_BYTES: Final = [name for name in VIDEOS.names if name != "video"]
# A file of many episodes has some hundred thousand frame times.
_FILES_AT_ONCE: Final = 8


def check_stored(chosen: Chosen, camera: str, *, at_keyframes: bool) -> None:
    """See in the videos table that all episodes can be read from the files of a camera.

    Looks at no video, so a faulty one is found before hours of writing.

    Args:
        chosen: the export.
        camera: the feature.
        at_keyframes: episodes that share a file must begin at a keyframe, to be cut out.

    Raises:
        InputError: an episode cannot.
    """
    for episode, info, first, is_alone in _placed(chosen, camera):
        end = first + int(chosen.lengths[episode])
        _check_times(chosen, episode, info, first, float(info.times()[first]))
        is_whole = is_alone and first == 0 and end == info.num_frames
        if at_keyframes and not is_whole and first not in info.keyframes:
            before = info.keyframes[info.keyframes < first]
            raise InputError(
                "An episode cannot be cut out of its video file without encoding it",
                where=chosen.id_of(episode),
                found=f"it begins at frame {first}, which is no keyframe;"
                f" the one before it is {before[-1] if len(before) else 'none'}",
                fix="Encode the videos anew with --transcode h264, or export as lerobot_v30, in"
                " which episodes share files",
            )


def _placed(chosen: Chosen, camera: str) -> Iterator[tuple[int, VideoInfo, int, bool]]:
    """Each episode, its file, the frame at which it begins, and whether the file is its alone."""
    spans = chosen.spans[camera]
    episodes_of = dict(zip(spans.video_ids, spans.by_file(), strict=True))
    for batch in chosen.source.videos.scan(_ALL_BUT_BYTES, batch_size=_FILES_AT_ONCE):
        for row, video_id in enumerate(batch["video_id"].to_pylist()):
            if video_id in episodes_of:
                info = VideoInfo.from_row(batch.slice(row, 1).to_pylist()[0])
                episodes = episodes_of[video_id]
                for episode in episodes:
                    first = first_frame(chosen, episode, info, spans.from_s[episode])
                    yield episode, info, first, len(episodes) == 1


def first_frame(chosen: Chosen, episode: int, info: VideoInfo, from_s: float) -> int:
    """The frame of a file at which an episode begins.

    Raises:
        InputError: there is none at that time, or the file ends before the episode.
    """
    length, episode_id = int(chosen.lengths[episode]), chosen.id_of(episode)
    try:
        number = int(info.frame_at([from_s], _TOLERANCE_S)[0])
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
    wanted = _check_times(chosen, episode, info, first, from_s)
    frames = np.arange(first, first + len(wanted))
    numbers = np.round(wanted * info.fps)
    if (numbers != frames).any():
        worst = int(np.argmax(numbers != frames))
        raise _unfit(
            chosen.id_of(episode),
            f"the file states {info.fps:.4f} frames/s, by which LeRobot would take frame"
            f" {int(numbers[worst])} for frame {int(frames[worst])}",
        )


def _check_times(
    chosen: Chosen, episode: int, info: VideoInfo, first: int, from_s: float
) -> npt.NDArray[np.float64]:
    """See that an episode's frames stand at their times; returns the times, (length,)."""
    wanted = from_s + chosen.timestamps(episode)
    away = np.abs(info.times()[first : first + len(wanted)] - wanted)
    if (away >= _TOLERANCE_S).any():
        worst = int(np.argmax(away))
        raise _unfit(
            chosen.id_of(episode),
            f"frame {worst} stands {away[worst] * 1e3:.2f} ms from its time; LeRobot allows"
            f" {_TOLERANCE_S * 1e3:g} ms",
        )
    return wanted


def is_even(info: VideoInfo, first: int, end: int, fps: float) -> bool:
    """Whether frames stand where the dataset's rate wants them, and the file says so."""
    times = info.times()[first:end]
    away = np.abs(times - times[0] - np.arange(end - first) / fps)
    return bool(away.max() < _TOLERANCE_S / 2) and abs(info.fps - fps) < fps * 1e-6


def _unfit(episode_id: str, found: str) -> InputError:
    return InputError(
        "LeRobot's reader would not find the frames of a video",
        where=episode_id,
        found=found,
        fix="Encode the videos anew with --transcode h264, or leave the episode out",
    )
