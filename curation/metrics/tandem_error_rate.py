"""The concurrent tandem equal error rate (t-EER) of a countermeasure and a speaker verifier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from curation.metrics.ladder import IntArray
from curation.metrics.trials import FloatArray, Trials, ascending
from datalake.errors import InputError

__all__ = ["t_eer"]


def t_eer(target: npt.ArrayLike, nontarget: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """The concurrent t-EER, as a fraction.

    Kinnunen et al., TPAMI 2023: for each threshold of the verifier, the countermeasure's threshold
    at which the tandem's miss and false-alarm rates are nearest; among these pairs the one where
    the tandem accepts non-target trials and spoofs most nearly alike, so that their shares do not
    matter. It is the false-alarm rate of spoofs there.

    The official code gives percent (a hundred times this value, to the last bit), and looks at
    about 3000 thresholds of a larger test before it searches near the best of them, so its result
    can hang on that choice. This one looks at all thresholds; they agree where the official code
    does, too, and may differ beyond. Time is n log n in the number of trials.

    Args:
        target: shape (num_target, 2): the verifier's and the countermeasure's score of a trial,
            higher for the claimed speaker and for bona fide.
        nontarget: shape (num_nontarget, 2).
        spoof: shape (num_spoof, 2).

    Raises:
        InputError: shapes are others; scores are none or not finite; the countermeasure tells
            nothing apart.
    """
    pairs = [
        _pairs(scores, kind)
        for scores, kind in ((target, "target"), (nontarget, "nontarget"), (spoof, "spoof"))
    ]
    verifier = _VerifierRates.of(*(scores[:, 0] for scores in pairs))
    bonafide = np.concatenate([pairs[0][:, 1], pairs[1][:, 1]])
    miss_rates, false_alarm_rates = Trials.of(bonafide, pairs[2][:, 1]).error_rates()

    # Where no spoof passes the verifier, the two kinds of false alarm cannot be compared.
    qualifies = (verifier.miss < 0.5 * verifier.false_alarm + 0.5 * verifier.spoof_false_alarm) & (
        verifier.spoof_false_alarm > 0
    )
    verifier = verifier.take(np.flatnonzero(qualifies))
    step = _nearest_steps(verifier, miss_rates, false_alarm_rates)
    passed = 1 - miss_rates[step]
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.abs(
            verifier.false_alarm / verifier.spoof_false_alarm - false_alarm_rates[step] / passed
        )
    distance[~(passed > 0)] = np.inf
    # Never infinite everywhere: a verifier that accepts all qualifies, and behind it the rates are
    # nearest before the last bona fide trial is rejected (there are two at least).
    best = int(distance.argmin())
    return float(verifier.spoof_false_alarm[best] * false_alarm_rates[step[best]])


@dataclass(frozen=True)
class _VerifierRates:
    """Rates after rejecting the 0, 1, … lowest trials, targets first among equals."""

    miss: FloatArray
    false_alarm: FloatArray
    spoof_false_alarm: FloatArray

    @classmethod
    def of(cls, target: FloatArray, nontarget: FloatArray, spoof: FloatArray) -> _VerifierRates:
        kinds = np.repeat([0, 1, 2], [target.size, nontarget.size, spoof.size])
        kinds = kinds[np.argsort(np.concatenate([target, nontarget, spoof]), kind="stable")]

        def rejected(kind: int, size: int) -> FloatArray:
            return np.concatenate([[0], np.cumsum(kinds == kind)]) / size

        return cls(
            rejected(0, target.size),
            # One less the share, as in the official code: not the share that is left.
            1 - rejected(1, nontarget.size),
            1 - rejected(2, spoof.size),
        )

    def take(self, rows: IntArray) -> _VerifierRates:
        return _VerifierRates(self.miss[rows], self.false_alarm[rows], self.spoof_false_alarm[rows])


def _nearest_steps(
    verifier: _VerifierRates, miss_rates: FloatArray, false_alarm_rates: FloatArray
) -> IntArray:
    """The countermeasure's step at which the tandem's rates are nearest, for each of the rows.

    The tandem's miss rate less its false-alarm rate grows with each step (by at least one over the
    product of the class sizes, far more than rounding), from below zero to one: bisection, for all
    rows at once.
    """

    def excess(step: IntArray) -> FloatArray:
        miss, false_alarm = miss_rates[step], false_alarm_rates[step]
        tandem_miss = miss + (1 - miss) * verifier.miss
        tandem_false_alarm = (
            0.5 * (1 - miss) * verifier.false_alarm + 0.5 * false_alarm * verifier.spoof_false_alarm
        )
        return np.asarray(tandem_miss - tandem_false_alarm)

    # Invariant: below zero at `low`, zero or above at `high`.
    low = np.zeros(verifier.miss.size, dtype=np.int64)
    high = np.full(verifier.miss.size, miss_rates.size - 1, dtype=np.int64)
    while (high - low > 1).any():
        middle = (low + high) // 2
        reached = excess(middle) >= 0
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return np.where(np.abs(excess(low)) <= np.abs(excess(high)), low, high)


def _pairs(scores: npt.ArrayLike, kind: str) -> FloatArray:
    array = np.asarray(scores)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(
            f"The {kind} scores are not pairs",
            expected="shape (num_trials, 2): the verifier's and the countermeasure's score",
            found=f"shape {array.shape}",
        )
    for column in range(2):
        ascending(array[:, column], kind)  # refuses what is no finite number
    return array.astype(np.float64)
