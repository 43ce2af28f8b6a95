from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from curation import metrics
from curation.metrics.trials import Trials
from datalake.errors import InputError
from tests.curation.metrics import official
from tests.curation.metrics.resamples import drawn_scores

# Few distinct values, so that ties within and across the classes are the rule.
DISCRETE = st.lists(st.integers(-4, 4).map(lambda tenth: tenth / 10), min_size=1, max_size=40)
CONTINUOUS = st.lists(
    st.floats(-20, 20, allow_nan=False, allow_subnormal=False), min_size=1, max_size=60
)
SIDES = st.one_of(st.tuples(DISCRETE, DISCRETE), st.tuples(CONTINUOUS, CONTINUOUS))


def _detects(sides: tuple[list[float], list[float]]) -> bool:
    return len({*sides[0], *sides[1]}) > 1


@pytest.mark.parametrize(
    ("bonafide", "spoof", "rate", "threshold"),
    [
        # Apart: after the two spoofs, nothing is missed and nothing is accepted wrongly.
        ([3, 4], [1, 2], 0.0, 2),
        # The wrong way round: after both bona fide, all are missed and all spoofs accepted.
        ([1, 2], [3, 4], 1.0, 2),
        # Order s b s b: rates (0,1) (0,.5) (.5,.5) -> the third step, .5.
        ([2, 4], [1, 3], 0.5, 2),
        # Order s s b b s s: (0,1) (0,.75) (0,.5) (.5,.5): the fourth step, .5.
        ([3, 4], [1, 2, 5, 6], 0.5, 3),
        # Order s s b s b b: (0,1) (0,2/3) (0,1/3) (1/3,1/3): 1/3.
        ([3, 5, 6], [1, 2, 4], 1 / 3, 3),
        # A tie at 2 counts bona fide first: s1 b2 s2 b3: (0,1) (0,.5) (.5,.5): .5 at 2. Were the
        # spoof counted first, (0,0) would come before and the rate would be 0.
        ([2, 3], [1, 2], 0.5, 2),
        # All of one tie but one: b1 b1 s1 s2 -> (0,1) (.5,1) (1,1): 1.
        ([1, 1], [1, 2], 1.0, 1),
        # Three of one class, one of the other: s b b b: (0,1) (0,0): 0.
        ([2, 3, 4], [1], 0.0, 1),
        # b s s: (0,1) (1,1): 1.
        ([1], [2, 3], 1.0, 1),
        # The gap is equal before and after the crossing: b s s b over order s1 b2 b3 s4:
        # (0,1) (0,.5) gap .5, (.5,.5) gap 0 -> .5 at 2.
        ([2, 3], [1, 4], 0.5, 2),
        # Order b s b b (3 b, 1 s): (0,1) (1/3,1) (1/3,0): gaps 1, 2/3, 1/3 -> 1/6.
        ([1, 3, 4], [2], 1 / 6, 2),
        # Order s b s (1 b, 2 s): (0,1) gap 1, (0,.5) gap .5, (1,.5) gap .5: the first, .25 at 1.
        ([2], [1, 3], 0.25, 1),
    ],
)
def test_eer_by_hand(
    bonafide: list[float], spoof: list[float], rate: float, threshold: float
) -> None:
    assert metrics.eer(bonafide, spoof) == rate
    assert metrics.eer_threshold(bonafide, spoof) == threshold


@settings(deadline=None)  # a busy machine is no failure
@given(SIDES)
def test_eer_is_the_official_value_to_the_bit(sides: tuple[list[float], list[float]]) -> None:
    assume(_detects(sides))
    rate, threshold = official.eer(*sides)
    assert metrics.eer(*sides) == rate
    assert metrics.eer_threshold(*sides) == threshold


