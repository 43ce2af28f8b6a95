"""The toy format is known in these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from datalake.lake import Lake, open_lake
from tests.pipelines.episodes.corpora import registered


@pytest.fixture(autouse=True)
def toy_format() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(f"memory://{tmp_path.name}")
