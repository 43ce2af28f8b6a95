"""The equal error rate by the rule of the ASVspoof challenges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from curation.metrics.ladder import Counts, IntArray
from curation.metrics.trials import FloatArray, Trials

__all__ = ["eer", "eer_of", "eer_of_counts", "eer_threshold"]


def eer(bonafide_scores: npt.ArrayLike, spoof_scores: npt.ArrayLike) -> float:
    """The equal error rate, as a fraction.

    Trials are rejected one by one from the lowest score on, bona fide before spoof among equal
    scores. At the first step where miss rate and false-alarm rate are nearest, it is their mean.
    This is the value of the ASVspoof 5 evaluation code to the last bit, ties included; a ROC curve
    that takes equal scores together gives another one.

    Args:
        bonafide_scores: shape (num_bonafide,), higher for bona fide.
        spoof_scores: shape (num_spoof,).

    Raises:
        InputError: see `Trials.of`.
    """
    return eer_of(Trials.of(bonafide_scores, spoof_scores))


def eer_threshold(bonafide_scores: npt.ArrayLike, spoof_scores: npt.ArrayLike) -> float:
    """The score at which `eer` is reached: the highest one that is rejected there.

    Raises:
        InputError: see `Trials.of`.
    """
    trials = Trials.of(bonafide_scores, spoof_scores)
    misses, rejections = _crossing(trials)
    # Something is always rejected: the first step already brings the rates nearer.
    return float(
        np.concatenate([trials.bonafide[:misses][-1:], trials.spoof[:rejections][-1:]]).max()
    )


def eer_of(trials: Trials) -> float:
    """`eer` of trials that are checked and sorted."""
    misses, rejections = _crossing(trials)
    miss_rate, false_alarm_rate = _rates(trials, misses, rejections)
    return (miss_rate + false_alarm_rate) / 2


def eer_of_counts(counts: Counts) -> FloatArray:
    """`eer` of each of several resamples, shape (num_resamples,).

    The same bisection as for one test, for all of them at once: first for the rung on which the
    rates cross, then among its bona fide trials, then among its spoofs.
    """
    rows = np.arange(len(counts.misses))
    num_bonafide, num_spoof = counts.num_bonafide[:, 0], counts.num_spoof[:, 0]

    def rates(misses: IntArray, rejections: IntArray) -> tuple[FloatArray, FloatArray]:
        return misses / num_bonafide, (num_spoof - rejections) / num_spoof

    def excess(misses: IntArray, rejections: IntArray) -> FloatArray:
        miss_rates, false_alarm_rates = rates(misses, rejections)
        return miss_rates - false_alarm_rates

    def excess_at(edges: IntArray) -> FloatArray:
        return excess(counts.misses[rows, edges], counts.rejections[rows, edges])

    first, last = np.zeros_like(rows), np.full_like(rows, counts.misses.shape[1] - 1)
    top = _first_reached(first, last, excess_at)
    bottom = top - 1
    spoofs_before = counts.rejections[rows, bottom]
    all_misses = counts.misses[rows, top]
    # One past the rung's bona fide trials where they bring no crossing: then a spoof does.
    misses = _first_reached(
        counts.misses[rows, bottom], all_misses + 1, lambda count: excess(count, spoofs_before)
    )
    by_spoof = misses > all_misses
    misses = np.minimum(misses, all_misses)
    rejections = _first_reached(
        spoofs_before, counts.rejections[rows, top], lambda count: excess(all_misses, count)
    )
    rejections = np.where(by_spoof, rejections, spoofs_before)
    before = (misses - ~by_spoof, rejections - by_spoof)
    is_before = np.abs(excess(*before)) <= np.abs(excess(misses, rejections))
    miss_rates, false_alarm_rates = rates(
        np.where(is_before, before[0], misses), np.where(is_before, before[1], rejections)
    )
    return np.asarray((miss_rates + false_alarm_rates) / 2)


def _first_reached(
    low: IntArray, high: IntArray, excess: Callable[[IntArray], FloatArray]
) -> IntArray:
    """The first whole number above `low` at which the excess is zero or more, else `high`.

    The excess grows, and is below zero at `low`; that at `high` is not looked at.
    """
    while (high - low > 1).any():
        middle = (low + high) // 2
        open_ = high - low > 1
        reached = excess(middle) >= 0
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle, low)
    return high


def _crossing(trials: Trials) -> tuple[int, int]:
    """Bona fide and spoof trials rejected at the step where the two rates are nearest.

    The miss rate less the false-alarm rate grows at every step, from -1 to 1, so the step is found
    by bisection: first which bona fide trial brings it to zero or above, then whether one of the
    spoofs before that trial did so already. Nothing is built that is as long as the trials.
    """

    def spoofs_before(bonafide_index: int) -> int:
        return int(trials.spoof.searchsorted(trials.bonafide[bonafide_index], side="left"))

    def excess(misses: int, rejections: int) -> float:
        miss_rate, false_alarm_rate = _rates(trials, misses, rejections)
        return miss_rate - false_alarm_rate

    misses = bisect_left(
        range(trials.bonafide.size), 0.0, key=lambda index: excess(index + 1, spoofs_before(index))
    )
    fewest = spoofs_before(misses - 1) if misses else 0
    most = spoofs_before(misses)
    # Below zero at `fewest`: the bona fide trial before was no crossing.
    candidates = range(fewest + 1, most + 1)
    rejections = (
        fewest + 1 + bisect_left(candidates, 0.0, key=lambda spoofs: excess(misses, spoofs))
    )
    before = (misses, rejections - 1)
    after = (misses, rejections) if rejections <= most else (misses + 1, most)
    return before if abs(excess(*before)) <= abs(excess(*after)) else after


def _rates(trials: Trials, misses: int, rejections: int) -> tuple[float, float]:
    num_spoof = trials.spoof.size
    return misses / trials.bonafide.size, (num_spoof - rejections) / num_spoof
