"""Fixtures that every test may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import s3_server  # noqa: F401 - a fixture

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Real data that developers keep beside the checkout; users do not have it."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no real data beside this checkout (../shared/data)")
    return SHARED
