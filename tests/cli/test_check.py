"""`datalake check`: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import broken_robot_datasets as zoo
from tests.cli.conftest import Cli


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("check") / "datasets"
    zoo.make(root)
    return root


def test_a_good_dataset(cli: Cli, datasets: Path) -> None:
    done = cli("check", datasets / "v2.1-good", "--deep")
    assert done.returncode == 0
    assert done.stdout == "v2.1-good: 3 episodes, 0 of them bad; 0 errors, 0 warnings\n"
    assert "lerobot: meta/info.json" in done.stderr
    assert cli("check", datasets / "v3.0-good", "--quiet").stderr == ""


def test_errors_are_named_with_episode_and_frame(cli: Cli, datasets: Path) -> None:
    done = cli("check", datasets / "v2.1-nan_action", "--quiet")
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert lines[0] == "error  non_finite action"
    assert lines[1] == (
        "  v2.1-nan_action/000001 frame 4: expected numbers, found nan in element 1 (elbow)"
    )
    assert lines[-1].startswith("v2.1-nan_action: 3 episodes, 1 of them bad; 1 error,")


def test_warnings_do_not_fail(cli: Cli, datasets: Path) -> None:
    done = cli("check", datasets / "v2.1-task_without_text", "--quiet")
    assert done.returncode == 0
    assert done.stdout.startswith("warning  no_task")
    assert "0 errors" in done.stdout


def test_many_findings_are_counted(cli: Cli, datasets: Path) -> None:
    path = datasets / "v3.0-video_pointer"
    done = cli("check", path, "--quiet", "--max-findings", "1")
    assert "lfs_pointer observation.images.front: 3 in 3 episodes" in done.stdout
    assert "  … and 2 more (--json lists all)" in done.stdout
    report = json.loads(cli("check", path, "--json", "--quiet").stdout)
    assert report["connector"] == "lerobot"
    assert (report["num_episodes"], report["num_bad_episodes"]) == (3, 3)
    assert report["reasons"]["lfs_pointer"] == 3
    assert len(report["findings"]) == report["num_errors"] + report["num_warnings"]
    assert {"severity", "reason", "episode_id", "frame_index", "feature", "detail"} <= set(
        report["findings"][0]
    )


def test_absent_videos_and_tolerance(cli: Cli, datasets: Path) -> None:
    path = datasets / "v2.1-video_absent"
    done = cli("check", path, "--quiet")
    assert done.returncode == 3
    assert "--without-video" in done.stdout.splitlines()[-1]
    assert cli("check", path, "--quiet", "--without-video").returncode == 0
    drifting = datasets / "v2.1-clock_drifts"
    assert cli("check", drifting, "--quiet", "--tolerance", "0.02").returncode == 0


def test_a_dataset_that_cannot_be_used_at_all(cli: Cli, datasets: Path) -> None:
    done = cli("check", datasets / "v2.1-info_empty", "--quiet")
    assert done.returncode == 3
    assert "meta/info.json: the file is empty" in done.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["{root}/absent"], "There is no corpus to look at"),
        (["{root}/v2.1-good/meta"], "The format of the corpus is not recognised"),
        (["{root}/v2.1-good", "--option", "nonsense"], "An option of the connector cannot be read"),
        (["{root}/v2.1-good", "--connector", "lerobott"], "There is no connector"),
        (["{root}/v2.1-good", "--tolerance", "-1"], "tolerance"),
        (["{root}/v2.1-good", "--deep", "--without-video"], "both"),
    ],
)
def test_requests_that_cannot_be_met(cli: Cli, datasets: Path, args: list[str], words: str) -> None:
    done = cli("check", *[arg.format(root=datasets) for arg in args])
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_audio_is_not_checked(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    done = cli("check", tmp_path, "--connector", "audio_folder")
    assert done.returncode == 2
    assert "Only robot datasets can be checked" in done.stderr
