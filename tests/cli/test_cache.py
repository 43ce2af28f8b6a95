"""`datalake cache`: what it shows and what it removes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from datalake.blocks.cache import BlockCache
from tests.blocks.cache.blocks import block, key_of
from tests.cli.conftest import Cli

TABLES = ("file:///lake/tables/a.lance", "file:///lake/tables/b.lance")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    cache = BlockCache(tmp_path / "cache")
    for number in range(3):
        for table in TABLES[: 1 + number % 2]:
            key = key_of(number, table)
            cache.get(key, lambda key=key: block(key))
    return cache.directory


def test_show(cli: Cli, place: Path) -> None:
    env = {"DATALAKE_CACHE": str(place)}
    done = cli("cache", env=env)
    assert done.returncode == 0, done.stderr
    assert str(place) in done.stdout
    assert "81.9 kB" in done.stdout
    assert [line.split() for line in done.stdout.splitlines()[-2:]] == [
        [TABLES[0], "3", "61.4", "kB"],
        [TABLES[1], "1", "20.5", "kB"],
    ]
    shown = json.loads(cli("cache", "--json", env=env).stdout)
    assert (shown["directory"], shown["num_blocks"], shown["num_bytes"]) == (str(place), 4, 81_920)
    assert shown["tables"][TABLES[1]] == {"num_blocks": 1, "num_bytes": 20_480}


def test_clear_and_what_is_in_use_stays(cli: Cli, place: Path) -> None:
    env = {"DATALAKE_CACHE": str(place)}
    unknown = cli("cache", "clear", "--table", TABLES[0][:-1], env=env)
    assert (unknown.returncode, TABLES[0] in unknown.stderr) == (2, True)
    done = cli("cache", "clear", "--table", TABLES[0], env=env)
    assert done.stdout == "3 blocks (61.4 kB) are removed\n"
    user = BlockCache(place)
    kept = user.get(key_of(1, TABLES[1]), lambda: block(key_of(1)))
    done = cli("cache", "clear", env=env)
    assert done.stdout == "0 blocks (0 B) are removed; 1 are in use and stay\n"
    assert kept.equals(block(key_of(1)))
    del user, kept
    done = json.loads(cli("cache", "clear", "--json", env=env).stdout)
    assert done == {"num_removed": 1, "num_bytes": 20_480, "num_in_use": 0}


def test_a_directory_that_cannot_be(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    done = cli("cache", env={"DATALAKE_CACHE": str(tmp_path / "file" / "cache")})
    assert done.returncode == 1
    assert "set DATALAKE_CACHE" in done.stderr
