"""Batches made ahead of the trainer: in order, within a budget of bytes, and never in silence.

Steps pass through two windows. Those further off have their bytes on the way (`prefetch`); those
next are being made, each by one thread, as a batch of its own. The trainer's thread moves both.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar

from datalake.loader.engine.threads import Crew
from datalake.loader.engine.unlocked import begin_unlocked
from datalake.loader.engine.watchdog import awaited, told
from datalake.loader.sources.source import Prefetch
from datalake.telemetry import STAGES, Meter, Stage

__all__ = ["Limits", "Made", "ahead"]

_log: Final = logging.getLogger("datalake.loader")

Task = TypeVar("Task")
Result = TypeVar("Result")

# Steps whose bytes are on the way although all of them are here already (`num_bytes` 0).
_MOST_STEPS: Final = 32
# Steps that are asked for at each turn, though a batch is ready: one comes to be made at each.
_LEAST_ASKED: Final = 2
# How long threads are given to end; one that is stuck is left to die with the process.
_CLOSING_S: Final = 5.0


@dataclass(frozen=True)
class Limits:
    """How far ahead to work, and how long to wait."""

    num_threads: int
    """Threads that make batches; 0 to make each when it is asked for."""
    made_bytes: int
    """Finished batches that wait; one a thread in any case."""
    read_bytes: int
    """Bytes on the way from stores and disks, or come and not yet made a batch of."""
    timeout_s: float
    """How long the trainer waits for one batch before StalledError."""
    warn_after_s: float = 30.0
    """How long before it is said on the log what is waited for."""


@dataclass(frozen=True)
class Made(Generic[Result]):
    """A result, and what its making took."""

    result: Result
    num_bytes: int
    seconds: dict[Stage, float]
    """By stage, of the thread that made it."""
    waited_s: float
    """How long the trainer waited for it."""


def ahead(
    tasks: Iterator[Task],
    make: Callable[[Task], Result],
    *,
    prefetch: Callable[[Task], Sequence[Prefetch]],
    size: Callable[[Result], int],
    limits: Limits,
    meter: Meter,
) -> Generator[Made[Result], None, None]:
    """`map(make, tasks)`, worked on ahead. Results, and exceptions, come in the order of the tasks.

    Args:
        tasks: read from the trainer's thread.
        make: thread-safe.
        prefetch: returns at once.
        size: bytes of a result.
        limits: how far ahead, how long.
        meter: times making, and says what hangs.

    Raises:
        StalledError: a result did not come in time; names what each thread is doing.
    """

    def timed(task: Task) -> Made[Result]:
        before = meter.own_seconds()
        result = make(task)
        after = meter.own_seconds()
        spent = {stage: after[stage] - before[stage] for stage in STAGES}
        return Made(result, size(result), spent, 0.0)

    if limits.num_threads == 0:
        for task in tasks:
            begin = time.perf_counter()
            made = timed(task)
            yield Made(made.result, made.num_bytes, made.seconds, time.perf_counter() - begin)
        return

    def made_of(task: Task, prefetches: Sequence[Prefetch]) -> Made[Result]:
        try:
            return timed(task)
        finally:
            # Held until here, so that nothing of it is evicted before it was read.
            under_way.remove(prefetches)

    crew = Crew(limits.num_threads, "datalake-batch", begin_unlocked)
    asked: deque[tuple[Task, Sequence[Prefetch]]] = deque()
    under_way = _UnderWay()
    making: deque[Future[Made[Result]]] = deque()
    depth = limits.num_threads

    def ask() -> bool:
        """Begin to bring near what one more step needs, if there is one and room for it."""
        # One in any case, or nothing would be made.
        if under_way.num_bytes >= limits.read_bytes and (asked or making):
            return False
        for task in islice(tasks, 1):
            asked.append((task, under_way.add(prefetch(task))))
            return True
        return False

    try:
        while True:
            while len(making) <= depth and (asked or ask()):
                making.append(crew.submit(made_of, *asked.popleft()))
            if not making:
                return
            # Further ahead, but not while a batch waits for the trainer.
            for number in range(_MOST_STEPS - len(asked)):
                if (number >= _LEAST_ASKED and making[0].done()) or not ask():
                    break
            begin = time.perf_counter()
            made = awaited(making[0], meter, limits.timeout_s, limits.warn_after_s)
            making.popleft()
            fitting = min(limits.made_bytes // max(made.num_bytes, 1), _MOST_STEPS)
            depth = max(limits.num_threads, fitting)
            waited_s = time.perf_counter() - begin
            made = Made(made.result, made.num_bytes, made.seconds, waited_s)
            yield made
            # A batch is the trainer's alone: its memory is used again when the trainer is done.
            del made
    finally:
        for future in making:
            future.cancel()
        if not crew.close(_CLOSING_S):
            _log.warning("A thread did not end and was left: %s", told(meter))


class _UnderWay:
    """Bytes of steps that are not made yet. What two steps need is counted to the first."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._lock = threading.Lock()

    def add(self, prefetches: Sequence[Prefetch]) -> Sequence[Prefetch]:
        with self._lock:
            self.num_bytes += sum(one.num_bytes for one in prefetches)
        return prefetches

    def remove(self, prefetches: Sequence[Prefetch]) -> None:
        with self._lock:
            self.num_bytes -= sum(one.num_bytes for one in prefetches)
