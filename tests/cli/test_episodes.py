"""`datalake episodes …` and how sets look to the other commands."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from datalake.cli import console
from datalake.cli.app import app
from datalake.episodes import episode_sets, open_episodes
from datalake.lake import Lineage, open_lake
from tests.cli.conftest import Cli
from tests.robots import write_robots


@pytest.fixture(scope="module")
def robot_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two sets, one of which has idle ends. Look, do not touch."""
    path = tmp_path_factory.mktemp("robots") / "lake"
    lake = open_lake(path)
    write_robots(lake, lengths=(40, 11, 30, 25), idle=(6, 4))
    write_robots(lake, "g2", source="b", video=False, lengths=(5, 6))
    return path


@pytest.fixture
def own(robot_lake: Path, tmp_path: Path) -> Path:
    """A copy to write to."""
    return Path(shutil.copytree(robot_lake, tmp_path / "own"))


@pytest.fixture
def edit(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command in this process, which takes a tenth of the time. Not for those that look:
    they hide pandas from their process."""

    def run(*args: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        capfd.readouterr()
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as left:
            console.run(app, "datalake", [str(arg) for arg in args])
        return subprocess.CompletedProcess([], left.value.code or 0, *capfd.readouterr())

    return run


def as_json(cli: Cli, lake: Path, *args: str) -> Any:
    done = cli(*args, "--json", "--lake", lake)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_set_is_one_line(cli: Cli, robot_lake: Path) -> None:
    assert as_json(cli, robot_lake, "ls") == [
        {
            "name": name,
            "kind": "episode set",
            "format": "lance",
            "version": 3,
            "num_episodes": episodes,
            "num_frames": frames,
        }
        for name, episodes, frames in (("g1", 4, 106), ("g2", 2, 11))
    ]
    printed = cli("ls", "--lake", robot_lake).stdout.splitlines()
    assert printed[1].split() == ["g1", "episode", "set", "lance", "3", "4", "106"]


def test_a_set_is_described(cli: Cli, edit: Cli, robot_lake: Path) -> None:
    facts = as_json(cli, robot_lake, "info", "g1")
    shown = as_json(edit, robot_lake, "episodes", "show", "g1", "--stats")
    stats = shown.pop("stats")
    assert facts == shown
    assert (facts["num_episodes"], facts["num_frames"], facts["fps"]) == (4, 106, [10])
    assert facts["features"][0] == {
        "feature": "observation.state",
        "dtype": "float32",
        "shape": [3],
        "unit": "rad",
        "names": ["joint_0", "joint_1", "joint_2"],
    }
    assert facts["tasks"][0] == {"task": "pick the cube", "num_episodes": 2, "num_frames": 70}
    assert facts["cameras"][0]["num_files"] == 3
    assert [table["num_rows"] for table in facts["tables"]] == [4, 106, 3]
    assert stats[1]["element"] == "joint_1"
    assert stats[1]["count"] == 106
    printed = edit("episodes", "show", "g1", "robots/000002", "--lake", robot_lake)
    assert "observation.images.front  video    24, 32, 3" in printed.stdout


def test_episodes_are_listed(cli: Cli, edit: Cli, robot_lake: Path) -> None:
    rows = as_json(edit, robot_lake, "episodes", "list", "g1", "--where", "length > 20 AND success")
    assert [row["episode_id"] for row in rows] == ["robots/000000", "robots/000003"]
    assert "stats" not in rows[0]
    assert rows[0]["videos"][0]["from_s"] == 0
    printed = edit("episodes", "list", "g1", "-n", "1", "--lake", robot_lake).stdout.splitlines()
    assert printed[1].split()[:4] == ["robots/000000", "arm", "pick", "the"]
    head = cli("head", "g1.episodes", "--lake", robot_lake)
    assert "joint_0" not in head.stdout
    assert "features" in head.stderr


def test_names_that_are_not_there_are_told(edit: Cli, robot_lake: Path) -> None:
    for args, hint in (
        (("list", "g11"), "Did you mean g1"),
        (("show", "g1", "robots/00000"), "robots/00000"),
        (("list", "g1", "--where", "lenght > 3"), "length"),
        (("list", "g1", "--columns", "episod_id"), "episode_id"),
        (("delete", "g1"), "datalake rm g1"),
        (("delete", "g1", "robots/9"), "robots/00000"),
        (("trim", "g1"), "not clear"),
        (("trim", "g1"), "--idle"),
        (("trim", "g1", "--range", "robots/000001"), "EPISODE=START:STOP"),
        (("trim", "g1", "--range", "robots/000001=3"), "START:STOP"),
        (("trim", "g1", "--range", "robots/000001=3:3000"), "a part of 0:"),
        (("split", "g1", "--fractions", "train=.8"), "make 1"),
        (("split", "g1", "--by", "taks"), "task"),
        (("task", "g1", "hello"), "OLD=NEW"),
        (("merge", "g1", "g2", "--into", "all"), "--union"),
        (("drop-feature", "g1", "actoin"), "action"),
    ):
        done = edit("episodes", *args, "--lake", robot_lake)
        assert done.returncode == 2, (args, done.stderr)
        assert hint in done.stderr, (args, done.stderr)
        assert done.stderr.count("\n") == 1
    assert open_episodes(open_lake(robot_lake), "g1").version == 3


@pytest.mark.parametrize("command", ["rm", "info", "head", "log", "compact", "cleanup"])
def test_sets_are_among_the_names_there_are(edit: Cli, robot_lake: Path, command: str) -> None:
    done = edit(command, "nothing", "--lake", robot_lake)
    assert done.returncode == 2
    assert "There is no table, episode set or selection 'nothing'" in done.stderr
    assert "There is: g1, " in done.stderr
    assert "g1.frames" not in done.stderr


def test_a_dry_run_says_what_would_go(edit: Cli, robot_lake: Path) -> None:
    done = edit("episodes", "delete", "g1", "robots/000003", "--dry-run", "--lake", robot_lake)
    assert done.stdout.startswith("g1: would delete 1 episode with 25 frames, and 1 video file (")
    done = edit("episodes", "trim", "g1", "--idle", "--dry-run", "--lake", robot_lake)
    assert "g1: would trim 27 frames off 3 episodes; in 1 episode nothing moves" in done.stdout
    assert open_episodes(open_lake(robot_lake), "g1").version == 3


def test_sets_are_changed(edit: Cli, cli: Cli, own: Path) -> None:
    lake = open_lake(own)
    done = edit("episodes", "delete", "g1", "--where", "episode_index = 3", "--lake", own)
    assert done.stdout.endswith("(version 4; undo: datalake episodes restore g1 3)\n")
    change = as_json(edit, own, "episodes", "trim", "g1", "--range", "robots/000000=5:36")
    assert (change["version"], change["num_frames"]) == (5, 9)
    change = as_json(edit, own, "episodes", "task", "g1", "open the drawer=open it ✓")
    assert change["num_episodes"] == 1
    as_json(edit, own, "episodes", "rename-feature", "g1", "note", "remark")
    as_json(edit, own, "episodes", "drop-feature", "g1", "observation.images.front")
    as_json(edit, own, "episodes", "rename-feature", "g2", "note", "remark")
    change = as_json(edit, own, "episodes", "merge", "g1", "g2", "--into", "all")
    assert change["num_episodes"] == 5
    changes = as_json(
        cli,
        own,
        "episodes",
        "split",
        "all",
        "--by",
        "source",
        "--into",
        "b=b",
        "--into",
        "robots=r",
    )
    assert {change["name"]: change["num_episodes"] for change in changes} == {"b": 2, "r": 3}
    assert episode_sets(lake) == ["all", "b", "g1", "g2", "r"]
    done = edit("episodes", "restore", "g1", "3", "--lake", own)
    assert done.returncode == 0
    assert open_episodes(lake, "g1").index.lengths.tolist() == [40, 11, 30, 25]
    operations = [entry["operation"] for entry in as_json(cli, own, "log", "g1")]
    assert operations[3:5] == ["episodes delete", "episodes trim"]


def test_faults_exit_3(edit: Cli, own: Path) -> None:
    assert edit("episodes", "stats", "g1", "--lake", own).returncode == 0
    done = edit("episodes", "validate", "g1", "--lake", own)
    assert (done.returncode, "0 errors" in done.stdout) == (0, True)
    g1 = open_episodes(open_lake(own), "g1")
    rows = g1.episodes.scan().read_all().to_pylist()
    rows[2]["videos"][0]["video_id"] = "robots/gone"
    table = g1.episodes.scan().read_all().from_pylist(rows, g1.episodes.schema)
    g1.rewrite(table, lineage=Lineage("test"))
    done = edit("episodes", "validate", "g1", "--lake", own)
    assert done.returncode == 3
    assert "robots/000002" in done.stdout


def test_sets_are_cared_for_as_one(edit: Cli, own: Path) -> None:
    for command in ("compact", "cleanup", "rm"):
        part = edit(command, "g1.frames", "--lake", own)
        assert (part.returncode, f"datalake {command} g1." in part.stderr) == (2, True)
    edit("episodes", "delete", "g1", "robots/000001", "--lake", own)
    as_json(edit, own, "compact", "g1")
    reports = as_json(edit, own, "cleanup", "--older-than-days", "0")
    assert [report["name"] for report in reports] == ["g1", "g2"]
    lake = open_lake(own)
    assert open_episodes(lake, "g1").index.lengths.tolist() == [40, 30, 25]
    assert [info.version for info in lake["g1.episodes"].versions()] == [
        lake["g1.episodes"].version
    ]
    asked = edit("rm", "g1", "--lake", own, stdin="n\n")
    assert (asked.returncode, "3 episodes" in asked.stderr) == (2, True)
    assert edit("rm", "g1", "--yes", "--lake", own).returncode == 0
    assert episode_sets(open_lake(own)) == ["g2"]
