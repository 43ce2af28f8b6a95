"""The tandem detection cost of a countermeasure before a speaker verifier (t-DCF).

Two forms: `2019` of the ASVspoof 2019 challenge (Kinnunen et al., Odyssey 2018), and `2021` of
ASVspoof 2021 and 5 (Kinnunen et al., TASLP 2020), whose normaliser counts the verifier's own cost.
Both have the challenges' parameters: P_spoof .05, P_target .95 * .99, P_nontarget .95 * .01, a
miss costs 1, every false alarm 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from curation.metrics.equal_error_rate import eer_threshold
from curation.metrics.trials import FloatArray, Trials, ascending
from datalake.errors import InputError

__all__ = [
    "ASVSPOOF5_ASV",
    "AsvRates",
    "TandemCost",
    "TandemForm",
    "act_t_dcf",
    "asv_rates",
    "min_t_dcf",
]

TandemForm = Literal["2019", "2021"]

P_SPOOF: Final = 0.05
P_TARGET: Final = (1 - P_SPOOF) * 0.99
P_NONTARGET: Final = (1 - P_SPOOF) * 0.01
C_MISS: Final = 1
C_FALSE_ALARM: Final = 10


@dataclass(frozen=True)
class AsvRates:
    """Error rates of a speaker verifier at its threshold, as fractions.

    `false_alarm` is the share of non-target trials that it accepts, `miss` of target trials that
    it rejects, `spoof_false_alarm` and `spoof_miss` of spoofs that it accepts and rejects.
    """

    false_alarm: float
    miss: float
    spoof_false_alarm: float
    spoof_miss: float


ASVSPOOF5_ASV: Final = AsvRates(
    false_alarm=0.01881016557566423,
    miss=0.01880141010575793,
    spoof_false_alarm=0.4607082907604729,
    spoof_miss=1 - 0.4607082907604729,
)
"""The rates of the ASVspoof 5 organisers' verifier, over all conditions."""


def asv_rates(
    target_scores: npt.ArrayLike, nontarget_scores: npt.ArrayLike, spoof_scores: npt.ArrayLike
) -> AsvRates:
    """The rates of a verifier at the threshold of its equal error rate, target against non-target.

    Args:
        target_scores: shape (num_target,), higher for the claimed speaker.
        nontarget_scores: shape (num_nontarget,).
        spoof_scores: shape (num_spoof,).

    Raises:
        InputError: scores are none, not finite, or do not tell any trials apart.
    """
    threshold = eer_threshold(target_scores, nontarget_scores)
    target, nontarget = ascending(target_scores, "target"), ascending(nontarget_scores, "nontarget")
    spoof = ascending(spoof_scores, "spoof")

    def rejected(scores: FloatArray) -> int:
        return int(np.searchsorted(scores, threshold, side="left"))

    return AsvRates(
        false_alarm=(nontarget.size - rejected(nontarget)) / nontarget.size,
        miss=rejected(target) / target.size,
        spoof_false_alarm=(spoof.size - rejected(spoof)) / spoof.size,
        spoof_miss=rejected(spoof) / spoof.size,
    )


def min_t_dcf(
    bonafide_scores: npt.ArrayLike,
    spoof_scores: npt.ArrayLike,
    *,
    asv: AsvRates = ASVSPOOF5_ASV,
    form: TandemForm = "2021",
) -> float:
    """The least normalised tandem cost over all thresholds of the countermeasure.

    The value of the official code to the last bit, ties included. That code refuses scores of
    fewer than three values; here two do.

    Args:
        bonafide_scores: countermeasure scores, shape (num_bonafide,), higher for bona fide.
        spoof_scores: shape (num_spoof,).
        asv: rates of the verifier behind it; see `asv_rates`.
        form: `2021` or `2019`.

    Raises:
        InputError: see `Trials.of` and `TandemCost.of`.
    """
    return TandemCost.of(asv, form).least(Trials.of(bonafide_scores, spoof_scores))


