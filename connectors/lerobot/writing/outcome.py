"""What the writers of all versions begin and end with: episodes that will do, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from connectors.destination import Destination
from connectors.lerobot.writing.chosen import Chosen, choose
from connectors.lerobot.writing.reader_rule import check_stored
from connectors.lerobot.writing.videos import CameraFiles
from datalake.episodes import EpisodeSet
from datalake.episodes.export import ExportReport, ExportSettings, RowArray
from datalake.uri import Location

__all__ = ["chosen_for", "report_of"]


def chosen_for(
    episodes: EpisodeSet, rows: RowArray, settings: ExportSettings, *, at_keyframes: bool
) -> Chosen:
    """The episodes of an export, whose stored videos have been seen to do.

    Args:
        episodes: the set.
        rows: of its episodes table.
        settings: of the export.
        at_keyframes: episodes that share a video file will be cut out of it.

    Raises:
        InputError: something cannot be written; nothing has been.
    """
    chosen = choose(episodes, rows, by_split=settings.by_split)
    if settings.transcode is None:
        for camera in chosen.spans:
            check_stored(chosen, camera, at_keyframes=at_keyframes)
    return chosen


def report_of(
    exporter: str,
    destination: Location,
    chosen: Chosen,
    written: Destination,
    cameras: Mapping[str, CameraFiles],
    counts: Counter[str],
) -> ExportReport:
    """What an export wrote.

    Args:
        exporter: its name.
        destination: as it was asked for.
        chosen: its episodes.
        written: where they went.
        cameras: the video files, by camera.
        counts: what became of stored videos: copied, joined, cut, encoded.
    """
    return ExportReport(
        exporter=exporter,
        destination=str(destination),
        episode_set=chosen.source.name,
        version=chosen.source.version,
        num_episodes=len(chosen.rows),
        num_frames=chosen.num_frames,
        num_tasks=len(chosen.tasks.texts),
        num_video_files=sum(files.num_files for files in cameras.values()),
        num_bytes=written.num_bytes,
        num_videos_copied=counts["copied"],
        num_videos_joined=counts["joined"],
        num_videos_cut=counts["cut"],
        num_videos_encoded=counts["encoded"],
        notes=chosen.notes,
    )
