"""The LeRobot connector on datasets of all three versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.lerobot.connector import CONNECTOR
from connectors.lerobot.corpus import LeRobotCorpus
from datalake.errors import InputError
from datalake.quarantine import Reason
from datalake.recording import BadEpisode, EpisodeData, Severity
from datalake.testing.episode_connector_suite import LFS_POINTER, EpisodeConnectorSuite, read_all
from datalake.uri import locate
from tests.connectors.robots.lerobot_datasets import (
    CAMERA,
    LENGTHS,
    TASKS,
    frames,
    write_v2,
    write_v3,
)

REAL = Path(__file__).parents[3].parent / "shared/data/robot"
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="needs the real robot data of a checkout")


def _files(root: Path) -> dict[str, bytes]:
    found = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


class TestV20(EpisodeConnectorSuite):
    connector = CONNECTOR

    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Mapping[str, bytes]:
        return _files(write_v2(tmp_path / "made", version="v2.0"))


class TestV21(TestV20):
    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Mapping[str, bytes]:
        return _files(write_v2(tmp_path / "made"))


class TestV30(TestV20):
    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Mapping[str, bytes]:
        return _files(write_v3(tmp_path / "made"))


@pytest.fixture(params=["v2.0", "v2.1", "v3.0"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "v3.0":
        return write_v3(tmp_path / "toy")
    return write_v2(tmp_path / "toy", version=request.param)


def _open(root: Path, **options: str) -> LeRobotCorpus:
    return CONNECTOR.open(locate(root), options)


def _findings(root: Path) -> list[tuple[Reason, Severity]]:
    return [(finding.reason, finding.severity) for finding in _open(root).findings()]


def test_values_arrive_bit_by_bit(dataset: Path) -> None:
    first = 0
    for number, data in enumerate(read_all(_open(dataset))):
        assert isinstance(data, EpisodeData)
        expected = frames(number, LENGTHS[number], first)
        first += LENGTHS[number]
        for name in expected.column_names:
            found, wanted = data.frames[name].to_pylist(), expected[name].to_pylist()
            if name == "observation.wrist":
                wanted = [picture["bytes"] for picture in wanted]
            if name == "observation.pose":
                wanted = [np.ravel(pose).tolist() for pose in wanted]
            assert found == wanted, name


def test_says_what_the_metadata_say(dataset: Path) -> None:
    corpus = _open(dataset)
    assert (corpus.source, corpus.embodiment, corpus.fps) == ("toy", "toy_arm", 10.0)
    state, pose, wrist, camera, *_ = corpus.features
    assert (state.shape, state.names) == ((2,), ("x", "y"))
    assert (pose.dtype, pose.shape) == ("float64", (2, 3))
    assert (wrist.dtype, camera.dtype) == ("image", "video")
    assert list(corpus.findings()) == []
    refs = list(corpus.episodes())
    assert [ref.episode_id for ref in refs] == ["toy/000000", "toy/000001", "toy/000002"]
    assert [ref.length for ref in refs] == list(LENGTHS)
    episodes = [data for data in read_all(corpus) if isinstance(data, EpisodeData)]
    assert [data.split for data in episodes] == ["train", "train", "test"]
    assert [data.tasks for data in episodes] == [{0: TASKS[0]}, {1: TASKS[1]}, {0: TASKS[0]}]


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_gives_the_statistics_of_each_episode(version: str, tmp_path: Path) -> None:
    root = write_v3(tmp_path / "toy") if version == "v3.0" else write_v2(tmp_path / "toy")
    for number, data in enumerate(read_all(_open(root))):
        assert isinstance(data, EpisodeData)
        assert data.stats["action"]["min"] == [number, number]


def test_spans_say_where_in_a_shared_file_an_episode_is(tmp_path: Path) -> None:
    corpus = _open(write_v3(tmp_path / "toy"))
    assert [video.path for video in corpus.videos()] == [
        f"videos/{CAMERA}/chunk-000/file-000.mp4",
        f"videos/{CAMERA}/chunk-000/file-001.mp4",
    ]
    spans = [ref.videos[0] for ref in corpus.episodes()]
    assert [(span.from_s, span.to_s) for span in spans] == [(0.0, 0.5), (0.5, 0.8), (0.0, 0.4)]
    assert spans[0].video_id == spans[1].video_id != spans[2].video_id


@pytest.mark.parametrize("column", ["task", "__index_level_0__"])
def test_both_names_of_the_task_column_are_read(column: str, tmp_path: Path) -> None:
    data = read_all(_open(write_v3(tmp_path / "toy", task_column=column)))[0]
    assert isinstance(data, EpisodeData)
    assert data.tasks == {0: TASKS[0]}


def test_rows_are_found_where_a_file_lost_its_first_episode(tmp_path: Path) -> None:
    root = write_v3(tmp_path / "toy")
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    data = read_all(_open(root))[0]
    assert isinstance(data, EpisodeData)
    assert set(data.frames["episode_index"].to_pylist()) == {1}


def test_index_may_begin_anew_in_each_file(tmp_path: Path) -> None:
    root = write_v3(tmp_path / "toy")
    path = root / "data/chunk-000/file-001.parquet"
    table = pq.read_table(path)
    column = table.schema.get_field_index("index")
    pq.write_table(table.set_column(column, "index", pa.array(range(len(table)))), path)
    data = read_all(_open(root))[2]
    assert isinstance(data, EpisodeData)
    assert data.frames["episode_index"].to_pylist() == [2] * LENGTHS[2]


def test_rows_need_not_lie_in_groups_of_their_own(tmp_path: Path) -> None:
    root = write_v3(tmp_path / "toy")
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path), path, row_group_size=3)
    lengths = [
        data.frames["episode_index"].to_pylist()
        for data in read_all(_open(root))
        if isinstance(data, EpisodeData)
    ]
    assert lengths == [[0] * 5, [1] * 3, [2] * 4]


def test_a_picture_may_be_a_file_of_its_own(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "toy")
    path = root / "data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path)
    pictures = [{"bytes": None, "path": f"images/{frame}.png"} for frame in range(5)]
    column = table.schema.get_field_index("observation.wrist")
    kind = table.schema.field(column).type
    pq.write_table(table.set_column(column, "observation.wrist", pa.array(pictures, kind)), path)
    missing = read_all(_open(root))[0]
    assert isinstance(missing, BadEpisode)
    assert missing.reason == Reason.NOT_FOUND
    (root / "images").mkdir()
    for frame in range(5):
        (root / f"images/{frame}.png").write_bytes(b"png%d" % frame)
    data = read_all(_open(root))[0]
    assert isinstance(data, EpisodeData)
    assert data.frames["observation.wrist"].to_pylist() == [b"png%d" % i for i in range(5)]


def test_finds_the_snapshot_in_a_cache_of_the_hub(tmp_path: Path) -> None:
    repository = tmp_path / "datasets--lab--pick_toys"
    write_v2(repository / "snapshots/aaa")
    write_v3(repository / "snapshots/bbb")
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("aaa")
    corpus = _open(repository)
    assert corpus.source == "pick_toys"
    assert corpus.info is not None
    assert corpus.info.version == "v2.1"
    assert _open(repository / "snapshots/bbb").source == "pick_toys"


def test_options_name_source_and_embodiment(tmp_path: Path) -> None:
    corpus = _open(write_v2(tmp_path / "toy"), source="other", embodiment="arm7")
    assert corpus.embodiment == "arm7"
    assert next(ref.episode_id for ref in corpus.episodes()) == "other/000000"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.EMPTY_METADATA),
        ("{", Reason.EMPTY_METADATA),
        ("[]", Reason.EMPTY_METADATA),
        ('{"codebase_version": "v1.6"}', Reason.UNSUPPORTED),
        ('{"codebase_version": "v2.1", "fps": 0}', Reason.EMPTY_METADATA),
        ('{"codebase_version": "v2.1", "fps": 10, "features": {}}', Reason.EMPTY_METADATA),
        (LFS_POINTER.decode(), Reason.LFS_POINTER),
    ],
)
def test_a_faulty_info_is_a_finding(text: str, reason: Reason, tmp_path: Path) -> None:
    root = write_v2(tmp_path / "toy")
    (root / "meta/info.json").write_text(text)
    assert CONNECTOR.detect(locate(root)) is not None
    assert _findings(root) == [(reason, Severity.ERROR)]
    assert list(_open(root).episodes()) == []


def test_names_faults_of_the_metadata(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "toy")
    info = json.loads((root / "meta/info.json").read_text())
    (root / "meta/info.json").write_text(json.dumps({**info, "total_frames": 99}))
    assert _findings(root) == [(Reason.METADATA_MISMATCH, Severity.WARNING)]
    (root / "meta/info.json").write_text(json.dumps(info))

    lines = (root / "meta/episodes.jsonl").read_text().splitlines()
    (root / "meta/episodes.jsonl").write_text("\n".join([lines[0], lines[0], lines[2]]))
    # Listed twice, a gap, another sum of frames, and a file that nothing names.
    assert [reason for reason, _ in _findings(root)] == [
        Reason.METADATA_MISMATCH,
        Reason.INDEX_GAP,
        Reason.METADATA_MISMATCH,
        Reason.METADATA_MISMATCH,
    ]
    assert len(list(_open(root).episodes())) == 2
    (root / "meta/episodes.jsonl").write_text("\n".join(["nonsense", *lines[1:]]))
    assert _findings(root)[0] == (Reason.EMPTY_METADATA, Severity.ERROR)


def test_names_what_a_lost_recording_lacks(tmp_path: Path) -> None:
    root = write_v3(tmp_path / "toy")
    (root / "meta/episodes/chunk-000/file-000.parquet").unlink()
    assert _findings(root)[0] == (Reason.EMPTY_METADATA, Severity.ERROR)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: b"", Reason.EMPTY),
        (lambda data: LFS_POINTER, Reason.LFS_POINTER),
        (lambda data: data[: len(data) // 2], Reason.TRUNCATED),
        (lambda data: b"no parquet" * 20, Reason.CORRUPT),
    ],
)
def test_names_what_is_wrong_with_a_data_file(damage, reason, dataset: Path) -> None:
    path = sorted(dataset.glob("data/*/*.parquet"))[0]
    path.write_bytes(damage(path.read_bytes()))
    found = read_all(_open(dataset))
    assert isinstance(found[0], BadEpisode)
    assert found[0].reason == reason
    assert isinstance(found[-1], EpisodeData)


def test_a_missing_data_file_is_known_from_the_start(dataset: Path) -> None:
    sorted(dataset.glob("data/*/*.parquet"))[0].unlink()
    refs = list(_open(dataset).episodes())
    assert refs[0].refusal is not None
    assert refs[0].refusal[0] == Reason.NOT_FOUND
    assert refs[-1].refusal is None


def test_what_has_another_shape_stays_as_it_is(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "toy")
    path = root / "data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path)
    ragged = pa.array([[1.0]] * 4 + [[1.0, 2.0]], pa.list_(pa.float32()))
    column = table.schema.get_field_index("action")
    pq.write_table(table.set_column(column, "action", ragged), path)
    data = read_all(_open(root))[0]
    assert isinstance(data, EpisodeData)
    assert data.frames["action"].to_pylist() == ragged.to_pylist()


def _stored_as(root: Path, name: str, column: Any) -> None:
    for path in root.glob("data/*/*.parquet"):
        table = pq.read_table(path)
        place = table.schema.get_field_index(name)
        pq.write_table(table.set_column(place, name, column(table[name])), path)


def test_numbers_stored_as_another_type_are_taken_so(dataset: Path) -> None:
    """info.json by hand, the files by pandas; lerobot does not mind."""
    before = [data.frames["action"].to_pylist() for data in read_all(_open(dataset))]
    _stored_as(dataset, "action", lambda c: c.cast(pa.list_(pa.float64())))
    assert _findings(dataset) == [(Reason.SHAPE_CHANGED, Severity.WARNING)]
    corpus = _open(dataset)
    (action,) = [feature for feature in corpus.features if feature.name == "action"]
    assert action.dtype == "float64"
    read = read_all(corpus)
    assert {data.frames["action"].type for data in read} == {action.arrow_type}
    assert [data.frames["action"].to_pylist() for data in read] == before


def test_bookkeeping_in_lists_of_one(dataset: Path) -> None:
    before = [data.frames["timestamp"] for data in read_all(_open(dataset))]
    _stored_as(
        dataset, "timestamp", lambda c: pa.array([[t] for t in c.to_pylist()], pa.list_(c.type))
    )
    assert [data.frames["timestamp"] for data in read_all(_open(dataset))] == before


def test_a_folder_of_several_datasets_is_refused(tmp_path: Path) -> None:
    write_v2(tmp_path / "a")
    assert len(list(_open(tmp_path).episodes())) == 3
    write_v3(tmp_path / "b")
    with pytest.raises(InputError, match=r"several LeRobot datasets.*Found a, b"):
        _open(tmp_path)


def test_other_names_of_types(tmp_path: Path) -> None:
    root = write_v2(tmp_path / "toy")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["action"]["dtype"] = "float"
    (root / "meta/info.json").write_text(json.dumps(info))
    assert _findings(root) == []
    assert {feature.name: feature.dtype for feature in _open(root).features}["action"] == "float32"


@needs_real
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "num_episodes", "num_frames"),
    [("g1_pick_v21", 6, 1583), ("so101_v30_novideo", 4, 1492)],
)
def test_reads_real_datasets(name: str, num_episodes: int, num_frames: int) -> None:
    corpus = _open(REAL / name)
    assert list(corpus.findings()) == []
    episodes = [data for data in read_all(corpus) if isinstance(data, EpisodeData)]
    assert len(episodes) == num_episodes
    assert sum(data.frames.num_rows for data in episodes) == num_frames
    for data in episodes:
        state = data.frames["observation.state"].combine_chunks()
        values = state.flatten().to_numpy().reshape(len(state), -1)
        assert np.allclose(values.min(0), data.stats["observation.state"]["min"])