def act_t_dcf(
    bonafide_scores: npt.ArrayLike,
    spoof_scores: npt.ArrayLike,
    *,
    asv: AsvRates = ASVSPOOF5_ASV,
    form: TandemForm = "2021",
) -> float:
    """The normalised tandem cost at the Bayes threshold of its weights.

    Scores must be log-likelihood ratios, as for `act_dcf`. The challenges' code has no actual
    t-DCF; this one (ours) takes their cost where a calibrated countermeasure would decide, at the
    logarithm of the weight of a false alarm over the weight of a miss. As with `act_dcf`, a score
    at the threshold is accepted.

    Raises:
        InputError: see `Trials.of` and `TandemCost.of`.
    """
    return TandemCost.of(asv, form).actual(Trials.of(bonafide_scores, spoof_scores))


@dataclass(frozen=True)
class TandemCost:
    """The tandem cost as weights of the countermeasure's two error rates.

    `at` is (base + miss * miss rate + false_alarm * false-alarm rate) / default.
    """

    base: float
    miss: float
    false_alarm: float
    default: float

    @classmethod
    def of(cls, asv: AsvRates, form: TandemForm) -> TandemCost:
        """The weights for a verifier, in the floating-point order of the official code.

        Raises:
            InputError: the form is not known; a rate is no fraction; or the verifier is so poor
                that the cost is not defined.
        """
        if form not in get_args(TandemForm):
            raise InputError(
                f"The form {form} of the t-DCF is not known",
                expected=" or ".join(get_args(TandemForm)),
            )
        rates = (asv.false_alarm, asv.miss, asv.spoof_false_alarm, asv.spoof_miss)
        if not all(0 <= rate <= 1 for rate in rates):
            raise InputError(
                "An error rate of the speaker verifier is no fraction",
                expected="numbers from 0 to 1, not percent",
                found=str(asv),
            )
        if form == "2019":
            base = 0.0
            miss = P_TARGET * (C_MISS - C_MISS * asv.miss) - (
                P_NONTARGET * C_FALSE_ALARM * asv.false_alarm
            )
            false_alarm = C_FALSE_ALARM * P_SPOOF * (1 - asv.spoof_miss)
        else:
            base = P_TARGET * C_MISS * asv.miss + P_NONTARGET * C_FALSE_ALARM * asv.false_alarm
            miss = P_TARGET * C_MISS - base
            false_alarm = P_SPOOF * C_FALSE_ALARM * asv.spoof_false_alarm
        default = base + min(miss, false_alarm)
        if miss < 0 or default <= 0:
            raise InputError(
                "The t-DCF is not defined behind this speaker verifier",
                expected="a verifier that is better than none, and that some spoofs pass",
                found=f"weights {miss} of a miss and {false_alarm} of a false alarm, from {asv}",
            )
        return cls(base, miss, false_alarm, default)

    @property
    def threshold(self) -> float:
        """The log-likelihood ratio from which on to accept; infinite where one weight is zero."""
        if not self.miss:
            return math.inf
        return math.log(self.false_alarm / self.miss) if self.false_alarm else -math.inf

    def at(self, miss_rates: FloatArray, false_alarm_rates: FloatArray) -> FloatArray:
        """The normalised cost at error rates, of their shape."""
        costs = self.miss * miss_rates
        # Zero plus a number is that number to the bit, so one sum serves both forms.
        costs = self.base + costs + self.false_alarm * false_alarm_rates
        return np.asarray(costs / self.default)

    def least(self, trials: Trials) -> float:
        """The least normalised cost over all thresholds."""
        return float(self.at(*trials.error_rates()).min())

    def actual(self, trials: Trials) -> float:
        """The normalised cost at `threshold`."""
        miss_rate, false_alarm_rate = trials.rates_at(self.threshold)
        return float(self.at(np.asarray(miss_rate), np.asarray(false_alarm_rate)))
