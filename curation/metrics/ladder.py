"""Where a test's error rates can turn: the few states that decide every metric of a resample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.metrics.trials import FloatArray, Trials

__all__ = ["Counts", "IntArray", "Ladder"]

TRIALS_A_BUCKET: Final = 1000

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ladder:
    """A test as rungs: a run of bona fide trials without a spoof in between, then a run of spoofs.

    Rejecting from the lowest score on, bona fide first among equals, climbs the ladder. Whichever
    trials a resample draws, and however often, its steps are those of the rungs in this order. A
    detection cost rises with a miss and falls with a rejected spoof, so its least value is at an
    edge between rungs; the equal error rate lies within one rung. Good detectors have few rungs.

    Edge `e` stands after `bonafide_edges[e]` bona fide and `spoof_edges[e]` spoof trials, both
    shapes (num_edges,), from 0 to all of them. Equal scores of one class are never parted.
    `bucket_edges` are some of the edges, by index, the first and the last among them: between two
    are about a thousand trials, or one rung.
    """

    bonafide_edges: IntArray
    spoof_edges: IntArray
    bucket_edges: IntArray

    @classmethod
    def of(cls, trials: Trials, cuts: Sequence[float] = ()) -> Ladder:
        """The ladder of a test, with an edge below each of the `cuts` (scores).

        Cuts add no buckets: what is drawn does not hang on them.
        """
        spoofs_below = np.searchsorted(trials.spoof, trials.bonafide, side="left")
        # A spoof before the first bona fide trial makes a rung that has no bona fide.
        turns = np.flatnonzero(np.diff(spoofs_below, prepend=0))
        ends = np.array([(0, 0), (trials.bonafide.size, trials.spoof.size)], dtype=np.int64)
        edges = _on_one_path(np.concatenate([np.stack([turns, spoofs_below[turns]], 1), ends]))
        below = edges.sum(axis=1)
        near = np.searchsorted(below, np.arange(0, below[-1], TRIALS_A_BUCKET))
        bucket_ends = np.unique(np.append(below[near], below[-1]))
        places = [(_below(trials.bonafide, cut), _below(trials.spoof, cut)) for cut in cuts]
        edges = _on_one_path(np.concatenate([edges, np.array(places, np.int64).reshape(-1, 2)]))
        bucket_edges = np.searchsorted(edges.sum(axis=1), bucket_ends)
        return cls(edges[:, 0].copy(), edges[:, 1].copy(), bucket_edges)

    @property
    def num_buckets(self) -> int:
        """The number of buckets."""
        return self.bucket_edges.size - 1

    def edge_below(self, trials: Trials, cut: float) -> int:
        """The edge below a score that was among the cuts."""
        below = _below(trials.bonafide, cut) + _below(trials.spoof, cut)
        return int(np.searchsorted(self.bonafide_edges + self.spoof_edges, below))


@dataclass(frozen=True)
class Counts:
    """How many trials of each of several resamples are below each of some edges of a ladder.

    `misses` and `rejections` have shape (num_resamples, num_edges), `num_bonafide` and `num_spoof`
    (num_resamples, 1).
    """

    misses: IntArray
    rejections: IntArray
    num_bonafide: IntArray
    num_spoof: IntArray

    def rates(self) -> tuple[FloatArray, FloatArray]:
        """Miss and false-alarm rates at the edges, as the challenges round them."""
        return (
            self.misses / self.num_bonafide,
            (self.num_spoof - self.rejections) / self.num_spoof,
        )

    def of_rows(self, rows: npt.NDArray[np.bool_]) -> Counts:
        """Those of some of the resamples."""
        return Counts(
            self.misses[rows], self.rejections[rows], self.num_bonafide[rows], self.num_spoof[rows]
        )

    def at(self, edge: int) -> Counts:
        """Those below one edge."""
        one = slice(edge, edge + 1)
        return Counts(
            self.misses[:, one], self.rejections[:, one], self.num_bonafide, self.num_spoof
        )


def _on_one_path(edges: IntArray) -> IntArray:
    """Edges in order, each once: the number of trials below orders and identifies them."""
    _, first = np.unique(edges.sum(axis=1), return_index=True)
    return edges[first]


def _below(ascending: FloatArray, cut: float) -> int:
    return int(np.searchsorted(ascending, cut, side="left"))