@settings(deadline=None)  # a busy machine is no failure
@given(SIDES)
def test_detection_costs_are_the_official_values(sides: tuple[list[float], list[float]]) -> None:
    assume(_detects(sides))
    assert metrics.min_dcf(*sides) == official.min_dcf(*sides)
    assert metrics.act_dcf(*sides) == pytest.approx(official.act_dcf(*sides), rel=1e-15, abs=0)
    assert metrics.cllr(*sides) == pytest.approx(official.cllr(*sides), rel=1e-12)


def test_large_test_equals_the_official_value() -> None:
    rng = np.random.default_rng(3)
    bonafide = np.round(rng.normal(1, 1, 3_000), 1)
    spoof = np.round(rng.normal(-1, 1, 20_000), 1)
    assert metrics.eer(bonafide, spoof) == official.eer(bonafide.tolist(), spoof.tolist())[0]


def test_detection_costs_by_hand() -> None:
    # One of four bona fide below -log 1.9 = -.642, one of two spoofs above it:
    # (.25 * .95 + 10 * .5 * .05) / min(.95, .5).
    assert metrics.act_dcf([-1, 0, 1, 2], [-2, 0]) == pytest.approx(0.4875 / 0.5)
    # At the threshold itself a trial is accepted: no miss, and a false alarm.
    threshold = -math.log(1.9)
    assert metrics.act_dcf([threshold, 1], [-2]) == 0
    assert metrics.act_dcf([1], [threshold]) == pytest.approx(10 * 0.05 / 0.5)
    # Rejecting nothing but spoofs is free; an inverted detector costs what none costs.
    assert metrics.min_dcf([1, 2], [-2, -1]) == 0
    assert metrics.min_dcf([-2, -1], [1, 2]) == 1


def test_cllr_by_hand() -> None:
    # log2(1 + e^-0) = 1 on each side, and log2(1 + e^-ln 3) = log2(4/3).
    assert metrics.cllr([0, 0], [0, 1e-300]) == pytest.approx(1)
    assert metrics.cllr([math.log(3)], [-math.log(3)]) == pytest.approx(math.log2(4 / 3))


def test_cllr_does_not_overflow() -> None:
    # -log2 of the likelihood is 2000 / ln 2 on each side.
    assert metrics.cllr([-2000.0], [2000.0]) == pytest.approx(2000 / math.log(2))


@pytest.mark.parametrize("metric", [metrics.eer, metrics.min_dcf, metrics.act_dcf, metrics.cllr])
@pytest.mark.parametrize(
    ("bonafide", "spoof", "message"),
    [
        ([], [1.0], "no bona fide scores"),
        ([1.0], [], "no spoof scores"),
        ([1.0, math.nan], [0.0], "Some bona fide scores are not finite.*1 of 2.*position 1: nan"),
        ([1.0], [0.0, 2.0, -math.inf], "Some spoof scores are not finite.*position 2: -inf"),
        ([[1.0], [2.0]], [0.0], "bona fide scores are not one-dimensional.*\\(2, 1\\)"),
        ([1.0], ["loud"], "spoof scores are not numbers"),
        ([2.0, 2.0], [2.0], "Every score.*3 scores of 2"),
    ],
)
def test_scores_that_mean_nothing_are_refused(metric, bonafide, spoof, message) -> None:
    with pytest.raises(InputError, match=message):
        metric(bonafide, spoof)


def test_one_class_may_have_one_value() -> None:
    assert metrics.eer([1.0, 1.0, 1.0], [0.0, 0.0]) == 0


