"""Fetching in the background: in the order asked, each thing once, so many bytes at a time."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from datalake import forks

__all__ = ["Ahead", "Fetch", "ReadAhead"]

_EXIT_S: Final = 2.0


class Fetch:
    """One thing that is fetched, or will be."""

    def __init__(
        self, key: Hashable, num_bytes: int, run: Callable[[threading.Event], object]
    ) -> None:
        self.key = key
        self.num_bytes = num_bytes
        self.run = run
        self.done = threading.Event()
        self.result: object = None
        """What `run` gave; held so that a cached block is not evicted before it was read."""
        self.error: Exception | None = None


class Ahead:
    """Some fetches, all of which were begun or queued. See `Prefetch` of the loader's sources."""

    def __init__(self, fetches: Sequence[Fetch], num_bytes: int) -> None:
        self._fetches = fetches
        self.num_bytes = num_bytes

    def wait(self) -> None:
        """Return when all is there; failures are left to the read that follows."""
        for fetch in self._fetches:
            fetch.done.wait()


class ReadAhead:
    """A few threads, started when there is something to do and gone when there is not.

    Args:
        num_threads: most at a time.
        most_bytes: under way at a time; more is queued. A thing larger than that goes alone.
        name: of the threads.
        delay_s: a thread waits so long before it begins, for what is more urgent to go first.
    """

    def __init__(
        self, *, num_threads: int, most_bytes: int, name: str, delay_s: float = 0.0
    ) -> None:
        self._num_threads = num_threads
        self._most_bytes = most_bytes
        self._name = name
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._queue: OrderedDict[Hashable, Fetch] = OrderedDict()
        self._running: dict[Hashable, Fetch] = {}
        self._bytes_running = 0
        self._num_alive = 0
        self._stop = threading.Event()
        _ALIVE.add(self)
        forks.register(self)

    def _after_fork(self) -> None:
        # The threads are the parent's, and so is what they were about.
        was_stopped = self._stop.is_set()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._queue, self._running = OrderedDict(), {}
        self._bytes_running = self._num_alive = 0
        if was_stopped:
            self._stop.set()

    def submit(
        self,
        key: Hashable,
        num_bytes: int,
        run: Callable[[threading.Event], object],
        *,
        urgent: bool = False,
    ) -> tuple[Fetch, bool]:
        """Queue something, unless it is queued or under way; the fetch, and whether it is new.

        Args:
            key: what it is.
            num_bytes: about how much.
            run: fetches it, and gives up where the event that it gets is set. May raise.
            urgent: somebody waits for it: before all others, whatever is under way.
        """
        with self._lock:
            known = self._running.get(key) or self._queue.get(key)
            fetch = known or Fetch(key, num_bytes, run)
            if known is None:
                if self._stop.is_set():
                    fetch.done.set()
                    return fetch, True
                self._queue[key] = fetch
            if urgent and key in self._queue:
                self._queue.move_to_end(key, last=False)
                fetch.num_bytes = 0
            self._start_threads()
            return fetch, known is None

    def finish(self, fetches: Sequence[Fetch]) -> None:
        """Return when these are done, doing what nobody has begun. Failures stay with them."""
        for fetch in fetches:
            if self._claim(fetch):
                self._do(fetch)
        for fetch in fetches:
            fetch.done.wait()

    def close(self) -> None:
        """Drop what is queued; what is under way stops at its next chance."""
        self._stop.set()
        with self._lock:
            self._drop()

    def close_until(self, deadline: float) -> list[Fetch]:
        """`close`, if it can be done by then: what is under way."""
        self._stop.set()
        if not self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return []
        try:
            self._drop()
            return list(self._running.values())
        finally:
            self._lock.release()

    def _drop(self) -> None:
        dropped, self._queue = list(self._queue.values()), OrderedDict()
        for fetch in dropped:
            fetch.done.set()

    def _claim(self, fetch: Fetch) -> bool:
        with self._lock:
            if self._queue.get(fetch.key) is not fetch:
                return False
            del self._queue[fetch.key]
            self._begin(fetch)
            return True

    def _begin(self, fetch: Fetch) -> None:
        self._running[fetch.key] = fetch
        self._bytes_running += fetch.num_bytes

    def _start_threads(self) -> None:
        if not self._fits():
            return
        for _ in range(min(self._num_threads - self._num_alive, len(self._queue))):
            self._num_alive += 1
            threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _fits(self) -> bool:
        if not self._queue:
            return False
        first = next(iter(self._queue.values()))
        return not self._running or self._bytes_running + first.num_bytes <= self._most_bytes

    def _work(self) -> None:
        if self._delay_s:
            self._stop.wait(self._delay_s)
        while True:
            with self._lock:
                if not self._fits():
                    self._num_alive -= 1
                    return
                _, fetch = self._queue.popitem(last=False)
                self._begin(fetch)
            self._do(fetch)

    def _do(self, fetch: Fetch) -> None:
        try:
            fetch.result = fetch.run(self._stop)
        except Exception as error:
            fetch.error = error
        finally:
            with self._lock:
                self._running.pop(fetch.key, None)
                self._bytes_running -= fetch.num_bytes
                fetch.done.set()
                self._start_threads()


_ALIVE: weakref.WeakSet[ReadAhead] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # A thread that comes back from a library into an interpreter that is being taken apart aborts
    # the process.
    deadline = time.monotonic() + _EXIT_S
    alive = list(_ALIVE)
    for ahead in alive:
        ahead._stop.set()
    for fetch in [fetch for ahead in alive for fetch in ahead.close_until(deadline)]:
        fetch.done.wait(max(0.0, deadline - time.monotonic()))
