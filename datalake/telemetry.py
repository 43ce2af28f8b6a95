"""What the threads of a stream are doing, how long it took them, and how often.

One `Meter` goes along with a stream: whoever works for it says `with meter.during("decode", …)`.
The same call gives the times of `stats`, and the names a watchdog gives when something hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from datalake import forks

__all__ = ["STAGES", "Doing", "Meter", "Stage"]

Stage: TypeAlias = Literal["store", "cache", "decode", "collate", "copy"]

STAGES: Final[tuple[Stage, ...]] = ("store", "cache", "decode", "collate", "copy")
"""store: waiting for the origin; cache: reading, writing and waiting for blocks on this machine;
decode: making numbers of bytes; collate: filling batches; copy: to the device."""


@dataclass(frozen=True)
class Doing:
    """What a thread has been doing for how long."""

    thread: str
    stage: Stage
    what: str
    for_s: float


class Meter:
    """Times by stage and counts by name, summed over threads. Thread-safe; a copy starts at 0."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        # By thread, so that timing takes no lock. Threads of a stream are few and live as long.
        self._seconds: dict[int, dict[Stage, float]] = {}
        # By thread: the stages it is in, innermost last, with when each was entered.
        self._stacks: dict[int, list[tuple[Stage, str, float]]] = {}
        forks.register(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Meter, ()

    def during(self, stage: Stage, what: str = "") -> _During:
        """Count the time within to a stage, and not to the stage around it; a microsecond.

        Args:
            stage: one of `STAGES`.
            what: for a person who asks why nothing moves: "block 7 of s3://…".
        """
        return _During(self, stage, what)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a count, such as `origin_bytes` or `cache_hits`."""
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + number

    def seconds(self) -> Mapping[Stage, float]:
        """Thread-seconds spent in each stage so far."""
        threads = list(self._seconds.values())
        return {stage: sum(spent[stage] for spent in threads) for stage in STAGES}

    def own_seconds(self) -> Mapping[Stage, float]:
        """Seconds that the calling thread spent in each stage so far."""
        return dict(self._spent(threading.get_ident()))

    def counts(self) -> Mapping[str, int]:
        """All counts so far."""
        with self._lock:
            return dict(self._counts)

    def doing(self) -> list[Doing]:
        """What each thread that works for the stream does just now, the longest first."""
        now = time.perf_counter()
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        busy = [
            Doing(names.get(ident, str(ident)), *stack[-1][:2], now - stack[-1][2])
            for ident, stack in list(self._stacks.items())
            if stack
        ]
        return sorted(busy, key=lambda doing: -doing.for_s)

    def _spent(self, ident: int) -> dict[Stage, float]:
        return self._seconds.setdefault(ident, dict.fromkeys(STAGES, 0.0))


class _During:
    """One stretch of a thread's time. A class, as it is entered thousands of times a second."""

    __slots__ = ("_meter", "_place")

    def __init__(self, meter: Meter, stage: Stage, what: str) -> None:
        self._meter = meter
        self._place = stage, what

    def __enter__(self) -> None:
        stack = self._meter._stacks.setdefault(threading.get_ident(), [])
        stack.append((*self._place, time.perf_counter()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ident = threading.get_ident()
        stack = self._meter._stacks[ident]
        stage, _, begin = stack.pop()
        took = time.perf_counter() - begin
        spent = self._meter._spent(ident)
        spent[stage] += took
        if stack:
            spent[stack[-1][0]] -= took
