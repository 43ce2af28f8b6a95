"""Lineage: what a commit records of its run, and reads back."""

from __future__ import annotations

import datetime as dt
import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import ConfigError
from datalake.lake.lineage import (
    Lineage,
    LogEntry,
    _checked_out_commit,
    code_version,
    config_sha256,
    new_run_id,
)
from datalake.tables import VersionInfo

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NOON = dt.datetime(2025, 3, 1, 12, tzinfo=dt.UTC)


def entry_of(lineage: Lineage) -> LogEntry:
    return LogEntry.of(VersionInfo(3, NOON, lineage.properties(), ("best",)))


@given(st.dictionaries(st.text(), JSON), st.dictionaries(st.text(), st.integers(0)))
def test_what_is_recorded_is_read_back(config: dict[str, object], inputs: dict[str, int]) -> None:
    lineage = Lineage("ingest", config, inputs)
    entry = entry_of(lineage)
    assert (entry.operation, entry.config, entry.inputs) == ("ingest", config, inputs)
    assert entry.run_id == lineage.run_id
    assert entry.config_sha256 == config_sha256(config)
    assert (entry.version, entry.created_at, entry.tags) == (3, NOON, ("best",))


def test_the_hash_is_of_the_canonical_json() -> None:
    expected = hashlib.sha256('{"cap":10,"name":"ü"}'.encode()).hexdigest()
    assert config_sha256({"name": "ü", "cap": 10}) == expected
    assert config_sha256({"cap": 10, "name": "ü"}) == expected


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, Path("x")])
def test_a_configuration_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="JSON"):
        Lineage("ingest", {"value": value}).properties()


def test_a_version_without_lineage_has_an_empty_entry() -> None:
    entry = LogEntry.of(VersionInfo(1, NOON))
    assert (entry.operation, entry.run_id, entry.config, entry.inputs) == ("", "", {}, {})


def test_run_ids_are_unique_and_sort_by_time() -> None:
    made = [new_run_id() for _ in range(200)]
    assert len(set(made)) == 200
    assert [run.split("-")[0] for run in made] == sorted(run.split("-")[0] for run in made)


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    done = subprocess.run(
        ["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "-q")
    (root / "pyproject.toml").touch()
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def test_the_commit_is_what_git_says(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert _checked_out_commit(checkout) == head
    git(checkout, "pack-refs", "--all")
    assert _checked_out_commit(checkout) == head
    git(checkout, "checkout", "-q", "--detach")
    assert _checked_out_commit(checkout) == head


def test_the_commit_of_a_linked_worktree(checkout: Path) -> None:
    git(checkout, "worktree", "add", "-q", "../linked", "-b", "branch")
    linked = checkout.parent / "linked"
    git(linked, "commit", "-q", "--allow-empty", "-m", "second")
    assert _checked_out_commit(linked) == git(linked, "rev-parse", "HEAD")
    git(checkout, "pack-refs", "--all")
    assert _checked_out_commit(linked) == git(linked, "rev-parse", "HEAD")


def test_no_commit_outside_a_checkout(tmp_path: Path, checkout: Path) -> None:
    assert _checked_out_commit(tmp_path) == ""
    (checkout / "pyproject.toml").unlink()
    assert _checked_out_commit(checkout) == ""


def test_an_unborn_branch_has_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "pyproject.toml").touch()
    assert _checked_out_commit(tmp_path) == ""


def test_the_code_version_begins_with_the_release() -> None:
    assert code_version().startswith("0.")
