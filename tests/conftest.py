"""Fixtures that every test may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.servers import s3_server  # noqa: F401 - a fixture

_CONTROLLER = "PYTEST_XDIST_WORKER" not in os.environ

# A busy machine is no failure: no test is timed.
settings.register_profile("untimed", deadline=None, print_blob=True)
settings.load_profile("untimed")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test fills the cache of who runs it. Processes that tests start inherit the place."""
    before = os.environ.get("DATALAKE_CACHE")
    os.environ["DATALAKE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["DATALAKE_CACHE"]
    else:
        os.environ["DATALAKE_CACHE"] = before


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Real data that developers keep beside the checkout; users do not have it."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no real data beside this checkout (../shared/data)")
    return SHARED


@pytest.fixture(autouse=True)
def _ordinary_scheduling() -> Iterator[None]:
    """No test leaves its process real-time: all that it starts would starve the machine."""
    yield
    if hasattr(os, "sched_getscheduler"):
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell of a failure at once: a run that is cut short never comes to its summary."""
    if report.failed and _CONTROLLER:
        parts = (report.longreprtext, report.capstdout, report.capstderr)
        sys.stderr.write(f"\n{report.nodeid} failed in {report.when}, {report.duration:.0f} s\n")
        sys.stderr.write("\n".join(part[-4000:] for part in parts) + "\n")
