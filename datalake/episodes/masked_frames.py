"""Masked frames as rows of a frames table, and what they leave of episodes: runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["MaskedFrames", "merged"]

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MaskedFrames:
    """The masked frames of one version of a set. 32 bytes a span.

    They cut episodes into runs: consecutive frames of an episode of which none is masked.
    """

    begins: _Ints
    """The first row of each span, ascending, (k,)."""
    ends: _Ints
    """The row after its last, (k,); spans neither overlap nor touch."""
    digest: str
    """Of the mask, whatever the version of the set: `Mask.digest`."""

    @cached_property
    def _before(self) -> _Ints:
        """Where the masked span before a run ends, and 0 before the first; (k + 1,)."""
        return np.concatenate([np.zeros(1, np.int64), self.ends])

    @cached_property
    def _after(self) -> _Ints:
        """Where the masked span after a run begins, and far away after the last; (k + 1,)."""
        return np.append(self.begins, np.iinfo(np.int64).max)

    def holds(self, rows: _Ints) -> npt.NDArray[np.bool_]:
        """Whether each of these rows is masked, (n,)."""
        span = np.searchsorted(self.begins, rows, side="right")
        return np.asarray(rows < self._before[span], np.bool_)

    def run_of(self, rows: _Ints, firsts: _Ints, stops: _Ints) -> tuple[_Ints, _Ints]:
        """Where the run of each row begins and ends.

        Args:
            rows: rows that are not masked, (n,).
            firsts: where the episode of each begins, (n,).
            stops: where it ends, exclusive, (n,).

        Returns:
            The first row of the run, and the row after its last; (n,) each.
        """
        span = np.searchsorted(self.begins, rows, side="right")
        before = self._before[span]
        after = self._after[span]
        return np.maximum(firsts, before), np.minimum(stops, after)

    def runs(self, firsts: _Ints, stops: _Ints) -> tuple[_Ints, _Ints, _Ints]:
        """The runs within spans of rows, in their order.

        Args:
            firsts: the first row of each, (k,), in any order.
            stops: the row after its last, (k,).

        Returns:
            Of each run the number of the span that it is of, its first row, and the row after its
            last. A span that is masked whole has none.
        """
        # The masked spans that each reaches into, and hence one run more.
        low = np.searchsorted(self.ends, firsts, side="right")
        high = np.maximum(np.searchsorted(self.begins, stops, side="left"), low)
        num_runs = high - low + 1
        owners = np.repeat(np.arange(len(firsts)), num_runs)
        number = np.arange(len(owners)) - np.repeat(np.cumsum(num_runs) - num_runs, num_runs)
        # The masked span after each run; the one before it is the one before that.
        after = low[owners] + number
        begins = np.where(number == 0, firsts[owners], self._before[after])
        is_last = number == num_runs[owners] - 1
        ends = np.where(is_last, stops[owners], self._after[after])
        some = begins < ends
        return owners[some], begins[some], ends[some]


def merged(begins: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
    """Spans that cover what these cover, ascending, none of which overlap or touch.

    Args:
        begins: (n,), in any order.
        ends: exclusive, (n,).
    """
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order].astype(np.int64), ends[order].astype(np.int64)
    reached = np.maximum.accumulate(ends)
    is_new = np.ones(len(begins), np.bool_)
    is_new[1:] = begins[1:] > reached[:-1]
    if not len(begins):
        return begins, ends
    # Where the next one begins, everything before has been reached.
    last = np.append(np.flatnonzero(is_new)[1:] - 1, len(begins) - 1)
    return begins[is_new], reached[last]
