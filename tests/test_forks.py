"""Children of a process in which another thread held a lock at the fork."""

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from datalake.blocks import ahead
from datalake.blocks.ahead import ReadAhead
from datalake.blocks.budget import RequestBudget
from datalake.loader.engine.buffers import Buffers
from datalake.loader.engine.stats import Ledger
from datalake.loader.engine.trouble import Trouble
from datalake.tables import create_table
from datalake.telemetry import Meter

Work = Callable[[], object]


def meter() -> tuple[object, Work]:
    made = Meter()
    return made, made.counts


def ledger() -> tuple[object, Work]:
    made = Ledger(Meter())
    return made, made.stats


def trouble() -> tuple[object, Work]:
    made = Trouble("raise", 0, Meter())
    return made, made.recent


def buffers() -> tuple[object, Work]:
    made = Buffers()
    return made, lambda: made.num_bytes


def budget() -> tuple[object, Work]:
    made = RequestBudget(None)
    return made, made.take


def read_ahead() -> tuple[object, Work]:
    return ReadAhead(num_threads=1, most_bytes=1, name="t"), ahead._close_all


def ends(work: Work, within_s: float = 5.0) -> bool:
    """Whether a forked child does some work in time."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


@pytest.mark.parametrize("make", [meter, ledger, trouble, buffers, budget, read_ahead])
def test_a_lock_held_at_the_fork_is_free_in_the_child(
    make: Callable[[], tuple[Any, Work]],
) -> None:
    owner, work = make()
    with owner._lock:
        assert ends(work)


@pytest.mark.parametrize("table_format", ["lance", "delta"])
def test_locks_of_handles_are_free_in_the_child(tmp_path: Path, table_format: str) -> None:
    data = pa.table({"n": [1]})
    table: Any = create_table(str(tmp_path / "t"), data.schema, format=table_format).append(data)
    for handle in (table, pickle.loads(pickle.dumps(table))):
        handle.count_rows()

        def take(handle: Any = handle) -> None:
            assert handle._lock.acquire(timeout=0)

        with handle._lock:
            assert ends(take)


def test_a_budget_whose_file_was_locked_at_the_fork(tmp_path: Path) -> None:
    shared = RequestBudget(tmp_path / "b")
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with shared._state():
            inside.set()
            go_on.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(20)
    ready, answer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.read(ready, 1)  # Lives on, with whatever it has a copy of.
        finally:
            os._exit(0)
    try:
        go_on.set()
        thread.join()
        # Neither the parent nor another child waits for the one that was forked meanwhile.
        assert ends(shared.take)
        assert shared._fd is None
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(answer)


def test_children_of_a_busy_budget(tmp_path: Path) -> None:
    shared, stop = RequestBudget(tmp_path / "b", rate=1e9), threading.Event()

    def spin() -> None:
        while not stop.is_set():
            shared.take()

    thread = threading.Thread(target=spin)
    thread.start()
    with ExitStack() as stack:
        stack.callback(thread.join)
        stack.callback(stop.set)
        assert all(ends(shared.take) for _ in range(20))
