"""`tag`, `compact`, `cleanup`, `rm`: what they change and what they leave alone."""

from __future__ import annotations

import json
from pathlib import Path

from datalake.lake import open_lake
from tests.cli.conftest import NUM_ROWS, Cli


def test_tag(cli: Cli, own_lake: Path) -> None:
    done = cli("tag", "corpus", "gold", "--version", "1", "--lake", own_lake)
    assert done.stdout == "gold is version 1 of corpus\n"
    assert open_lake(own_lake)["corpus"].at(tag="gold").version == 1
    taken = cli("tag", "corpus", "gold", "--lake", own_lake)
    assert (taken.returncode, "gold" in taken.stderr) == (2, True)
    cli("tag", "corpus", "gold", "--replace", "--lake", own_lake)
    assert open_lake(own_lake)["corpus"].at(tag="gold").version == 2
    cli("tag", "corpus", "gold", "--remove", "--lake", own_lake)
    assert cli("tag", "corpus", "gold", "--remove", "--lake", own_lake).returncode == 2


def test_compact_and_cleanup(cli: Cli, own_lake: Path) -> None:
    table = open_lake(own_lake)["corpus"]
    for _ in range(3):
        table = table.append(table.scan(limit=1).read_all())
    done = json.loads(cli("compact", "corpus", "--lake", own_lake, "--json").stdout)
    assert done["version"] > done["version_before"] == table.version
    lake = open_lake(own_lake)
    assert lake["corpus"].scan(["utt_id"]).read_all() == table.scan(["utt_id"]).read_all()
    entry = next(e for e in lake.log("corpus") if e.version == lake["corpus"].version)
    assert (entry.operation, entry.inputs) == ("compact", {"corpus": table.version})

    clean = ("cleanup", "corpus", "--older-than-days", "0", "--json", "--lake", own_lake)
    (would,) = json.loads(cli(*clean, "--dry-run").stdout)
    assert (would["dry_run"], would["num_versions"] > 0) == (True, True)
    assert len(lake["corpus"].versions()) > 2
    (did,) = json.loads(cli(*clean).stdout)
    assert (did["dry_run"], did["num_versions"]) == (False, would["num_versions"])
    # The latest, and the one that a selection keeps.
    assert [info.version for info in lake["corpus"].versions()] == [2, lake["corpus"].version]
    assert len(lake.selection("few")) == 2


def test_a_selection_is_not_compacted(cli: Cli, own_lake: Path) -> None:
    done = cli("compact", "few", "--lake", own_lake)
    assert (done.returncode, "a selection of that name" in done.stderr) == (2, True)


def test_rm_asks_and_names_what_would_break(cli: Cli, own_lake: Path) -> None:
    for answer in ("", "n\n"):
        asked = cli("rm", "corpus", "--lake", own_lake, stdin=answer)
        assert asked.returncode == 2
        assert f"{NUM_ROWS} rows" in asked.stderr
        assert "selections few cannot be loaded" in asked.stderr
        assert "Nothing was removed" in asked.stderr
    assert "corpus" in open_lake(own_lake)
    agreed = cli("rm", "corpus", "--lake", own_lake, stdin="y\n")
    assert (agreed.returncode, agreed.stdout) == (0, "corpus is removed\n")
    assert "corpus" not in open_lake(own_lake)


def test_rm_of_a_selection_lets_its_version_go(cli: Cli, own_lake: Path) -> None:
    done = cli("rm", "few", "--yes", "--json", "--lake", own_lake)
    assert json.loads(done.stdout) == {"name": "few", "removed": True}
    lake = open_lake(own_lake)
    assert lake.selections() == []
    assert [info.tags for info in lake["corpus"].versions()] == [(), ()]
