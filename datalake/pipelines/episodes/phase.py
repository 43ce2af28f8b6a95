"""How far one of the two phases of an ingest of episodes is."""

from __future__ import annotations

import time

from datalake.pipelines.run import ProgressSink

__all__ = ["Phase"]


class Phase:
    """Tells a sink how far one of the two phases is."""

    def __init__(self, sink: ProgressSink | None, number: int, what: str, total: int) -> None:
        self._sink = sink
        self._what = what
        self._phase = f"phase {number} of 2"
        self._total = total
        self._done = self._num_bytes = 0
        self._started = time.monotonic()

    def add(self, num_items: int, num_bytes: int, num_bad: int) -> None:
        """Count what a unit did."""
        self._done += num_items
        self._num_bytes += num_bytes
        if self._sink is None:
            return
        left_s = (self._total / max(1, self._done) - 1) * (time.monotonic() - self._started)
        note = (
            f"{self._phase}, {self._num_bytes / 1e6:,.0f} MB, {num_bad:,} bad, {left_s:,.0f} s left"
        )
        self._sink.update(self._done, total=self._total, note=note, unit=self._what)
