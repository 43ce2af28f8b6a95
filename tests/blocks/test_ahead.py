"""Fetching in the background."""

import threading
import time
from collections.abc import Callable

import pytest

from datalake.blocks import ahead as ahead_module
from datalake.blocks.ahead import Ahead, ReadAhead


def recorder(seen: list[str], name: str) -> Callable[[threading.Event], str]:
    def run(stop: threading.Event) -> str:
        seen.append(name)
        return name

    return run


class Gate:
    """Fetches that stand until they are let go, and how many stood at once."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.lock = threading.Lock()
        self.inside = self.most = 0

    def run(self, stop: threading.Event) -> None:
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.open.wait(20)
        with self.lock:
            self.inside -= 1


def test_in_order_and_each_once() -> None:
    seen: list[str] = []
    gate = Gate()
    ahead = ReadAhead(num_threads=1, most_bytes=100, name="t")
    first, _ = ahead.submit("gate", 1, gate.run)
    fetches = [ahead.submit(name, 1, recorder(seen, name)) for name in "abcab"]
    assert [new for _, new in fetches] == [True, True, True, False, False]
    urgent, _ = ahead.submit("u", 1, recorder(seen, "u"), urgent=True)
    gate.open.set()
    Ahead([first, urgent, *(fetch for fetch, _ in fetches)], 5).wait()
    assert seen == ["u", "a", "b", "c"]
    assert urgent.result == "u"


def test_bytes_under_way_are_bounded() -> None:
    gate = Gate()
    ahead = ReadAhead(num_threads=8, most_bytes=100, name="t")
    fetches = [ahead.submit(number, 40, gate.run)[0] for number in range(10)]
    large, _ = ahead.submit("large", 1000, gate.run)
    while gate.most < 2:
        pass
    gate.open.set()
    for fetch in [*fetches, large]:
        assert fetch.done.wait(20)
    assert gate.most == 2


def test_a_failure_is_kept_and_stops_nobody() -> None:
    def fail(stop: threading.Event) -> None:
        raise ValueError("no")

    ahead = ReadAhead(num_threads=2, most_bytes=100, name="t")
    failed, _ = ahead.submit("x", 1, fail)
    Ahead([failed], 1).wait()
    assert isinstance(failed.error, ValueError)
    again, is_new = ahead.submit("x", 1, recorder([], "x"))
    Ahead([again], 1).wait()
    assert is_new
    assert again.error is None


def test_who_waits_does_it_himself() -> None:
    seen: list[str] = []
    gate = Gate()
    ahead = ReadAhead(num_threads=1, most_bytes=100, name="t")
    ahead.submit("gate", 1, gate.run)
    fetch, _ = ahead.submit("a", 1, recorder(seen, threading.current_thread().name))
    ahead.finish([fetch])
    assert seen == [threading.current_thread().name]
    gate.open.set()


@pytest.mark.parametrize("late", [False, True])
def test_closing_drops_the_queue(late: bool) -> None:
    seen: list[str] = []
    gate = Gate()
    ahead = ReadAhead(num_threads=1, most_bytes=100, name="t")
    first, _ = ahead.submit("gate", 1, gate.run)
    if late:
        ahead.close()
    queued, _ = ahead.submit("a", 1, recorder(seen, "a"))
    ahead.close()
    Ahead([queued], 1).wait()
    gate.open.set()
    assert first.done.wait(20)
    assert seen == []
    assert queued.result is None
    assert queued.error is None


def test_at_exit_all_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    stuck = [ReadAhead(num_threads=1, most_bytes=1, name="t") for _ in range(5)]
    for ahead in stuck[:4]:
        ahead.submit("gate", 1, gate.run)
    monkeypatch.setattr(ahead_module, "_ALIVE", stuck)
    monkeypatch.setattr(ahead_module, "_EXIT_S", 0.3)
    begin = time.monotonic()
    with stuck[4]._lock:
        ahead_module._close_all()
    assert 0.25 < time.monotonic() - begin < 0.9
    assert all(ahead._stop.is_set() for ahead in stuck)
    gate.open.set()
