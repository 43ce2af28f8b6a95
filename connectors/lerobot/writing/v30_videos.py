"""The video files of a LeRobot v3.0 dataset: several episodes in a file.

A stored file that several episodes are in is written once, as it is. Files of one episode are put
together without encoding, up to 200 MB, as LeRobot does: thousands of small files are slow to list
and to load, and its streaming reader knows one file a camera only.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import IO, Final

from connectors.destination import Destination
from connectors.lerobot.writing.chosen import Chosen
from connectors.lerobot.writing.layout import V30_VIDEO_PATH, VIDEO_FILE_MB, chunk_and_file
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
from datalake.video import Parameters, concat, parameters, probe

__all__ = ["write_camera"]

_LIMIT_BYTES: Final = VIDEO_FILE_MB << 20


def write_camera(
    chosen: Chosen,
    camera: str,
    destination: Destination,
    settings: ExportSettings,
    counts: Counter[str],
    progress: ExportProgress | None = None,
) -> CameraFiles:
    """Write the files of one camera. Holds one of them.

    Raises:
        InputError: LeRobot's reader would not find a frame.
    """
    written = CameraFiles.of(len(chosen.rows))
    unknown = unknown_pictures(chosen, camera)
    joiner = _Joiner(chosen, camera, destination, written, counts)
    for clip, may_join in _clips(chosen, camera, settings, counts, progress):
        written.stats |= picture_stats(chosen, camera, clip, unknown)
        if may_join and settings.join_videos:
            joiner.add(clip)
        else:
            joiner.write_alone(clip)
    joiner.flush()
    return written


def _clips(
    chosen: Chosen,
    camera: str,
    settings: ExportSettings,
    counts: Counter[str],
    progress: ExportProgress | None,
) -> Iterator[tuple[Clip, bool]]:
    """What goes into the camera's files, in order, and whether it may be joined with others."""
    for clip in stored_clips(chosen, camera, progress):
        if settings.transcode is None:
            num_used = int(chosen.lengths[list(clip.episodes)].sum())
            yield clip, len(clip.episodes) == 1 and 2 * num_used >= clip.info.num_frames
        else:
            for episode in clip.episodes:
                counts["encoded"] += 1
                yield encoded_clip(chosen, episode, clip, settings.transcode), True


class _Joiner:
    """Collects clips until a file is full."""

    def __init__(
        self,
        chosen: Chosen,
        camera: str,
        destination: Destination,
        written: CameraFiles,
        counts: Counter[str],
    ) -> None:
        self._chosen = chosen
        self._camera = camera
        self._destination = destination
        self._written = written
        self._counts = counts
        self._held: list[Clip] = []
        self._parameters: Parameters | None = None

    def add(self, clip: Clip) -> None:
        """Put a clip into the file at hand, or begin a new one."""
        num_bytes = sum(held.num_bytes for held in self._held)
        wanted = parameters(clip.data)
        if num_bytes + clip.num_bytes >= _LIMIT_BYTES or wanted != self._parameters:
            self.flush()
        self._held.append(clip)
        self._parameters = wanted

    def flush(self) -> None:
        """Write what is collected."""
        held, self._held = self._held, []
        if len(held) == 1:
            self.write_alone(held[0])
        elif held:
            self._write_joined(held)

    def write_alone(self, clip: Clip) -> None:
        """Write a clip as a file, byte for byte."""
        times = clip.info.times()
        from_s = [float(times[first]) for first in clip.first_frames]
        for episode, first, begin in zip(clip.episodes, clip.first_frames, from_s, strict=True):
            check_found(self._chosen, episode, clip.info, first, begin)
        with self._next_file() as file:
            file.write(clip.data)
        self._written.note(clip, clip.info, from_s)
        self._count("copied", 1)

    def _write_joined(self, clips: list[Clip]) -> None:
        """Write clips as one file; each on its own if LeRobot could not read them so."""
        with tempfile.TemporaryFile() as joined:
            try:
                concat([clip.data for clip in clips], joined)
                info = probe(joined)
                times, begins, start = info.times(), [], 0
                for clip in clips:
                    own = [start + first for first in clip.first_frames]
                    for episode, first in zip(clip.episodes, own, strict=True):
                        check_found(self._chosen, episode, info, first, float(times[first]))
                    begins.append([float(times[first]) for first in own])
                    start += clip.info.num_frames
            except InputError:
                for clip in clips:
                    self.write_alone(clip)
                return
            joined.seek(0)
            with self._next_file() as file:
                shutil.copyfileobj(joined, file)
        for clip, from_s in zip(clips, begins, strict=True):
            self._written.note(clip, info, from_s)
        self._count("joined", len(clips))

    def _count(self, how: str, number: int) -> None:
        # What was encoded is no stored file any more.
        if not self._counts["encoded"]:
            self._counts[how] += number

    def _next_file(self) -> IO[bytes]:
        indices = chunk_and_file(self._written.num_files)
        self._written.num_files += 1
        return self._destination.open(V30_VIDEO_PATH.format(video_key=self._camera, **indices))
