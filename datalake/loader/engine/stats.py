"""What a stream did so far: how fast, what the trainer waited for, how well it was shuffled."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from datalake import forks
from datalake.loader.engine.ahead import Made
from datalake.loader.engine.trouble import Substitution
from datalake.loader.order.quality import Quality
from datalake.loader.sampling.realised import Share
from datalake.telemetry import STAGES, Meter, Stage

__all__ = ["Ledger", "LoaderStats"]


@dataclass(frozen=True)
class LoaderStats:
    """A stream's figures since it was made, or since `reset`. Times are in seconds."""

    num_batches: int
    num_examples: int
    elapsed_s: float
    """From the first batch asked for to the last one delivered."""
    first_batch_s: float
    """How long the first batch took."""
    wait_s: float
    """How long the trainer waited, all batches together, the first included."""
    wait_by_stage_s: Mapping[Stage, float]
    """What it waited for: each wait shared out as the making of its batch spent its time."""
    work_by_stage_s: Mapping[Stage, float]
    """Thread-seconds of work, whether anybody waited or not."""
    counts: Mapping[str, int]
    """Of cache and store: cache_hits, cache_misses, cache_evictions, origin_bytes, substituted…"""
    quality: Mapping[str, Quality] = field(default_factory=dict)
    """The shuffle as it came, by source."""
    mix: Mapping[str, Share] = field(default_factory=dict)
    """Shares by part of a mixture or by domain: asked for, and as they came."""
    substituted: tuple[Substitution, ...] = ()
    """The last rows that another stood in for."""

    @property
    def examples_per_s(self) -> float:
        """Examples a second, the first batch's time left out."""
        steady_s = self.elapsed_s - self.first_batch_s
        per_batch = self.num_examples / max(self.num_batches, 1)
        return (self.num_examples - per_batch) / steady_s if steady_s > 0 else 0.0

    @property
    def wait_share(self) -> float:
        """Which part of the time the trainer waited, from 0 to 1."""
        return self.wait_s / self.elapsed_s if self.elapsed_s > 0 else 0.0


class Ledger:
    """Adds up batches as they are delivered. One thread writes, any may ask."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._lock = threading.Lock()
        forks.register(self)
        self.reset()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Begin again at zero."""
        with self._lock:
            self._begin = self._end = 0.0
            self._num_batches = self._num_examples = 0
            self._first_s = self._wait_s = 0.0
            self._waits: dict[Stage, float] = dict.fromkeys(STAGES, 0.0)
            self._work_before = self._meter.seconds()
            self._counts_before = self._meter.counts()

    def delivered(self, made: Made[Any], num_examples: int) -> None:
        """A batch reached the trainer."""
        now = time.perf_counter()
        worked_s = sum(made.seconds.values())
        with self._lock:
            if self._num_batches == 0:
                self._begin, self._first_s = now - made.waited_s, made.waited_s
            self._end = now
            self._num_batches += 1
            self._num_examples += num_examples
            self._wait_s += made.waited_s
            for stage, seconds in made.seconds.items():
                if worked_s > 0:
                    self._waits[stage] += made.waited_s * seconds / worked_s

    def stats(self, **of_others: Any) -> LoaderStats:
        """The figures so far."""
        work, counts = self._meter.seconds(), self._meter.counts()
        with self._lock:
            return LoaderStats(
                num_batches=self._num_batches,
                num_examples=self._num_examples,
                elapsed_s=self._end - self._begin,
                first_batch_s=self._first_s,
                wait_s=self._wait_s,
                wait_by_stage_s=dict(self._waits),
                work_by_stage_s={s: work[s] - self._work_before[s] for s in STAGES},
                counts={
                    name: number - self._counts_before.get(name, 0)
                    for name, number in counts.items()
                },
                **of_others,
            )
