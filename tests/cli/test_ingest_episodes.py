"""`datalake ingest` and `datalake quarantine` of robot data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from datalake.detection import connector
from datalake.episodes import open_episodes
from datalake.episodes.check import check_corpus
from datalake.errors import InputError
from datalake.lake import open_lake
from datalake.pipelines import ingest
from datalake.recording import EpisodeCorpus, Severity
from datalake.uri import locate
from scripts import broken_robot_datasets as zoo
from tests.cli.conftest import Cli


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ingest") / "datasets"
    zoo.make(root)
    return root


def test_a_dataset_is_recognised_ingested_and_gone_on_with(
    cli: Cli, datasets: Path, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    shutil.copytree(datasets / "v2.1-video_absent", tmp_path / "data")
    command = ("ingest", tmp_path / "data", "g1", "--lake", lake, "--executor", "local")

    done = cli(*command)
    assert done.returncode == 3, done.stderr
    assert "lerobot: meta/info.json with codebase_version v2.1" in done.stderr
    assert "videos/s" in done.stderr or "episodes/s" in done.stderr
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0].startswith("Ingested data (lerobot) from ")
    assert "2 added" in lines
    assert "1 quarantined: video_missing" in lines
    assert "(state and action alone can be had with --without-video)" in lines

    done = cli("quarantine", "g1", "--lake", lake)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split() == ["video_missing", "1"]
    assert "data/000001" in done.stdout
    assert "videos/" in done.stdout
    said = json.loads(cli("quarantine", "g1", "--lake", lake, "--json").stdout)
    assert said["reasons"] == {"video_missing": 1}
    assert said["rows"][0]["episode_id"] == "data/000001"

    good = datasets / "v2.1-good" / zoo.video_v21(1)
    (tmp_path / "data" / zoo.video_v21(1)).write_bytes(good.read_bytes())
    done = cli(*command, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["num_added"], report["num_unchanged"], report["num_videos_added"]) == (1, 2, 1)
    assert done.stderr == ""
    assert cli("quarantine", "g1", "--lake", lake).stdout == "No episode of g1 was refused\n"


def test_what_cannot_be_is_one_paragraph(cli: Cli, datasets: Path, tmp_path: Path) -> None:
    lake = ("--lake", tmp_path / "lake", "--executor", "local", "--quiet")
    for dataset, options, says in [
        ("v2.1-info_empty", (), "the file is empty"),
        ("v2.1-good", ("--transcode", "flac16k"), "expected h264, hevc, av1"),
        ("v2.1-nan_action", ("--on-error", "raise"), "[non_finite]"),
    ]:
        done = cli("ingest", datasets / dataset, "robots", *lake, *options)
        assert done.returncode in (1, 2), done.stdout
        assert done.stdout == ""
        assert says.lower() in done.stderr.lower()
        assert done.stderr.count("\n") == 1


def test_check_and_ingest_refuse_the_same_for_the_same_reasons(datasets: Path) -> None:
    for folder in sorted(folder for folder in datasets.iterdir() if (folder / "meta").is_dir()):
        corpus = connector("lerobot").open(locate(folder), {})
        assert isinstance(corpus, EpisodeCorpus)
        found = [f for f in check_corpus(corpus) if f.severity is Severity.ERROR]
        lake = open_lake(f"memory://{folder.name}")
        if any(finding.episode_id is None for finding in found):
            with pytest.raises(InputError):
                ingest(lake, folder, "g1", connector="lerobot", executor="local")
            continue
        report = ingest(lake, folder, "g1", connector="lerobot", executor="local")
        expected = {(finding.episode_id, str(finding.reason)) for finding in found}
        refused = set()
        if "g1.quarantine" in lake:
            rows = lake["g1.quarantine"].scan(["episode_id", "reason"]).read_all().to_pylist()
            refused = {(row["episode_id"], row["reason"]) for row in rows}
        assert refused == expected, folder.name
        assert report.num_refused == len({episode_id for episode_id, _ in expected}), folder.name


@pytest.mark.shared
def test_a_real_dataset_arrives_bit_by_bit(shared_dir: Path, tmp_path: Path) -> None:
    root = shared_dir / "data/robot/g1_pick_v21"
    lake = open_lake(tmp_path / "lake")
    ingest(lake, root, "g1", connector="lerobot", executor="local")
    g1 = open_episodes(lake, "g1")
    frames = g1.frames.scan().read_all()
    files = sorted(root.glob("data/*/*.parquet"))
    assert g1.index.lengths.tolist() == [pq.read_metadata(file).num_rows for file in files]
    for start, file in zip(g1.index.starts, files, strict=False):
        source = pq.read_table(file)
        mine = frames.slice(start, source.num_rows)
        for name in ("observation.state", "action"):
            theirs = np.stack(source[name].to_numpy())
            ours = np.stack(mine[name.replace(".", "/")].to_numpy())
            assert ours.dtype == theirs.dtype
            assert ours.tobytes() == theirs.tobytes()
        assert mine["timestamp"].to_numpy().tolist() == source["timestamp"].to_numpy().tolist()
    for row in g1.videos.scan(["path", "video", "num_frames"]).read_all().to_pylist():
        assert row["video"] == (root / row["path"]).read_bytes()
    assert sum(g1.videos.scan(["num_frames"]).read_all()["num_frames"].to_pylist()) == 1583


@pytest.mark.shared
def test_a_real_dataset_without_its_videos_is_usable(shared_dir: Path, tmp_path: Path) -> None:
    root = shared_dir / "data/robot/so101_v30_novideo"
    lake = open_lake(tmp_path / "lake")
    report = ingest(lake, root, "so101", connector="lerobot", executor="local")
    assert report.refused == {"video_missing": 4}
    report = ingest(lake, root, "so101", connector="lerobot", executor="local", without_video=True)
    assert (report.num_added, report.exit_code) == (4, 0)
    source = pq.read_table(root / "data/chunk-000/file-000.parquet")
    frames = open_episodes(lake, "so101").frames.scan().read_all()
    ours, theirs = (np.stack(table["action"].to_numpy()) for table in (frames, source))
    assert ours.tobytes() == theirs.tobytes()
