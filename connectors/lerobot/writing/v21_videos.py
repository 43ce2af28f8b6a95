"""The video files of a LeRobot v2.1 dataset: one an episode and camera.

A stored file that is one episode and no more is written byte for byte. An episode that shares its
file is cut out without encoding, which takes a keyframe at its beginning; where there is none, it
must be encoded anew.
"""

from __future__ import annotations

from collections import Counter

from connectors.destination import Destination
from connectors.lerobot.writing.chosen import Chosen
from connectors.lerobot.writing.layout import CHUNK_FILES, V21_VIDEO_PATH
from connectors.lerobot.writing.reader_rule import check_found
from connectors.lerobot.writing.stats import unknown_pictures
from connectors.lerobot.writing.videos import (
    CameraFiles,
    Clip,
    encoded_clip,
    picture_stats,
    stored_clips,
)
from datalake.episodes.export import ExportProgress, ExportSettings
from datalake.errors import InputError
from datalake.video import cut, probe

__all__ = ["write_camera"]


def write_camera(
    chosen: Chosen,
    camera: str,
    destination: Destination,
    settings: ExportSettings,
    counts: Counter[str],
    progress: ExportProgress | None = None,
) -> CameraFiles:
    """Write the files of one camera. Holds one stored file and one clip of it.

    Raises:
        InputError: an episode cannot be cut out, or LeRobot's reader would not find a frame.
    """
    written = CameraFiles.of(len(chosen.rows))
    unknown = unknown_pictures(chosen, camera)
    for stored in stored_clips(chosen, camera, progress):
        written.stats |= picture_stats(chosen, camera, stored, unknown)
        for episode in stored.episodes:
            if settings.transcode is not None:
                clip, how = encoded_clip(chosen, episode, stored, settings.transcode), "encoded"
            else:
                clip, how = _alone(chosen, episode, stored)
            check_found(chosen, episode, clip.info, 0, 0.0)
            path = V21_VIDEO_PATH.format(
                episode_chunk=episode // CHUNK_FILES, video_key=camera, episode_index=episode
            )
            destination.write(path, clip.data)
            written.num_files += 1
            written.note(clip, clip.info, [0.0])
            counts[how] += 1
    return written


def _alone(chosen: Chosen, episode: int, stored: Clip) -> tuple[Clip, str]:
    """A file of the episode's own, and whether it is `copied` or `cut`."""
    first = stored.first_frames[stored.episodes.index(episode)]
    length = int(chosen.lengths[episode])
    begins_at_zero = stored.info.frame_pts[0] == 0
    if first == 0 and length == stored.info.num_frames and begins_at_zero:
        return Clip(stored.data, stored.info, (episode,), (0,)), "copied"
    try:
        data = cut(stored.data, first, first + length)
    except InputError as error:
        raise InputError(
            "An episode cannot be cut out of its video file without encoding it",
            where=chosen.id_of(episode),
            found="; ".join(filter(None, (error.what, error.found))),
            fix="Encode the videos anew with --transcode h264, or export as lerobot_v30, in which"
            " episodes share files",
        ) from error
    return Clip(data, probe(data), (episode,), (0,)), "cut"
