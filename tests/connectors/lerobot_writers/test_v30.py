"""Version 3.0: the layout that lerobot 0.4.4 was seen to write and to read."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.lerobot.writing import v30, v30_videos
from datalake.episodes import open_episodes
from datalake.episodes.statistics import summarise_set
from datalake.errors import InputError
from datalake.lake import Lake
from datalake.video import VideoReader, probe
from tests.connectors.lerobot_writers.conftest import Export, info_of
from tests.connectors.lerobot_writers.sets import ODD, write_set
from tests.robots import CAMERA, LENGTHS, TASKS, WRIST, write_robots

STATS = ("min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99")


def episodes_of(path: Path) -> list[dict]:
    files = sorted((path / "meta/episodes").glob("*/*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_files_and_info(robots: Lake, export: Export) -> None:
    path, report = export(robots, "g1", "v30")
    assert sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()) == [
        "data/chunk-000/file-000.parquet",
        "meta/episodes/chunk-000/file-000.parquet",
        "meta/info.json",
        "meta/stats.json",
        "meta/tasks.parquet",
        f"videos/{CAMERA}/chunk-000/file-000.mp4",
        f"videos/{CAMERA}/chunk-000/file-001.mp4",
    ]
    info = info_of(path)
    features = info.pop("features")
    assert info == {
        "codebase_version": "v3.0",
        "robot_type": "arm",
        "total_episodes": 5,
        "total_frames": 63,
        "total_tasks": 2,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        "fps": 10,
        "splits": {"train": "0:5"},
    }
    assert list(features)[-5:] == [
        "timestamp",
        "frame_index",
        "episode_index",
        "index",
        "task_index",
    ]
    assert features["next.done"] == {"dtype": "bool", "shape": [1], "names": None}
    assert features["timestamp"] == {"dtype": "float32", "shape": [1], "names": None}
    camera = features[CAMERA]
    assert camera["names"] == ["height", "width", "channels"]
    assert camera["info"] == {
        "video.height": 24,
        "video.width": 32,
        "video.codec": "h264",
        "video.pix_fmt": "yuv420p",
        "video.is_depth_map": False,
        "video.fps": 10,
        "video.channels": 3,
        "has_audio": False,
    }
    assert (report.num_episodes, report.num_frames, report.num_tasks) == (5, 63, 2)
    assert report.num_bytes == sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    assert (report.num_videos_copied, report.num_videos_joined) == (1, 3)


def test_data_file(robots: Lake, export: Export) -> None:
    path, _ = export(robots, "g1", "v30")
    file = pq.ParquetFile(path / "data/chunk-000/file-000.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(5)] == list(LENGTHS)
    schema = file.schema_arrow
    assert schema.field("timestamp").type == pa.float32()
    assert schema.field("observation.state").type.list_size == 3
    assert schema.field("next.reward").type == pa.float32()
    assert schema.field(WRIST).type == pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    assert CAMERA not in schema.names
    said = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert said[WRIST] == {"_type": "Image"}
    assert said["action"]["length"] == 3
    assert said["index"] == {"dtype": "int64", "_type": "Value"}
    table = file.read()
    assert table["index"].to_pylist() == list(range(63))
    expected = np.concatenate([np.full(n, i) for i, n in enumerate(LENGTHS)])
    assert (table["episode_index"].to_numpy() == expected).all()
    assert (
        table["frame_index"].to_numpy() == np.concatenate([np.arange(n) for n in LENGTHS])
    ).all()


def test_values_keep_every_bit(lake: Lake, export: Export) -> None:
    source = write_set(lake, "odd", ODD, fps=12.5)
    path, report = export(lake, "odd", "v30")
    written = pq.read_table(path / "data/chunk-000/file-000.parquet")
    stored = source.frames.scan().read_all()
    for feature in ODD:
        mine, theirs = written[feature.name], stored[feature.column]
        if feature.dtype == "string":
            assert mine.to_pylist() == theirs.to_pylist()
            continue
        flat = pa.concat_arrays(mine.chunks)
        depth = 0
        while pa.types.is_nested(flat.type):
            flat, depth = flat.flatten(), depth + 1
        assert depth == (0 if feature.shape in ((), (1,)) else len(feature.shape))
        expected = pa.concat_arrays(theirs.chunks)
        if pa.types.is_nested(expected.type):
            expected = expected.flatten()
        assert flat.type == expected.type
        assert (
            flat.to_numpy(zero_copy_only=False).tobytes()
            == expected.to_numpy(zero_copy_only=False).tobytes()
        )
    said = json.loads(written.schema.metadata[b"huggingface"])["info"]["features"]
    assert said["observation.cube"] == {"shape": [2, 1, 2], "dtype": "float32", "_type": "Array3D"}
    assert info_of(path)["video_path"] is None
    assert info_of(path)["fps"] == 12.5
    assert any("12.5" in note for note in report.notes)


def test_episodes_metadata(robots: Lake, export: Export) -> None:
    path, _ = export(robots, "g1", "v30")
    rows = episodes_of(path)
    starts = np.cumsum([0, *LENGTHS])
    for number, row in enumerate(rows):
        assert row["episode_index"] == number
        assert row["tasks"] == [TASKS[number % 2]]
        assert row["length"] == LENGTHS[number]
        assert (row["dataset_from_index"], row["dataset_to_index"]) == tuple(starts[number:][:2])
        assert row["meta/episodes/file_index"] == row["data/file_index"] == 0
        for feature in ("action", "next.done", CAMERA, WRIST, "timestamp", "task_index"):
            for figure in STATS:
                assert row[f"stats/{feature}/{figure}"] is not None
        assert np.shape(row[f"stats/{CAMERA}/mean"]) == (3, 1, 1)
        assert row["stats/action/count"] == [LENGTHS[number]]
        assert "stats/note/min" not in row


def test_tasks_are_read_by_pandas(robots: Lake, export: Export) -> None:
    pandas = pytest.importorskip("pandas")
    path, _ = export(robots, "g1", "v30")
    tasks = pandas.read_parquet(path / "meta/tasks.parquet")
    assert list(tasks.columns) == ["task_index"]
    assert [tasks.iloc[i].name for i in range(2)] == list(TASKS)
    assert tasks.loc[TASKS[1]].task_index == 1


def test_statistics_of_the_whole_are_exact(robots: Lake, export: Export) -> None:
    path, _ = export(robots, "g1", "v30")
    said = json.loads((path / "meta/stats.json").read_text())
    for stats in summarise_set(open_episodes(robots, "g1")):
        for figure, values in stats.as_dict().items():
            assert np.allclose(said[stats.feature][figure], values, rtol=1e-12, atol=0)
        assert said[stats.feature]["count"] == [63]
    frames = pq.read_table(path / "data/chunk-000/file-000.parquet")
    for name in ("timestamp", "frame_index", "episode_index", "index", "task_index"):
        values = frames[name].to_numpy().astype(float)
        assert said[name]["q90"][0] == pytest.approx(np.quantile(values, 0.9))
        assert said[name]["std"][0] == pytest.approx(values.std())
    assert np.shape(said[CAMERA]["q50"]) == (3, 1, 1)
    assert all(0 <= value <= 1 for value in np.ravel(said[CAMERA]["max"]))


def test_known_statistics_are_written_as_they_are(robots: Lake, export: Export) -> None:
    source = open_episodes(robots, "g1")
    # The test set has none; give its pictures some.
    row = {
        "feature": CAMERA,
        **{figure: [0.25, 0.5, 0.75] for figure in ("min", "max", "mean", "std")},
        "count": 7,
    }
    lake = robots
    rows = source.episodes.scan().read_all()
    stats = pa.array([[row]] * rows.num_rows, rows.schema.field("stats").type)
    changed = rows.set_column(
        rows.schema.get_field_index("stats"), rows.schema.field("stats"), stats
    )
    from datalake.lake import Lineage

    source.rewrite(changed, lineage=Lineage("test"))
    try:
        path, _ = export(lake, "g1", "v30")
    finally:
        source.at().rewrite(rows, lineage=Lineage("test"))
    for found in episodes_of(path):
        assert np.ravel(found[f"stats/{CAMERA}/mean"]).tolist() == [0.25, 0.5, 0.75]
        assert found[f"stats/{CAMERA}/q50"] is None
        assert found["stats/action/q50"] is not None
    said = json.loads((path / "meta/stats.json").read_text())
    assert said[CAMERA]["count"] == [35]
    assert "q50" not in said[CAMERA]


def test_a_shared_file_is_written_byte_for_byte(robots: Lake, export: Export) -> None:
    path, _ = export(robots, "g1", "v30")
    rows = episodes_of(path)
    files = [row[f"videos/{CAMERA}/file_index"] for row in rows]
    assert files[0] == files[1] != files[2] == files[3] == files[4]
    stored = open_episodes(robots, "g1").videos.take([0], ["video"])["video"][0].as_py()
    written = path / f"videos/{CAMERA}/chunk-000/file-{files[0]:03d}.mp4"
    assert written.read_bytes() == stored
    assert rows[1][f"videos/{CAMERA}/from_timestamp"] == pytest.approx(LENGTHS[0] / 10)


def test_joined_files_keep_their_frames(robots: Lake, export: Export) -> None:
    path, _ = export(robots, "g1", "v30")
    videos = open_episodes(robots, "g1").videos
    for number, row in enumerate(episodes_of(path)[2:], start=2):
        file = row[f"videos/{CAMERA}/file_index"]
        data = (path / f"videos/{CAMERA}/chunk-000/file-{file:03d}.mp4").read_bytes()
        info = probe(data)
        assert info.num_frames == sum(LENGTHS[2:])
        begin = row[f"videos/{CAMERA}/from_timestamp"]
        times = begin + np.arange(LENGTHS[number]) / 10
        with VideoReader(data) as joined:
            found = joined.at(times)
        with VideoReader(videos.take([number - 1], ["video"])["video"][0].as_buffer()) as stored:
            assert (found == stored.frames(np.arange(LENGTHS[number]))).all()
        # As lerobot finds a frame: its time by the file's average rate.
        assert (np.round(times * info.fps) == info.frame_at(times)).all()


def test_files_can_be_kept(robots: Lake, export: Export) -> None:
    path, report = export(robots, "g1", "v30", join_videos=False)
    stored = open_episodes(robots, "g1").videos.scan(["video"]).read_all()["video"].to_pylist()
    written = sorted((path / f"videos/{CAMERA}").glob("*/*.mp4"))
    assert [file.read_bytes() for file in written] == stored
    assert report.num_videos_copied == len(stored)


def test_files_are_rolled(robots: Lake, export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v30, "_LIMIT_BYTES", 5_000)
    monkeypatch.setattr(v30, "_GROUP_ROWS", 2)
    monkeypatch.setattr(v30_videos, "_LIMIT_BYTES", 3_000)
    path, _ = export(robots, "g1", "v30")
    rows = episodes_of(path)
    assert [row["episode_index"] for row in rows] == list(range(5))
    assert len(list((path / "data").glob("*/*"))) > 1
    assert len(list((path / f"videos/{CAMERA}").glob("*/*"))) > 2
    for row in rows:
        name = "chunk-{:03d}/file-{:03d}.parquet"
        data = pq.read_table(
            path / "data" / name.format(row["data/chunk_index"], row["data/file_index"])
        )
        own = data.filter(pa.compute.equal(data["episode_index"], row["episode_index"]))
        assert own.num_rows == row["length"]
        place = row["meta/episodes/chunk_index"], row["meta/episodes/file_index"]
        metadata = pq.read_table(path / "meta/episodes" / name.format(*place))
        assert row["episode_index"] in metadata["episode_index"].to_pylist()


def test_a_part_of_a_set(robots: Lake, export: Export) -> None:
    ids = ["robots/000004", "robots/000001"]
    path, report = export(robots, "g1", "v30", episode_ids=ids)
    data = pq.read_table(path / "data/chunk-000/file-000.parquet")
    assert data.num_rows == LENGTHS[4] + LENGTHS[1]
    assert data["note"][0].as_py() == "frame 0 of 4 ✓"
    assert data["task_index"].unique().to_pylist() == [0, 1]
    # The file of episodes 0 and 1 is there whole, those of 2 and 3 are not.
    assert report.num_video_files == 2
    rows = episodes_of(path)
    assert [row["length"] for row in rows] == [LENGTHS[4], LENGTHS[1]]
    assert rows[1][f"videos/{CAMERA}/from_timestamp"] == pytest.approx(LENGTHS[0] / 10)


def test_where(robots: Lake, export: Export) -> None:
    path, _ = export(robots, "g1", "v30", where="length > 10")
    assert [row["length"] for row in episodes_of(path)] == [n for n in LENGTHS if n > 10]


def test_splits_become_ranges(lake: Lake, export: Export) -> None:
    write_set(lake, "odd", ODD[:2], (1, 2, 3, 4, 5), splits=("train", "test", None))
    path, _ = export(lake, "odd", "v30", by_split=True)
    assert info_of(path)["splits"] == {"train": "0:3", "test": "3:5"}
    assert [row["length"] for row in episodes_of(path)] == [1, 3, 4, 2, 5]
    data = pq.read_table(path / "data/chunk-000/file-000.parquet")
    assert data["index"].to_pylist() == list(range(15))


def test_videos_are_encoded_anew_when_asked(robots: Lake, export: Export) -> None:
    path, report = export(robots, "g1", "v30", transcode="hevc")
    assert report.num_videos_encoded == 5
    assert report.num_videos_copied == report.num_videos_joined == 0
    (file,) = (path / f"videos/{CAMERA}").glob("*/*.mp4")
    info = probe(io.BytesIO(file.read_bytes()))
    assert (info.codec, info.num_frames) == ("hevc", sum(LENGTHS))
    assert info_of(path)["features"][CAMERA]["info"]["video.codec"] == "hevc"


def test_what_the_source_said_comes_back(lake: Lake, export: Export) -> None:
    from dataclasses import replace

    nested = {"names": {"motors": ["x", "y", "z"]}, "fps": 10, "extra": [1]}
    state = replace(ODD[0], info=nested)
    write_set(lake, "odd", (state, replace(ODD[1], info={"names": ["old"]}, names=("a", "b"))))
    features = info_of(export(lake, "odd", "v30")[0])["features"]
    assert features["observation.state"] == {"dtype": "float64", "shape": [3], **nested}
    # Names that were changed since are those of the lake.
    assert features["action"]["names"] == ["a", "b"]


def test_frames_that_lerobot_would_not_find(lake: Lake, export: Export) -> None:
    # The episodes' rate is not that of their videos.
    source = write_robots(lake, fps=10.0)
    rows = source.episodes.scan().read_all()
    slower = pa.array([9.0] * rows.num_rows)
    from datalake.lake import Lineage

    source.rewrite(
        rows.set_column(rows.schema.get_field_index("fps"), rows.schema.field("fps"), slower),
        lineage=Lineage("test"),
    )
    with pytest.raises(InputError, match=r"stands .* ms from its time.*--transcode") as caught:
        export(lake, "g1", "v30")
    assert "robots/000000" in str(caught.value)
    path, report = export(lake, "g1", "v30", transcode="h264")
    assert report.num_videos_encoded == 5
    assert info_of(path)["fps"] == 9
