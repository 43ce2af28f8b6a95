"""`datalake export`: what it writes, says and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalake.lake import open_lake
from tests.cli.conftest import Cli
from tests.robots import write_robots


@pytest.fixture(scope="module")
def robots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "lake"
    write_robots(open_lake(path), image=False)
    return path


def test_export(cli: Cli, robots: Path, tmp_path: Path) -> None:
    done = cli("export", "g1", tmp_path / "out", "--lake", robots)
    assert done.returncode == 0, done.stderr
    assert "g1 (version 3) is exported to" in done.stdout
    assert "5 episodes, 63 frames, 2 tasks" in done.stdout
    assert "2 video files (stored ones: 1 copied, 3 joined)" in done.stdout
    assert "robot_type is null" in done.stdout
    info = json.loads((tmp_path / "out/meta/info.json").read_text())
    assert info["codebase_version"] == "v3.0"

    again = cli("export", "g1", tmp_path / "out", "--lake", robots)
    assert (again.returncode, "--overwrite" in again.stderr) == (2, True)
    chosen = ("--where", "embodiment = 'humanoid'", "--as", "lerobot_v21", "--json")
    done = cli("export", "g1", "out", "--overwrite", *chosen, "--lake", robots, "--quiet")
    report = json.loads(done.stdout)
    assert (report["num_episodes"], report["num_videos_cut"], done.stderr) == (2, 1, "")
    info = json.loads((tmp_path / "out/meta/info.json").read_text())
    assert (info["codebase_version"], info["robot_type"]) == ("v2.1", "humanoid")


def test_refusals(cli: Cli, robots: Path, tmp_path: Path) -> None:
    for args, said in (
        (
            ("g1", "out", "--as", "lerobot"),
            "There is no exporter 'lerobot'. Did you mean lerobot_v",
        ),
        (("g1", "out", "--episodes", "robots/000009"), "There is no episode 'robots/000009'"),
        (("g1", robots), "destination is there"),
        (("g1", "out", "--transcode", "mpeg2"), "h264"),
    ):
        done = cli("export", *args, "--lake", robots)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
