"""Writes LeRobot datasets of version 2.1: a Parquet file an episode, and a video file a camera.

Provenance: the layout of `lerobot` 0.3, which many training repositories still read. Episodes are
numbered anew from 0, and tasks where their numbers have gaps or contradict each other.

A stored video that holds one episode and no more is written byte for byte. An episode that shares
its file with others is cut out without encoding, which takes a keyframe at its beginning; where
there is none, it needs `transcode`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pyarrow.parquet as pq

from connectors.destination import Destination
from connectors.lerobot.writing.chosen import Chosen
from connectors.lerobot.writing.info import features_json, info_json, stats_json
from connectors.lerobot.writing.layout import (
    CHUNK_FILES,
    INFO_PATH,
    V21_DATA_PATH,
    V21_EPISODES_PATH,
    V21_STATS_PATH,
    V21_TASKS_PATH,
    V21_VIDEO_PATH,
)
from connectors.lerobot.writing.outcome import chosen_for, report_of
from connectors.lerobot.writing.stats import episode_stats
from connectors.lerobot.writing.v21_videos import write_camera
from connectors.lerobot.writing.videos import CameraFiles
from datalake.episodes import EpisodeSet
from datalake.episodes.export import ExportProgress, ExportReport, ExportSettings, RowArray
from datalake.uri import Location

__all__ = ["WRITER", "LeRobotV21Writer"]


class LeRobotV21Writer:
    """Exporter for LeRobot v2.1."""

    name = "lerobot_v21"
    description = "a dataset for lerobot 0.3 and what was built on it"

    def export(
        self,
        episodes: EpisodeSet,
        rows: RowArray,
        destination: Location,
        settings: ExportSettings,
        progress: ExportProgress | None = None,
    ) -> ExportReport:
        """Write the episodes; see `datalake.episodes.export.Exporter`."""
        chosen = chosen_for(episodes, rows, settings, at_keyframes=True)
        counts: Counter[str] = Counter()
        with Destination(destination, marker=INFO_PATH, overwrite=settings.overwrite) as written:
            cameras = {
                camera: write_camera(chosen, camera, written, settings, counts, progress)
                for camera in chosen.spans
            }
            _write_episodes(chosen, cameras, written, progress)
            tasks = enumerate(chosen.tasks.texts)
            written.write(
                V21_TASKS_PATH,
                b"".join(_line({"task_index": number, "task": text}) for number, text in tasks),
            )
            first_files = {camera: files.first for camera, files in cameras.items()}
            features = features_json(chosen, first_files, encoded=settings.transcode is not None)
            written.write(INFO_PATH, info_json("v2.1", chosen, _own_info(chosen), features))
        return report_of(self.name, destination, chosen, written, cameras, counts)


WRITER: Final = LeRobotV21Writer()


def _own_info(chosen: Chosen) -> dict[str, Any]:
    number = len(chosen.rows)
    return {
        "total_videos": number * len(chosen.spans),
        "total_chunks": -(-number // CHUNK_FILES),
        "chunks_size": CHUNK_FILES,
        "data_path": V21_DATA_PATH,
        "video_path": V21_VIDEO_PATH if chosen.spans else None,
    }


def _write_episodes(
    chosen: Chosen,
    cameras: Mapping[str, CameraFiles],
    written: Destination,
    progress: ExportProgress | None,
) -> None:
    """Write a data file and two lines of metadata for each episode."""
    known = chosen.rows_of_episodes(["stats"])
    with written.open(V21_EPISODES_PATH) as episodes, written.open(V21_STATS_PATH) as statistics:
        for number, (frames, own) in enumerate(zip(chosen.frames(), known, strict=True)):
            path = V21_DATA_PATH.format(episode_chunk=number // CHUNK_FILES, episode_index=number)
            with written.open(path) as file:
                pq.write_table(frames, file, row_group_size=frames.num_rows)
            used = frames["task_index"].unique().to_pylist()
            episodes.write(
                _line(
                    {
                        "episode_index": number,
                        "tasks": [chosen.tasks.texts[task] for task in used],
                        "length": frames.num_rows,
                    }
                )
            )
            pictures = {
                camera: files.stats[number]
                for camera, files in cameras.items()
                if number in files.stats
            }
            stats = episode_stats(chosen.features, frames, own["stats"] or (), pictures)
            statistics.write(_line({"episode_index": number, "stats": stats_json(stats, chosen)}))
            if progress is not None:
                progress.update(number + 1, total=len(chosen.rows))


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
