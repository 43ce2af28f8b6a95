"""`datalake optimize`: what is read in place, what is cached, and where it stops."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalake.lake import Lineage, open_lake
from tests.cli.conftest import NUM_ROWS, Cli, utterances


@pytest.fixture
def delta_lake(tmp_path: Path) -> Path:
    lake = open_lake(tmp_path / "delta", create=True)
    rows = utterances()
    made = lake.create("corpus", rows.schema, format="delta", lineage=Lineage("ingest"))
    made.append(rows)
    return tmp_path / "delta"


def test_a_local_lance_table_is_read_in_place(cli: Cli, tmp_path: Path) -> None:
    env = {"DATALAKE_CACHE": str(tmp_path / "cache")}
    done = cli("optimize", "corpus", "--columns", "audio", env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split()[:3] == ["audio", "in", "place"]
    assert "Nothing is to be done" in done.stdout
    done = json.loads(cli("optimize", "corpus", "--json", env=env).stdout)
    assert (done["num_fetched"], done["stopped"]) == (done["num_blocks"], None)


def test_a_fill_goes_on_where_it_stood(cli: Cli, delta_lake: Path, tmp_path: Path) -> None:
    run = ("optimize", "corpus", "--lake", delta_lake, "--cache", tmp_path / "here", "--json")
    first = json.loads(cli(*run, "--columns", "label").stdout)
    assert (first["num_blocks"], first["num_fetched"]) == (1, 1)
    second = json.loads(cli(*run, "--columns", "label,audio").stdout)
    assert (second["num_cached"], second["num_fetched"]) == (1, 1)
    audio = second["columns"][1]
    assert (audio["column"], audio["read"]) == ("audio", "in blocks, cached")
    assert second["bytes_fetched"] > NUM_ROWS * 48_200
    third = cli("optimize", "corpus", "--lake", delta_lake, "--cache", tmp_path / "here")
    assert "blocks are in" in third.stdout
    shown = json.loads(cli(*run).stdout)
    assert (shown["num_fetched"], shown["num_cached"]) == (0, shown["num_blocks"])


def test_it_stops_at_the_budget(cli: Cli, delta_lake: Path) -> None:
    run = ("optimize", "corpus", "--lake", delta_lake, "--columns", "label,audio")
    done = cli(*run, "--budget", "1MB")
    assert done.returncode == 0
    assert "1 of 2 blocks" in done.stdout
    assert "budget of 1.0 MB holds no more; all takes about 1.5 MB" in done.stdout


def test_compaction_is_asked_for(cli: Cli, own_lake: Path) -> None:
    table = open_lake(own_lake)["corpus"]
    for _ in range(3):
        table = table.append(table.scan(limit=1).read_all())
    run = ("optimize", "corpus", "--lake", own_lake, "--json")
    assert json.loads(cli(*run).stdout)["version"] == table.version
    assert json.loads(cli(*run, "--compact").stdout)["version"] > table.version
    assert open_lake(own_lake).log("corpus")[-1].operation == "compact"


def test_what_cannot_be(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for wrong, words, code in (
        (("corpse",), "corpus", 2),
        (("corpus", "--columns", "odio"), "audio", 2),
        (("corpus", "--budget", "much"), "200GB", 2),
        (("corpus", "--cache", tmp_path / "file" / "cache"), "--cache", 1),
    ):
        done = cli("optimize", *wrong)
        assert done.returncode == code, done.stderr
        assert words in done.stderr
