"""Writes LeRobot datasets of version 3.0: several episodes in a file.

Provenance: `lerobot` 0.4 writes and reads this version; what it writes was taken as the model and
what it reads as the test. Episodes are numbered anew from 0, since LeRobot finds an episode by its
place in the list, and tasks where their numbers have gaps or contradict each other. Timestamps are
stored in single precision, as LeRobot has them; all other numbers keep every bit.

Statistics are better than LeRobot's own in two places: the quantiles of the whole dataset are those
of its numbers and no average, and the standard deviation of pictures does not overflow.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from connectors.destination import Destination
from connectors.lerobot.writing.chosen import Chosen
from connectors.lerobot.writing.features import BOOKKEEPING_FEATURES
from connectors.lerobot.writing.info import features_json, info_json, stats_json
from connectors.lerobot.writing.layout import (
    CHUNK_FILES,
    DATA_FILE_MB,
    EPISODES_PATH,
    INFO_PATH,
    STATS_PATH,
    TASKS_PATH,
    V30_DATA_PATH,
    V30_VIDEO_PATH,
    VIDEO_FILE_MB,
    chunk_and_file,
)
from connectors.lerobot.writing.outcome import chosen_for, report_of
from connectors.lerobot.writing.stats import FIGURES, SetStats, episode_stats, nested, stats_type
from connectors.lerobot.writing.tasks import tasks_parquet
from connectors.lerobot.writing.v30_videos import write_camera
from connectors.lerobot.writing.videos import CameraFiles
from datalake.episodes import EpisodeSet
from datalake.episodes.export import ExportProgress, ExportReport, ExportSettings, RowArray
from datalake.episodes.statistics import FeatureStats
from datalake.recording import Feature
from datalake.uri import Location

__all__ = ["WRITER", "LeRobotV30Writer"]

_LIMIT_BYTES: Final = DATA_FILE_MB << 20
# Rows of the episodes' metadata in a row group.
_GROUP_ROWS: Final = 100


class LeRobotV30Writer:
    """Exporter for LeRobot v3.0."""

    name = "lerobot_v30"
    description = "a dataset for lerobot 0.4 and later"

    def export(
        self,
        episodes: EpisodeSet,
        rows: RowArray,
        destination: Location,
        settings: ExportSettings,
        progress: ExportProgress | None = None,
    ) -> ExportReport:
        """Write the episodes; see `datalake.episodes.export.Exporter`."""
        chosen = chosen_for(episodes, rows, settings, at_keyframes=False)
        counts: Counter[str] = Counter()
        with Destination(destination, marker=INFO_PATH, overwrite=settings.overwrite) as written:
            cameras = {
                camera: write_camera(chosen, camera, written, settings, counts, progress)
                for camera in chosen.spans
            }
            stats = _write_episodes(chosen, cameras, written, progress)
            written.write(TASKS_PATH, tasks_parquet(chosen.tasks.texts))
            written.write(STATS_PATH, json.dumps(stats_json(stats, chosen), indent=4).encode())
            first_files = {camera: files.first for camera, files in cameras.items()}
            features = features_json(chosen, first_files, encoded=settings.transcode is not None)
            written.write(INFO_PATH, info_json("v3.0", chosen, _own_info(bool(cameras)), features))
        return report_of(self.name, destination, chosen, written, cameras, counts)


WRITER: Final = LeRobotV30Writer()


def _own_info(has_videos: bool) -> dict[str, Any]:
    return {
        "chunks_size": CHUNK_FILES,
        "data_files_size_in_mb": DATA_FILE_MB,
        "video_files_size_in_mb": VIDEO_FILE_MB,
        "data_path": V30_DATA_PATH,
        "video_path": V30_VIDEO_PATH if has_videos else None,
    }


def _write_episodes(
    chosen: Chosen,
    cameras: Mapping[str, CameraFiles],
    written: Destination,
    progress: ExportProgress | None,
) -> Mapping[str, FeatureStats]:
    """Write the data files and the episodes' metadata; returns the statistics of all."""
    whole = SetStats(chosen)
    features = [*chosen.features, *BOOKKEEPING_FEATURES]
    with (
        _Files(written, V30_DATA_PATH, chosen.schema) as data,
        _Files(written, EPISODES_PATH, _episodes_schema(chosen, features)) as metadata,
    ):
        rows: list[dict[str, Any]] = []
        known = chosen.rows_of_episodes(["stats"])
        for number, (frames, own) in enumerate(zip(chosen.frames(), known, strict=True)):
            pictures = {
                camera: files.stats[number]
                for camera, files in cameras.items()
                if number in files.stats
            }
            stats = episode_stats(chosen.features, frames, own["stats"] or (), pictures)
            whole.add(stats)
            file = data.place(frames.num_rows)
            data.write(frames)
            rows.append(_placed(chosen, number, file, cameras, frames) | _flat(stats, features))
            if len(rows) == _GROUP_ROWS or number + 1 == len(chosen.rows):
                place = metadata.place(len(rows))
                for row in rows:
                    row |= {f"meta/episodes/{name}": index for name, index in place.items()}
                metadata.write(pa.Table.from_pylist(rows, metadata.schema))
                rows.clear()
            if progress is not None:
                progress.update(number + 1, total=len(chosen.rows))
    return whole.finish()


