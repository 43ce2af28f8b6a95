"""Golden values: what the official code gives for these scores.

ASVspoof 5 evaluation package (fe23d30, 2024-09-15) for all but two: the t-DCF of 2019 is from
clovaai/aasist (a04c986), that of 2021 from SSL_Anti-spoofing (4acaa61); `a_dcf_original` from
shimhz/a_DCF (0560623). The t-EER is that of `compute_teer` on all thresholds, in percent.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curation import metrics
from curation.metrics.trials import FloatArray
from datalake.errors import InputError

OFFICIAL = {
    "many ties": {
        "eer": 0.28809683177153056,
        "min_dcf": 0.5838576528335564,
        "act_dcf": 0.6624386434627398,
        "cllr": 0.6786899021419378,
        "min_t_dcf_default": 0.6342039096664687,
        "min_t_dcf_2021": 0.7183006465569937,
        "min_t_dcf_2019": 0.5868688399404642,
        "a_dcf": 0.7597405534887629,
        "a_dcf_original": 0.7986261987842079,
        "t_eer_percent": 27.52213673973,
    },
    "no ties": {
        "eer": 0.28809683177153056,
        "min_dcf": 0.5662650602409638,
        "act_dcf": 0.7152164212405177,
        "cllr": 0.6895144882804917,
        "min_t_dcf_default": 0.6000676218738631,
        "min_t_dcf_2021": 0.7097971412268228,
        "min_t_dcf_2019": 0.5662650602409639,
        "a_dcf": 0.698926584219948,
        "a_dcf_original": 0.7718524370706871,
        "t_eer_percent": 25.606038612280447,
    },
}


def wave(num_scores: int, step: int, shift: float, kind: str) -> FloatArray:
    """Scores from whole numbers, so that they are the same everywhere."""
    scores = (np.arange(num_scores) * step) % 1009 / 1009 * 4 - 2 + shift
    return np.round(scores * 2) / 2 if kind == "many ties" else scores


@pytest.mark.parametrize("kind", OFFICIAL)
def test_values_are_those_of_the_official_code_to_the_bit(kind: str) -> None:
    countermeasure = [
        wave(61, 389, 0.9, kind),
        wave(47, 211, 0.7, kind),
        wave(83, 577, -0.8, kind),
    ]
    verifier = [wave(61, 433, 1.5, kind), wave(47, 701, -1.2, kind), wave(83, 131, 0.6, kind)]
    sides = np.concatenate(countermeasure[:2]), countermeasure[2]
    asv = metrics.asv_rates(*verifier)
    pairs = [np.stack(pair, axis=1) for pair in zip(verifier, countermeasure, strict=True)]
    found = {
        "eer": metrics.eer(*sides),
        "min_dcf": metrics.min_dcf(*sides),
        "act_dcf": metrics.act_dcf(*sides),
        "min_t_dcf_default": metrics.min_t_dcf(*sides),
        "min_t_dcf_2021": metrics.min_t_dcf(*sides, asv=asv),
        "min_t_dcf_2019": metrics.min_t_dcf(*sides, asv=asv, form="2019"),
        "a_dcf": metrics.a_dcf(*verifier),
        "a_dcf_original": metrics.a_dcf(*verifier, costs="original"),
        "t_eer_percent": metrics.t_eer(*pairs) * 100,
    }
    expected = dict(OFFICIAL[kind])
    assert metrics.cllr(*sides) == pytest.approx(expected.pop("cllr"), rel=1e-14)
    assert found == expected


def _t_eer(target, nontarget, spoof) -> float | None:
    """The slow twin: every pair of thresholds, in the words of the paper."""

    def rates(scores, threshold, column):
        return sum(score[column] >= threshold for score in scores) / len(scores)

    bonafide = [*target, *nontarget]
    best, value = None, None
    for tau in [-1e9, *sorted({s[0] + 1e-6 for s in [*bonafide, *spoof]})]:
        miss = 1 - rates(target, tau, 0)
        alarm, spoof_alarm = rates(nontarget, tau, 0), rates(spoof, tau, 0)
        if not (miss < 0.5 * alarm + 0.5 * spoof_alarm and spoof_alarm > 0):
            continue
        nearest = None
        for cut in [-1e9, *sorted({s[1] + 1e-6 for s in [*bonafide, *spoof]})]:
            cm_miss, cm_alarm = 1 - rates(bonafide, cut, 1), rates(spoof, cut, 1)
            gap = abs(
                cm_miss
                + (1 - cm_miss) * miss
                - (0.5 * (1 - cm_miss) * alarm + 0.5 * cm_alarm * spoof_alarm)
            )
            if nearest is None or gap < nearest[0] - 1e-12:
                nearest = (gap, cm_miss, cm_alarm)
        _, cm_miss, cm_alarm = nearest
        if cm_miss < 1:
            distance = abs(alarm / spoof_alarm - cm_alarm / (1 - cm_miss))
            if best is None or distance < best - 1e-12:
                best, value = distance, spoof_alarm * cm_alarm
    return value


@pytest.mark.parametrize("seed", range(4))
def test_t_eer_is_that_of_all_pairs_of_thresholds(seed: int) -> None:
    rng = np.random.default_rng(seed)  # no ties, where a threshold and a step are the same
    trials = [
        rng.normal((2, 1), 1, (9, 2)),
        rng.normal((-1, 1), 1, (7, 2)),
        rng.normal((1, -1), 1, (11, 2)),
    ]
    expected = _t_eer(*(part.tolist() for part in trials))
    assert metrics.t_eer(*trials) == pytest.approx(expected, rel=1e-12)


SCORES = st.lists(st.integers(-4, 4).map(lambda tenth: tenth / 10), min_size=1, max_size=15)


@settings(deadline=None)  # a busy machine is no failure
@given(SCORES, SCORES, SCORES)
def test_a_dcf_is_the_least_cost_of_walking_the_trials(target, nontarget, spoof) -> None:
    trials = [(score, 0) for score in target] + [(score, 1) for score in nontarget]
    trials += [(score, 2) for score in spoof]
    if len({score for score, _ in trials}) == 1:
        return
    sizes = [len(target), len(nontarget), len(spoof)]
    rejected = [0, 0, 0]
    costs = [10 * 0.05 + 20 * 0.05]
    for _, kind in sorted(trials, key=lambda trial: trial[0]):
        rejected[kind] += 1
        passed = [1 - share / size for share, size in zip(rejected, sizes, strict=True)]
        costs.append(0.9 * (1 - passed[0]) + 10 * 0.05 * passed[1] + 20 * 0.05 * passed[2])
    found = metrics.a_dcf(target, nontarget, spoof, costs="original")
    assert found == pytest.approx(min(costs) / 0.9, rel=1e-12)


def test_actual_t_dcf_by_hand() -> None:
    # A perfect verifier that half the spoofs pass: weights .9405 of a miss and .25 of a false
    # alarm, threshold log(.25 / .9405) = -1.325; one of two bona fide below, one of four spoofs
    # not: (.5 * .9405 + .25 * .25) / .25.
    asv = metrics.AsvRates(false_alarm=0, miss=0, spoof_false_alarm=0.5, spoof_miss=0.5)
    for form in ("2019", "2021"):
        found = metrics.act_t_dcf([-1.4, 0], [-3, -2, -1.4, -1.3], asv=asv, form=form)
        assert found == pytest.approx((0.5 * 0.9405 + 0.25 * 0.25) / 0.25)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.a_dcf([1], [0], []), "no spoof scores"),
        (lambda: metrics.a_dcf([1], [1], [1]), "3 scores of 1"),
        (lambda: metrics.a_dcf([1], [0], [0], costs="asvspoof4"), "Did you mean asvspoof5"),
        (lambda: metrics.min_t_dcf([1], [0], form="2020"), "2019 or 2021"),
        (lambda: metrics.min_t_dcf([1], [float("inf")]), "not finite"),
        (
            lambda: metrics.min_t_dcf([1], [0], asv=metrics.AsvRates(1.9, 1.9, 46, 54)),
            "not percent",
        ),
        (lambda: metrics.min_t_dcf([1], [0], asv=metrics.AsvRates(1, 1, 1, 0)), "not defined"),
        (lambda: metrics.asv_rates([1], [], [0]), "no spoof scores|no nontarget"),
        (lambda: metrics.t_eer([1, 2], [[0, 0]], [[0, 0]]), "not pairs"),
        (lambda: metrics.t_eer([[1, float("nan")]], [[0, 0]], [[0, 0]]), "not finite"),
    ],
)
def test_what_has_no_meaning_is_refused(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_t_eer_of_two_systems_the_wrong_way_round() -> None:
    # A verifier that accepts everything, and a countermeasure that lets every spoof pass: 1.
    assert metrics.t_eer([[0, 0]], [[1, 0]], [[-1, 1]]) == 1
