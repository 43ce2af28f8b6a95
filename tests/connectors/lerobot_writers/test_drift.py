"""A camera that runs a little slower than the dataset says, and timestamps that follow it."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datalake.lake import Lake
from datalake.pipelines import ingest
from datalake.video import encode, probe
from scripts.broken_robot_datasets import CAMERA, FPS, LENGTHS, write_good
from tests.connectors.lerobot_writers.conftest import Export
from tests.robots import clip_frames

RATE = Fraction(FPS) * Fraction(9995, 10000)


def test_timestamps_that_follow_their_camera_are_found(
    lake: Lake, export: Export, tmp_path: Path
) -> None:
    source = tmp_path / "slow"
    write_good(source, "v2.1")
    for number, length in enumerate(LENGTHS):
        path = source / f"data/chunk-000/episode_{number:06d}.parquet"
        rows = pq.read_table(path)
        times = pa.array((np.arange(length) / float(RATE)).astype("float32"))
        column = rows.schema.get_field_index("timestamp")
        pq.write_table(rows.set_column(column, "timestamp", times), path)
        video = encode(clip_frames(length, size=(64, 48)), RATE)
        (source / f"videos/chunk-000/{CAMERA}/episode_{number:06d}.mp4").write_bytes(video)
    report = ingest(lake, source, "slow", executor="local")
    assert dict(report.refused) == {}

    written, _ = export(lake, "slow", "v30")
    info = json.loads((written / "meta/info.json").read_text())
    assert info["total_frames"] == sum(LENGTHS)
    times = pq.read_table(written / "data/chunk-000/file-000.parquet", columns=["timestamp"])
    stamps = times["timestamp"].to_numpy().astype(float)
    for row in pq.read_table(written / "meta/episodes/chunk-000/file-000.parquet").to_pylist():
        file = row[f"videos/{CAMERA}/file_index"]
        video = probe(
            io.BytesIO((written / f"videos/{CAMERA}/chunk-000/file-{file:03d}.mp4").read_bytes())
        )
        own = stamps[row["dataset_from_index"] : row["dataset_to_index"]]
        wanted = own + row[f"videos/{CAMERA}/from_timestamp"]
        # LeRobot's rule: the frame of this number, within 1e-4 s.
        numbers = np.round(wanted * video.fps).astype(int)
        assert np.abs(video.times()[numbers] - wanted).max() < 1e-4
