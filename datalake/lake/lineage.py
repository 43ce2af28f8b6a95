"""Lineage: which run, configuration, code and inputs made a version.

It is written as properties of the version it describes, by the same commit, so the two cannot
disagree. Who ran it is not recorded.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from datalake.errors import ConfigError
from datalake.tables import VersionInfo

__all__ = ["Lineage", "LogEntry", "code_version", "config_sha256", "new_run_id"]

_OPERATION = "datalake.operation"
_RUN_ID = "datalake.run_id"
_CONFIG = "datalake.config"
_CONFIG_SHA256 = "datalake.config_sha256"
_CODE_VERSION = "datalake.code_version"
_INPUTS = "datalake.inputs"


def new_run_id() -> str:
    """An id that no other run has; ids sort by the time they were made (UTC, microseconds)."""
    return f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Lineage:
    """What makes a version. One run may make several versions: they share its `run_id`."""

    operation: str
    """The verb: `ingest`, `select`, `compact`, …"""
    config: Mapping[str, object] = field(default_factory=dict)
    """What decides the result, as JSON values."""
    inputs: Mapping[str, int] = field(default_factory=dict)
    """The versions of the tables that were read, by name."""
    run_id: str = field(default_factory=new_run_id)

    def properties(self) -> dict[str, str]:
        """The properties that record this lineage in a commit.

        Raises:
            ConfigError: `config` holds what is no JSON value.
        """
        return {
            _OPERATION: self.operation,
            _RUN_ID: self.run_id,
            _CONFIG: _canonical_json(self.config),
            _CONFIG_SHA256: config_sha256(self.config),
            _CODE_VERSION: code_version(),
            _INPUTS: _canonical_json(self.inputs),
        }


@dataclass(frozen=True)
class LogEntry:
    """One version and what made it. Texts are empty where the committer recorded no lineage."""

    version: int
    created_at: dt.datetime
    operation: str
    run_id: str
    config: Mapping[str, object]
    config_sha256: str
    code_version: str
    inputs: Mapping[str, int]
    tags: tuple[str, ...]

    @classmethod
    def of(cls, info: VersionInfo) -> LogEntry:
        """The entry that a version's properties hold."""
        recorded = info.properties
        return cls(
            version=info.version,
            created_at=info.created_at,
            operation=recorded.get(_OPERATION, ""),
            run_id=recorded.get(_RUN_ID, ""),
            config=json.loads(recorded.get(_CONFIG, "{}")),
            config_sha256=recorded.get(_CONFIG_SHA256, ""),
            code_version=recorded.get(_CODE_VERSION, ""),
            inputs=json.loads(recorded.get(_INPUTS, "{}")),
            tags=info.tags,
        )


def config_sha256(config: Mapping[str, object]) -> str:
    """The hash of a configuration, in hexadecimal; the order of its keys does not matter.

    Raises:
        ConfigError: it holds what is no JSON value.
    """
    return hashlib.sha256(_canonical_json(config).encode()).hexdigest()


def _canonical_json(value: Mapping[str, object]) -> str:
    try:
        return json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "A configuration cannot be recorded", expected="JSON values", found=str(error)
        ) from error


@cache
def code_version() -> str:
    """The package's version, with `+g<commit>` when it runs from a checkout of the project.

    The commit is the one that is checked out; edits that are not committed do not show.
    """
    try:
        released = version("datalake")
    except PackageNotFoundError:
        released = "unknown"
    commit = _checked_out_commit(Path(__file__).resolve().parents[2])
    return f"{released}+g{commit[:12]}" if commit else released


def _checked_out_commit(root: Path) -> str:
    """The commit of the checkout at `root`, read from git's own files; empty if it is none."""
    # A package inside somebody else's repository must not report that repository's commit.
    if not (root / "pyproject.toml").is_file():
        return ""
    try:
        git = root / ".git"
        if git.is_file():
            git = root / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head
        return _resolve(git, head.removeprefix("ref:").strip())
    except OSError:
        return ""


def _resolve(git: Path, ref: str) -> str:
    """The commit that `ref` names; a linked worktree keeps its branches in the common folder."""
    common = git / "commondir"
    shared = git / common.read_text().strip() if common.is_file() else git
    for folder in (git, shared):
        if (folder / ref).is_file():
            return (folder / ref).read_text().strip()
    for line in (shared / "packed-refs").read_text().splitlines():
        commit, _, name = line.partition(" ")
        if name == ref:
            return commit
    return ""
