"""Threads that work for a stream, and that nothing waits for at the end.

Those of `concurrent.futures` are joined when Python exits, so that one thread stuck in a dead store
would keep a finished program alive for ever. These are daemons.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

__all__ = ["Crew"]

P = ParamSpec("P")
T = TypeVar("T")


class Crew:
    """A fixed number of daemon threads that do what is submitted, in that order.

    Args:
        num_threads: how many.
        name: of the threads.
        begin: done by each of them first.
    """

    def __init__(
        self, num_threads: int, name: str, begin: Callable[[], None] | None = None
    ) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(
                target=_work, args=(self._tasks, begin), name=f"{name}-{i}", daemon=True
            )
            for i in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Do this when a thread is free. Cancelling the future before that skips it."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._tasks.put(run)
        return future

    def close(self, within_s: float) -> bool:
        """Let the threads end after what they do now; whether they all did within the time."""
        for _ in self._threads:
            self._tasks.put(None)
        deadline = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)


def _work(tasks: queue.SimpleQueue[Any], begin: Callable[[], None] | None) -> None:
    if begin is not None:
        begin()
    while (task := tasks.get()) is not None:
        task()
        # A task holds its result, which may be a large batch.
        del task