class TestBootstrap:
    rng = np.random.default_rng(11)
    bonafide = rng.normal(1.0, 1, 150)
    spoof = rng.normal(-1.0, 1, 400)

    @pytest.mark.parametrize("metric", ["eer", "min_dcf", "act_dcf", "cllr", "min_t_dcf"])
    def test_is_the_percentiles_of_resampled_tests(self, metric: metrics.Metric) -> None:
        found = metrics.bootstrap_interval(
            self.bonafide, self.spoof, metric, num_resamples=50, seed=4, level=0.8
        )
        measure = getattr(metrics, metric)
        values = [
            measure(*sides) for sides in drawn_scores(Trials.of(self.bonafide, self.spoof), 50, 4)
        ]
        assert found.value == measure(self.bonafide, self.spoof)
        assert (found.low, found.high) == pytest.approx(np.quantile(values, [0.1, 0.9]), rel=1e-12)

    def test_covers_the_true_value_about_as_often_as_it_says(self) -> None:
        # Two unit Gaussians two apart cross at one deviation from each mean.
        true = 0.5 * math.erfc(1 / math.sqrt(2))
        rng = np.random.default_rng(5)
        covered = 0
        for seed in range(60):
            found = metrics.bootstrap_interval(
                rng.normal(1, 1, 300), rng.normal(-1, 1, 300), num_resamples=200, seed=seed
            )
            covered += found.low <= true <= found.high
        # 57 expected; fewer than 50 has a chance of one in a thousand.
        assert covered >= 50

    def test_depends_on_the_seed_and_not_on_the_order_of_scores(self) -> None:
        first = metrics.bootstrap_interval(self.bonafide, self.spoof, num_resamples=40, seed=1)
        turned = metrics.bootstrap_interval(
            self.bonafide[::-1], self.spoof[::-1], num_resamples=40, seed=1
        )
        other = metrics.bootstrap_interval(self.bonafide, self.spoof, num_resamples=40, seed=2)
        assert first == turned
        assert first != other

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_resamples": 0}, "replicates"),
            ({"level": 1.0}, "between 0 and 1"),
            ({"metric": "err"}, "Did you mean eer"),
        ],
    )
    def test_refuses_options_it_cannot_use(self, options, message) -> None:
        with pytest.raises(InputError, match=message):
            metrics.bootstrap_interval(self.bonafide, self.spoof, **options)


class TestBreakdown:
    scores = (3.0, 4.0, 1.0, 2.0, 3.5, 5.0)
    labels = ("bonafide", "bonafide", "spoof", "spoof", "spoof", "spoof")
    domains = ("a", "b", "a/x", "a/x", "b/y", "b/y")

    def test_holds_each_spoof_domain_against_all_bona_fide(self) -> None:
        rows = metrics.eer_by(self.scores, self.labels, self.domains, num_resamples=0).to_pylist()
        assert [(row["scope"], row["domain"], row["num_spoof"], row["eer"]) for row in rows] == [
            ("domain", "a/x", 2, 0.0),
            # b3 s3.5 b4 s5: (0,1) (.5,1) (.5,.5): .5
            ("domain", "b/y", 2, 0.5),
            # s1 s2 b3 s3.5 b4 s5: (0,1) (0,.75) (0,.5) (.5,.5): .5
            ("pooled", None, 4, 0.5),
            ("macro", None, 4, 0.25),
        ]
        assert {row["num_bonafide"] for row in rows} == {2}
        assert {row["eer_low"] for row in rows} == {None}

    def test_intervals_are_those_of_each_domain(self) -> None:
        table = metrics.eer_by(self.scores, self.labels, self.domains, num_resamples=30, seed=8)
        row = table.to_pylist()[1]
        found = metrics.bootstrap_interval([3.0, 4.0], [3.5, 5.0], num_resamples=30, seed=8)
        assert (row["eer_low"], row["eer_high"]) == (found.low, found.high)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"labels": ("bonafide",) * 6}, "no spoof scores"),
            ({"labels": ("bonafide", "genuine", *("spoof",) * 4)}, "genuine at position 1"),
            ({"domains": (None, None, "a/x", None, "b/y", "b/y")}, "null at position 3"),
            ({"domains": ("a",)}, "one length"),
        ],
    )
    def test_refuses_trials_that_cannot_be_scored(self, change, message) -> None:
        given_ = {"scores": self.scores, "labels": self.labels, "domains": self.domains, **change}
        with pytest.raises(InputError, match=message):
            metrics.eer_by(**given_)
