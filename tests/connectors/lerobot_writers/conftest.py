from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from datalake.episodes.export import ExportReport, ExportSettings, export_episodes
from datalake.lake import Lake, open_lake
from tests.robots import write_robots

Export = Callable[..., tuple[Path, ExportReport]]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def robots(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with the set g1 of `tests.robots`. Look, do not touch."""
    lake = open_lake(tmp_path_factory.mktemp("writers") / "lake")
    write_robots(lake, embodiments=("arm",))
    return lake


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Exports a set of a lake to a folder of the test."""

    def run(lake: Lake, name: str, format: str, **given: Any) -> tuple[Path, ExportReport]:  # noqa: A002
        settings = ExportSettings(
            **{key: given.pop(key) for key in list(given) if key in ExportSettings.__annotations__}
        )
        path = tmp_path / "export"
        return path, export_episodes(
            lake, name, path, exporter=f"lerobot_{format}", settings=settings, **given
        )

    return run


def info_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "meta/info.json").read_text())
    return found


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
