"""What was exported is read again by our own reader, which knows nothing of the writers."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datalake.detection import connector
from datalake.episodes import EpisodeSet, open_episodes
from datalake.episodes.check import check_corpus
from datalake.episodes.export import export_episodes
from datalake.episodes.walk import walk
from datalake.lake import Lake, open_lake
from datalake.pipelines import ingest
from datalake.recording import EpisodeCorpus
from datalake.uri import locate
from datalake.video import VideoReader
from tests.connectors.lerobot_writers.conftest import Export, info_of
from tests.connectors.lerobot_writers.sets import ODD, write_set


def brought_back(lake: Lake, path: Path) -> EpisodeSet:
    """The export, ingested into the lake it came from."""
    corpus = connector("lerobot").open(locate(path), {})
    assert isinstance(corpus, EpisodeCorpus)
    assert [found.detail for found in check_corpus(corpus)] == []
    report = ingest(lake, path, "back", executor="local", connector="lerobot")
    assert not report.refused
    return open_episodes(lake, "back")


def assert_same(source: EpisodeSet, back: EpisodeSet) -> None:
    columns = [
        "timestamp",
        "task_index",
        *(f.column for f in source.features if f.dtype != "video"),
    ]
    assert [f.name for f in back.features] == [f.name for f in source.features]
    rows = range(len(source.index.lengths))
    pairs = zip(walk(source, rows, columns), walk(back, rows, columns), strict=True)
    for theirs, mine in pairs:
        # NaN equals nothing, so bytes are compared.
        for name in columns:
            one, other = (table[name].combine_chunks() for table in (theirs, mine))
            assert one.type == other.type
            assert one.to_pylist() == other.to_pylist() or _bits(one) == _bits(other)
    said = ("task", "fps", "length", "embodiment")
    theirs, mine = (each.episodes.scan(said).read_all().to_pylist() for each in (source, back))
    assert mine == theirs


def _bits(column: object) -> bytes:
    flat = column.flatten() if hasattr(column, "flatten") else column  # type: ignore[attr-defined]
    return bytes(flat.to_numpy(zero_copy_only=False).tobytes())  # type: ignore[attr-defined]


def frames_of(source: EpisodeSet, number: int, camera: str) -> list[bytes]:
    """The decoded frames of an episode."""
    row = source.episodes.take([number]).to_pylist()[0]
    span = next(span for span in row["videos"] if span["feature"] == camera)
    ids = source.videos.scan(["video_id"]).read_all()["video_id"].to_pylist()
    data = source.videos.take([ids.index(span["video_id"])], ["video"])["video"][0].as_buffer()
    with VideoReader(data) as reader:
        first = int(reader.info.frame_at(span["from_s"]))
        return [frame.tobytes() for frame in reader.iterate(first, first + row["length"])]


@pytest.mark.parametrize("version", ["v30", "v21"])
def test_robots(robots: Lake, export: Export, version: str, tmp_path: Path) -> None:
    path, _ = export(robots, "g1", version)
    source = open_episodes(robots, "g1")
    back = brought_back(open_lake(tmp_path / "back"), path)
    assert_same(source, back)
    camera = next(f.name for f in source.features if f.dtype == "video")
    for number in range(5):
        assert frames_of(source, number, camera) == frames_of(back, number, camera)


@pytest.mark.parametrize("version", ["v30", "v21"])
def test_every_kind_of_number(lake: Lake, export: Export, version: str) -> None:
    finite = [feature for feature in ODD if feature.name != "action"]
    source = write_set(lake, "odd", finite, tasks=(((0, "a"), (1, "b")), ((1, "b"),)))
    path, _ = export(lake, "odd", version)
    assert_same(source, brought_back(lake, path))


@pytest.mark.shared
@pytest.mark.parametrize("version", ["v30", "v21"])
def test_real_g1(shared_dir: Path, tmp_path: Path, version: str) -> None:
    real = shared_dir / "data/robot/g1_pick_v21"
    if not real.is_dir():
        pytest.skip(f"no {real}")
    lake = open_lake(tmp_path / "lake")
    ingest(lake, real, "g1", executor="local", connector="lerobot")
    path = tmp_path / "export"
    report = export_episodes(lake, "g1", path, exporter=f"lerobot_{version}")
    assert (report.num_episodes, report.num_frames) == (6, 1583)
    info, said = info_of(path), info_of(real)
    for key in ("robot_type", "fps", "features", "splits", "total_tasks"):
        assert info[key] == said[key]
    written = [pq.read_table(file) for file in sorted((path / "data").glob("*/*"))]
    theirs = [pq.read_table(file) for file in sorted((real / "data").glob("*/*"))]
    if version == "v21":
        # Real files: the export is the dataset again, its videos byte for byte.
        assert all(mine.equals(own) for mine, own in zip(written, theirs, strict=True))
        videos = sorted((real / "videos").rglob("*.mp4"))
        assert all(
            (path / file.relative_to(real)).read_bytes() == file.read_bytes() for file in videos
        )
        for name in ("tasks.jsonl", "episodes.jsonl"):
            lines = (path / "meta" / name).read_text().splitlines()
            assert lines == (real / "meta" / name).read_text().splitlines()
    else:
        import pyarrow as pa

        assert written[0].equals(pa.concat_tables(theirs))
        assert report.num_videos_joined == 6
