"""A request budget that processes share."""

import multiprocessing
import os
import pickle
import time
from pathlib import Path

import pytest

from datalake.blocks.budget import RequestBudget


class Clock:
    """Time that passes when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.mark.parametrize("shared", [True, False])
def test_grants_the_rate_after_a_burst(tmp_path: Path, clock: Clock, shared: bool) -> None:
    budget = RequestBudget(tmp_path / "b" if shared else None, rate=100)
    assert [budget.take() for _ in range(100)] == [0] * 100
    # Each one that waits has a place behind the last.
    assert [round(budget.take(), 3) for _ in range(3)] == [0.01, 0.02, 0.03]
    clock.now += 0.5
    assert budget.take(40) == 0
    assert budget.take(10) == pytest.approx(0.03)


def test_halves_at_a_refusal_and_recovers(tmp_path: Path, clock: Clock) -> None:
    budget = RequestBudget(tmp_path / "b", rate=80)
    asked_at = clock.now
    budget.refused(asked_at)
    assert budget.rate == pytest.approx(40)
    clock.now += 0.001
    # Sent before the rate was halved, refused after: the same refusal for the same reason.
    budget.refused(asked_at - 1)
    assert budget.rate == pytest.approx(40, rel=0.01)
    budget.refused(clock.now)
    assert budget.rate == pytest.approx(20, rel=0.01)
    clock.now += 30
    assert budget.rate == pytest.approx(60, rel=0.01)
    clock.now += 3600
    assert budget.rate == 80
    for _ in range(100):
        budget.refused(clock.now)
        clock.now += 0.0001
    assert 1 <= budget.rate < 2


def test_a_copy_and_a_stranger_share_it(tmp_path: Path, clock: Clock) -> None:
    one = RequestBudget(tmp_path / "b", rate=10)
    other = pickle.loads(pickle.dumps(one))
    assert one.take(10) == 0
    assert other.take(1) == pytest.approx(0.1)
    stores = [RequestBudget.of(tmp_path, name, rate=10) for name in ("a", "b")]
    assert [store.take(10) for store in stores] == [0, 0]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff" * 40])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b").write_bytes(content)
    assert RequestBudget(tmp_path / "b", rate=10).take(10) == 0


def test_a_clock_that_began_anew(tmp_path: Path, clock: Clock) -> None:
    RequestBudget(tmp_path / "b", rate=10).take(1000)
    clock.now = 5.0
    assert RequestBudget(tmp_path / "b", rate=10).take() == 0


def test_without_a_place_it_counts_for_itself(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    budget = RequestBudget(tmp_path / "file" / "b", rate=10)
    assert budget.take(10) == 0
    assert budget.take(10) > 0


def _take(path: Path, count: int) -> None:
    budget = RequestBudget(path, rate=1e-3)
    for _ in range(count):
        budget.take()
    os._exit(0)


def test_processes_lose_no_token(tmp_path: Path) -> None:
    path = tmp_path / "b"
    forked = multiprocessing.get_context("fork")
    workers = [forked.Process(target=_take, args=(path, 200)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    # 600 taken of the one there was at first, at hardly any rate: as many wait.
    assert RequestBudget(path, rate=1e-3).take() * 1e-3 == pytest.approx(601, abs=1.1)
