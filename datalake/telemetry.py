"""What the threads of a stream are doing, how long it took them, and how often.

One `Meter` goes along with a stream: whoever works for it says `with meter.during("decode", …)`.
The same call gives the times of `stats`, and the names a watchdog gives when something hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

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
        self._seconds: dict[str, float] = dict.fromkeys(STAGES, 0.0)
        self._counts: dict[str, int] = {}
        # By thread: the stages it is in, innermost last, with when each was entered.
        self._stacks: dict[int, list[tuple[Stage, str, float]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Meter, ()

    @contextmanager
    def during(self, stage: Stage, what: str = "") -> Iterator[None]:
        """Count the time within to a stage, and not to the stage around it.

        Args:
            stage: one of `STAGES`.
            what: for a person who asks why nothing moves: "block 7 of s3://…".
        """
        stack = self._stacks.setdefault(threading.get_ident(), [])
        begin = time.perf_counter()
        stack.append((stage, what, begin))
        try:
            yield
        finally:
            stack.pop()
            spent = time.perf_counter() - begin
            with self._lock:
                self._seconds[stage] += spent
                if stack:
                    self._seconds[stack[-1][0]] -= spent
            if not stack:
                self._stacks.pop(threading.get_ident(), None)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a count, such as `origin_bytes` or `cache_hits`."""
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + number

    def seconds(self) -> Mapping[str, float]:
        """Thread-seconds spent in each stage so far."""
        with self._lock:
            return dict(self._seconds)

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
