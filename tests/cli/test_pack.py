"""`datalake pack` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalake.cli import console
from datalake.cli.app import app
from datalake.lake import open_lake
from tests.cli.conftest import Cli
from tests.robots import LENGTHS, write_robots

LOCAL = ("--executor", "local", "--quiet")


@pytest.fixture(scope="module")
def robots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("robots") / "lake"
    write_robots(open_lake(path), video=False)
    return path


def test_a_dry_run_reports_and_writes_nothing(cli: Cli, robots: Path) -> None:
    options = ("--budget", "30", "--unit", "frames", "--ranks", "2", "--lake", robots)
    done = cli("pack", "g1", "--dry-run", *options, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["num_tokens"] == sum(LENGTHS)
    assert report["num_sequences"] == 4
    assert report["utilisation"] == pytest.approx(63 / 120)
    assert report["padding_share"] == pytest.approx(57 / 120)
    assert report["baselines"]["pad_to_batch_max"] == pytest.approx(63 / 100)
    assert report["lengths"]["most"] == 20
    assert report["table"] is None
    assert open_lake(robots).tables() == ["g1.episodes", "g1.frames", "g1.videos"]


def test_packing_and_looking(cli: Cli, robots: Path) -> None:
    done = cli(
        "pack", "g1", "--into", "packed", "--budget", "200",
        "--cost", "image=3", "--cost", "observation.images.wrist=2", "--cost", "text=13",
        "--with", "observation.state, action", "--lake", robots, *LOCAL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"Packed 5 items of {4 * 63 + 3 + 2 * 2} tokens" in done.stdout
    assert "padded to the longest of a batch of 32" in done.stdout
    log = cli("log", "packed", "--lake", robots, "--json")
    assert json.loads(log.stdout)[-1]["operation"] == "pack"
    info = cli("info", "packed", "--lake", robots, "--json")
    columns = [row["column"] for row in json.loads(info.stdout)["columns"]]
    assert columns[-2:] == ["observation/state", "action"]


def test_shards(cli: Cli, robots: Path) -> None:
    done = cli(
        "pack", "g1", "--as", "shards", "--into", "shards", "--shard-steps", "16",
        "--shard-episodes", "4", "--chunk", "3", "--lake", robots, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["num_steps"] == sum(length - 2 for length in LENGTHS)
    assert report["table"] == "shards"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["g1", "--budget", "9"], "--into"),
        (["g1", "--dry-run"], "--budget 4096"),
        (["g2", "--dry-run", "--budget", "9"], "There is no episode set or table 'g2'"),
        (["g1", "--dry-run", "--budget", "9"], "--overlong split"),
        (["g1", "--dry-run", "--budget", "99", "--cost", "image"], "NAME=TOKENS"),
        (["g1", "--dry-run", "--budget", "99", "--cost", "image=x"], "image is no whole number"),
        (["g1", "--dry-run", "--budget", "99", "--cost", "text=0"], "above 0"),
        (["g1", "--dry-run", "--budget", "99", "--cost", "text=nan"], "above 0"),
        (["g1", "--dry-run", "--budget", "99", "--cost", "audio_s=-1"], "audio_s is out of range"),
        (["g1", "--dry-run", "--budget", "99", "--cost", "wrist=1"], "no camera 'wrist'"),
        (["g1", "--dry-run", "--budget", "0"], "--budget"),
        (["g1", "--dry-run", "--budget", "9999999999"], "budget"),
        (["g1", "g1", "--as", "shards", "--dry-run"], "one episode set"),
    ],
)
def test_what_cannot_be_done_is_one_paragraph(
    capsys: pytest.CaptureFixture[str], robots: Path, args: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as left:
        console.run(app, "datalake", ["pack", *args, "--lake", str(robots)])
    assert left.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert "Traceback" not in said.err
