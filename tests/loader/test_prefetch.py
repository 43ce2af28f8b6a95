"""Work ahead: in order, within a bound, and gone when nobody asks any more."""

from __future__ import annotations

import threading
import time

import pytest

from datalake.loader.prefetch import ahead


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_results_come_in_order(depth: int) -> None:
    def slow_first(task: int) -> int:
        time.sleep(0.02 if task % 3 == 0 else 0)
        return task * task

    assert list(ahead(slow_first, range(10), depth=depth)) == [task * task for task in range(10)]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_no_more_than_depth_results_are_made_ahead(depth: int) -> None:
    started = 0
    lock = threading.Lock()

    def count(task: int) -> int:
        nonlocal started
        with lock:
            started += 1
        return task

    for index, _ in enumerate(ahead(count, range(20), depth=depth)):
        time.sleep(0.01)
        assert started <= index + 1 + depth
    assert started == 20


def test_work_goes_on_while_the_consumer_is_busy() -> None:
    done = threading.Event()

    def work(task: int) -> int:
        if task == 1:
            done.set()
        return task

    results = ahead(work, range(3), depth=1)
    assert next(results) == 0
    assert done.wait(5)


@pytest.mark.parametrize("depth", [0, 2])
def test_an_exception_comes_in_its_turn(depth: int) -> None:
    def fail(task: int) -> int:
        if task == 2:
            raise ValueError("task 2")
        return task

    results = ahead(fail, range(5), depth=depth)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="task 2"):
        next(results)


def test_stopping_early_starts_nothing_more_and_leaves_no_thread() -> None:
    started = []
    before = threading.active_count()

    def work(task: int) -> int:
        started.append(task)
        time.sleep(0.01)
        return task

    results = ahead(work, range(1000), depth=2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
    assert len(started) <= 3
