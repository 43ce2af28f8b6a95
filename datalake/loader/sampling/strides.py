"""Several streams merged in exact proportions: each comes at its own stride.

The j-th event of stream s happens at the time (j + phase_s) / rate_s; the rates sum to 1. Events in
the order of their times, and of the streams' numbers where times are equal, are the sequence. So
after n events each stream has had its share but for less than 1 + rate_s * streams: by the time t
it has had between t rate_s - phase_s and 1 more, and as many as n - t are made up by all streams.

Nothing of it needs a state: the events between two times are listed, stream by stream, and sorted.
Times are floats, computed by one addition and one division that IEEE 754 rounds alike everywhere;
counts are made to agree with them, so that no rounding loses an event or gives it twice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from datalake.loader.order.hashing import keys
from datalake.loader.order.order import Indices

__all__ = ["Strides"]

# Positions further apart than this are listed apart.
_MAX_GAP = 4096


class Strides:
    """The merged sequence. Immutable, thread-safe, picklable.

    Args:
        names: of the streams, from which the phases follow.
        weights: (streams,), in proportion to the rates, each above 0.
        seed: of the phases.
    """

    def __init__(self, names: Sequence[str], weights: npt.ArrayLike, seed: int) -> None:
        exact = np.asarray(weights, np.float64)
        # `fsum` rounds once, whatever the order and the machine.
        self.rates = exact / math.fsum(exact.tolist())
        words = np.array([keys(1, "phase", seed, name)[0] for name in names], np.uint64)
        self._phases = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def picks(self, positions: Indices) -> tuple[Indices, Indices]:
        """The stream at each position and the number of its event there, (n,) each."""
        wanted, which = np.unique(positions, return_inverse=True)
        streams = np.empty(len(wanted), np.int64)
        numbers = np.empty(len(wanted), np.int64)
        cuts = np.flatnonzero(np.diff(wanted) > _MAX_GAP) + 1
        for run in np.split(np.arange(len(wanted)), cuts) if len(wanted) else ():
            begin, stop = int(wanted[run[0]]), int(wanted[run[-1]]) + 1
            base, listed, own = self._listed(begin, stop)
            places = wanted[run] - base
            streams[run], numbers[run] = listed[places], own[places]
        return streams[which], numbers[which]

    def counts(self, position: int) -> Indices:
        """How many events of each stream come before a position, (streams,)."""
        base, streams, _ = self._listed(position, position)
        time = self._time_before(position)
        return self._counts(time) + np.bincount(
            streams[: position - base], minlength=len(self.rates)
        )

    def _listed(self, begin: int, stop: int) -> tuple[int, Indices, Indices]:
        """Events around positions from `begin` to `stop`: the position of the first one listed,
        and the streams and numbers of all."""
        first = self._counts(self._time_before(begin))
        last = self._counts(self._time_after(stop))
        counts = last - first
        streams = np.repeat(np.arange(len(counts)), counts)
        ends = np.cumsum(counts)
        numbers = np.arange(len(streams)) - np.repeat(ends - counts - first, counts)
        # Listed by stream, so that a stable sort keeps to their order where times are equal.
        order = np.argsort(self._times(numbers, streams), kind="stable")
        return int(first.sum()), streams[order], numbers[order]

    def _times(self, numbers: Indices, streams: Indices) -> npt.NDArray[np.float64]:
        return (numbers + self._phases[streams]) / self.rates[streams]

    def _counts(self, time: float) -> Indices:
        """Events of each stream before a time, (streams,)."""
        every = np.arange(len(self.rates))
        counts = np.maximum(np.ceil(time * self.rates - self._phases), 0).astype(np.int64)
        while (early := self._times(counts, every) < time).any():
            counts += early
        while (late := (counts > 0) & (self._times(counts - 1, every) >= time)).any():
            counts -= late
        return counts

    def _time_before(self, position: int) -> float:
        """A time not far before a position's event."""
        margin = 2.0 * math.sqrt(len(self.rates)) + 1
        while position > margin:
            time = position - margin
            if int(self._counts(time).sum()) <= position:
                return time
            margin *= 2
        return 0.0

    def _time_after(self, position: int) -> float:
        """A time not far after the events before a position."""
        margin = 2.0 * math.sqrt(len(self.rates)) + 1
        while int(self._counts(position + margin).sum()) < position:
            margin *= 2
        return position + margin
