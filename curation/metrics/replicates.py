"""Metrics of a block of resamples, looking into as few buckets as decide them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from curation.metrics.equal_error_rate import eer_of_counts
from curation.metrics.ladder import Counts, Ladder
from curation.metrics.trials import FloatArray

__all__ = ["Cost", "CostAt", "EqualErrorRate", "LeastCost", "Replicates"]

Cost = Callable[[FloatArray, FloatArray], FloatArray]
"""A cost of miss and false-alarm rates that falls with neither, also in floating point."""


class Replicates(Protocol):
    """One metric of the resamples of a block, found bucket by bucket.

    It starts from the counts at the edges of the buckets.
    """

    def wants(self, bucket: int) -> bool:
        """Whether the metric of some resample may be decided inside a bucket."""
        ...

    def look(self, bucket: int, counts: Counts) -> None:
        """Take in the counts within a bucket that is wanted."""
        ...

    def values(self) -> FloatArray:
        """The metric of each resample, shape (num_resamples,)."""
        ...


class EqualErrorRate:
    """The rates cross in one bucket of each resample."""

    def __init__(self, at_buckets: Counts) -> None:
        miss_rates, false_alarm_rates = at_buckets.rates()
        self._bucket = (miss_rates >= false_alarm_rates).argmax(axis=1) - 1
        self._wanted = set(self._bucket.tolist())
        self._values = np.empty(self._bucket.size)

    def wants(self, bucket: int) -> bool:
        """See `Replicates`."""
        return bucket in self._wanted

    def look(self, bucket: int, counts: Counts) -> None:
        """See `Replicates`."""
        here = self._bucket == bucket
        if here.any():
            self._values[here] = eer_of_counts(counts.of_rows(here))

    def values(self) -> FloatArray:
        """See `Replicates`."""
        return self._values


class LeastCost:
    """The least cost over all thresholds.

    No state within a bucket has fewer misses than its lower end or more spoofs rejected than its
    upper end, so it costs no less than those two together. Where that is not below the least cost
    found, the bucket holds nothing better.
    """

    def __init__(self, at_buckets: Counts, cost: Cost) -> None:
        miss_rates, false_alarm_rates = at_buckets.rates()
        self._cost = cost
        self._least: FloatArray = cost(miss_rates, false_alarm_rates).min(axis=1)
        self._bounds = cost(miss_rates[:, :-1], false_alarm_rates[:, 1:])

    def wants(self, bucket: int) -> bool:
        """See `Replicates`."""
        return bool((self._bounds[:, bucket] < self._least).any())

    def look(self, bucket: int, counts: Counts) -> None:
        """See `Replicates`."""
        del bucket  # a cost is a cost, wherever
        self._least = np.minimum(self._least, self._cost(*counts.rates()).min(axis=1))

    def values(self) -> FloatArray:
        """See `Replicates`."""
        return self._least


class CostAt:
    """The cost at one edge of the ladder."""

    def __init__(self, at_buckets: Counts, cost: Cost, ladder: Ladder, edge: int) -> None:
        self._cost = cost
        self._bucket = int(np.searchsorted(ladder.bucket_edges, edge, side="right")) - 1
        self._offset = edge - int(ladder.bucket_edges[self._bucket])
        self._values = self._of(at_buckets.at(self._bucket)) if not self._offset else None

    def wants(self, bucket: int) -> bool:
        """See `Replicates`."""
        return self._values is None and bucket == self._bucket

    def look(self, bucket: int, counts: Counts) -> None:
        """See `Replicates`."""
        if bucket == self._bucket and self._offset:
            self._values = self._of(counts.at(self._offset))

    def values(self) -> FloatArray:
        """See `Replicates`."""
        assert self._values is not None, "the wanted bucket was not shown"
        return self._values

    def _of(self, counts: Counts) -> FloatArray:
        return self._cost(*counts.rates())[:, 0]