def _placed(
    chosen: Chosen,
    number: int,
    file: Mapping[str, int],
    cameras: Mapping[str, CameraFiles],
    frames: pa.Table,
) -> dict[str, Any]:
    """Where an episode is in the files."""
    used = frames["task_index"].unique().to_pylist()
    row: dict[str, Any] = {
        "episode_index": number,
        "tasks": [chosen.tasks.texts[task] for task in used],
        "length": frames.num_rows,
        "data/chunk_index": file["chunk_index"],
        "data/file_index": file["file_index"],
        "dataset_from_index": int(chosen.starts[number]),
        "dataset_to_index": int(chosen.starts[number + 1]),
    }
    for camera, files in cameras.items():
        from_s = float(files.from_s[number])
        place = chunk_and_file(int(files.files[number]))
        row[f"videos/{camera}/chunk_index"] = place["chunk_index"]
        row[f"videos/{camera}/file_index"] = place["file_index"]
        row[f"videos/{camera}/from_timestamp"] = from_s
        row[f"videos/{camera}/to_timestamp"] = from_s + frames.num_rows / chosen.fps
    return row


def _flat(stats: Mapping[str, FeatureStats], features: list[Feature]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for feature in features:
        if feature.name in stats:
            own = stats[feature.name]
            for name, figure in own.as_dict().items():
                row[f"stats/{feature.name}/{name}"] = nested(figure, feature)
            row[f"stats/{feature.name}/count"] = [own.count]
    return row


def _episodes_schema(chosen: Chosen, features: list[Feature]) -> pa.Schema:
    numbers = {
        name: pa.int64()
        for name in (
            "data/chunk_index",
            "data/file_index",
            "dataset_from_index",
            "dataset_to_index",
        )
    }
    columns = {
        "episode_index": pa.int64(),
        "tasks": pa.list_(pa.string()),
        "length": pa.int64(),
        **numbers,
    }
    for camera in chosen.spans:
        columns[f"videos/{camera}/chunk_index"] = pa.int64()
        columns[f"videos/{camera}/file_index"] = pa.int64()
        columns[f"videos/{camera}/from_timestamp"] = pa.float64()
        columns[f"videos/{camera}/to_timestamp"] = pa.float64()
    for feature in features:
        if feature.dtype != "string":
            for figure in FIGURES:
                columns[f"stats/{feature.name}/{figure}"] = stats_type(feature, figure)
    columns["meta/episodes/chunk_index"] = pa.int64()
    columns["meta/episodes/file_index"] = pa.int64()
    return pa.schema(list(columns.items()))


class _Files:
    """Parquet files of one schema, one row group a table; the next one begins when one is full."""

    def __init__(self, destination: Destination, path: str, schema: pa.Schema) -> None:
        self.schema = schema
        self._destination = destination
        self._path = path
        self._number = 0
        self._rows = 0
        self._file: IO[bytes] | None = None
        self._writer: pq.ParquetWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def place(self, num_rows: int) -> Mapping[str, int]:
        """The indices of the file that the next rows go to, so many of them."""
        if self._file is not None:
            num_bytes = self._file.tell()
            if num_bytes * (1 + num_rows / self._rows) >= _LIMIT_BYTES:
                self._close()
                self._number += 1
        return chunk_and_file(self._number)

    def write(self, table: pa.Table) -> None:
        """Write a row group to the file that `place` named."""
        if self._writer is None:
            indices = chunk_and_file(self._number)
            self._file = self._destination.open(self._path.format(**indices))
            self._writer = pq.ParquetWriter(self._file, self.schema, compression="snappy")
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows += table.num_rows

    def _close(self) -> None:
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.close()
        self._writer = self._file = None
        self._rows = 0
