"""What starts quickly, and what is never loaded for it."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest

import datalake
from tests.cli.conftest import Cli

HEAVY = {"ray", "torch", "lance", "deltalake", "duckdb", "pandas"}


def loaded_by(*args: str | Path, code: str = "") -> set[str]:
    """The heavy packages that a command line, or a piece of code, loads."""
    code = code or "from datalake.cli import main\ntry: main()\nexcept SystemExit: pass"
    report = f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", report, *map(str, args)], capture_output=True, text=True, check=True
    )
    return HEAVY & set(done.stderr.split())


def test_importing_the_package_loads_no_engine() -> None:
    assert loaded_by(code="import datalake") == set()
    assert loaded_by(code="import datalake; datalake.open_lake; datalake.Selection") == set()


def test_help_and_listing_load_no_engine(filled_lake: Path) -> None:
    assert loaded_by("--version") == set()
    assert loaded_by("ls", "--lake", filled_lake) == set()
    assert loaded_by("--help") == set()
    assert loaded_by("ingest", "--help") == set()


@pytest.mark.parametrize("command", ["info", "head", "log", "versions"])
def test_looking_loads_one_engine(filled_lake: Path, command: str) -> None:
    assert loaded_by(command, "corpus", "--lake", filled_lake) == {"lance"}


def test_the_public_names() -> None:
    assert datalake.__all__ == sorted(datalake.__all__)
    assert dir(datalake) == datalake.__all__
    for name in datalake.__all__:
        assert getattr(datalake, name).__name__ == name
    visible = {
        name
        for name, value in vars(datalake).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    # Names that are loaded when asked for are visible once asked for, and nothing else is.
    assert visible - {"annotations", "Final", "TYPE_CHECKING", "import_module"} <= set(
        datalake.__all__
    )
    with pytest.raises(AttributeError, match="no attribute 'Lakes'"):
        datalake.Lakes  # noqa: B018


def test_the_version(cli: Cli) -> None:
    assert cli("--version").stdout.startswith("datalake 0.")


def test_help_names_every_command(cli: Cli) -> None:
    done = cli("--help")
    assert done.returncode == 0
    assert cli().stdout == done.stdout
    for command in ("ingest", "detect", "ls", "info", "head", "log", "rm", "curate"):
        assert f"\n  {command} " in done.stdout


def test_curate_is_one_command_by_two_names(cli: Cli) -> None:
    alone, below = cli("--help", program="curate"), cli("curate", "--help")
    assert alone.returncode == below.returncode == 0
    assert below.stdout.replace("datalake curate", "curate") == alone.stdout
    done = cli("curate", "select", "corpsu")
    assert (done.returncode, "corpus" in done.stderr) == (2, True)
