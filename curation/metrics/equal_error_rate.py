"""The equal error rate by the rule of the ASVspoof challenges."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from curation.metrics.trials import Trials

__all__ = ["eer", "eer_of", "eer_threshold"]


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
