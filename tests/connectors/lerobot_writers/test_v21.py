"""Version 2.1: a Parquet file an episode, a video file an episode and camera."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datalake.episodes import open_episodes
from datalake.errors import InputError
from datalake.lake import Lake, Lineage
from datalake.video import VideoReader, probe
from tests.connectors.lerobot_writers.conftest import Export, info_of, lines_of
from tests.robots import CAMERA, LENGTHS, TASKS, write_robots


def video_of(path: Path, number: int) -> bytes:
    return (path / f"videos/chunk-000/{CAMERA}/episode_{number:06d}.mp4").read_bytes()


def test_layout(robots: Lake, export: Export) -> None:
    path, report = export(robots, "g1", "v21")
    numbers = range(len(LENGTHS))
    assert {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()} == {
        *(f"data/chunk-000/episode_{number:06d}.parquet" for number in numbers),
        *(f"videos/chunk-000/{CAMERA}/episode_{number:06d}.mp4" for number in numbers),
        *(f"meta/{name}" for name in ("info.json", "tasks.jsonl", "episodes.jsonl")),
        "meta/episodes_stats.jsonl",
    }
    info = info_of(path)
    features = info.pop("features")
    assert info == {
        "codebase_version": "v2.1",
        "robot_type": "arm",
        "total_episodes": 5,
        "total_frames": 63,
        "total_tasks": 2,
        "total_videos": 5,
        "total_chunks": 1,
        "chunks_size": 1000,
        "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": (
            "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
        ),
        "fps": 10,
        "splits": {"train": "0:5"},
    }
    assert features["action"]["names"] == ["joint_0", "joint_1", "joint_2"]
    assert lines_of(path / "meta/tasks.jsonl") == [
        {"task_index": 0, "task": TASKS[0]},
        {"task_index": 1, "task": TASKS[1]},
    ]
    assert lines_of(path / "meta/episodes.jsonl") == [
        {"episode_index": number, "tasks": [TASKS[number % 2]], "length": LENGTHS[number]}
        for number in numbers
    ]
    for line in lines_of(path / "meta/episodes_stats.jsonl"):
        stats, length = line["stats"], LENGTHS[line["episode_index"]]
        assert stats["action"]["count"] == [length]
        assert stats["frame_index"]["max"] == [length - 1]
        assert np.shape(stats[CAMERA]["mean"]) == (3, 1, 1)
    data = pq.read_table(path / "data/chunk-000/episode_000002.parquet")
    assert data["index"].to_pylist() == list(range(19, 39))
    assert data["task_index"].unique().to_pylist() == [0]
    assert (report.num_videos_copied, report.num_videos_cut) == (3, 2)


def test_an_episodes_own_file_is_written_byte_for_byte(robots: Lake, export: Export) -> None:
    path, _ = export(robots, "g1", "v21")
    videos = open_episodes(robots, "g1").videos.scan(["video"]).read_all()["video"].to_pylist()
    assert [video_of(path, number) for number in (2, 3, 4)] == videos[1:]


def test_shared_files_are_cut_at_keyframes(robots: Lake, export: Export) -> None:
    # Episode 1 begins at frame 12, and a keyframe is wherever the encoder put one.
    shared = open_episodes(robots, "g1").videos.take([0], ["video"])["video"][0].as_py()
    assert LENGTHS[0] in probe(shared).keyframes
    path, _ = export(robots, "g1", "v21")
    with VideoReader(shared) as stored:
        for number, first in ((0, 0), (1, LENGTHS[0])):
            with VideoReader(video_of(path, number)) as own:
                assert own.info.num_frames == LENGTHS[number]
                assert own.info.times()[0] == 0
                expected = stored.frames(np.arange(first, first + LENGTHS[number]))
                assert (own.frames(np.arange(LENGTHS[number])) == expected).all()


def test_without_a_keyframe_it_takes_transcoding(lake: Lake, export: Export) -> None:
    source = write_robots(lake, lengths=(11, 8))
    rows = source.episodes.scan().read_all().to_pylist()
    keyframes = probe(source.videos.take([0], ["video"])["video"][0].as_py()).keyframes
    first = next(number for number in range(1, 19) if number not in keyframes)
    rows[1]["videos"][0]["from_s"] = first / 10
    rows[1]["videos"][0]["to_s"] = (first + 8) / 10
    source.rewrite(pa.Table.from_pylist(rows, source.episodes.schema), lineage=Lineage("test"))
    with pytest.raises(InputError, match=r"robots/000001.*--transcode") as caught:
        export(lake, "g1", "v21")
    assert f"frame {first}" in str(caught.value)
    path, report = export(lake, "g1", "v21", transcode="h264")
    assert report.num_videos_encoded == 2
    assert probe(video_of(path, 1)).num_frames == 8
    # Version 3.0 needs neither.
    export(lake, "g1", "v30", overwrite=True)


def test_a_video_that_is_too_short(lake: Lake, export: Export) -> None:
    source = write_robots(lake, lengths=(11, 8))
    rows = source.episodes.scan().read_all().to_pylist()
    rows[1]["videos"][0]["from_s"] = 1.5
    source.rewrite(pa.Table.from_pylist(rows, source.episodes.schema), lineage=Lineage("test"))
    for version in ("v21", "v30"):
        with pytest.raises(InputError, match="8 frames, the video only 4"):
            export(lake, "g1", version)
