from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from curation import metrics
from curation.metrics import ladder, resampling
from curation.metrics.ladder import Ladder
from curation.metrics.measures import replicates
from curation.metrics.resampling import Speakers, draw_resamples
from curation.metrics.trials import Trials
from tests.curation.metrics import official
from tests.curation.metrics.resamples import drawn_scores

EXACT = ("eer", "min_dcf", "act_dcf", "min_t_dcf", "act_t_dcf")
SCORES = st.lists(st.integers(-9, 9).map(lambda tenth: tenth / 10), min_size=1, max_size=30)


def _is_detecting(bonafide, spoof) -> bool:
    return len({*bonafide, *spoof}) > 1


@settings(max_examples=60, deadline=None)
@given(SCORES, SCORES, st.integers(0, 99), st.integers(1, 12))
def test_replicates_are_the_metrics_of_the_scores_drawn(bonafide, spoof, seed, bucket) -> None:
    # Buckets so short that most tests have several, and blocks of a few resamples.
    assume(_is_detecting(bonafide, spoof))
    trials = Trials.of(bonafide, spoof)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "TRIALS_A_BUCKET", bucket)
        patch.setattr(resampling, "DRAWS_AT_ONCE", 50)
        found = replicates(trials, EXACT, 7, seed=seed)
        sides = drawn_scores(trials, 7, seed)
        alone = replicates(trials, ("min_dcf",), 7, seed=seed)
    assert found["min_dcf"].tolist() == alone["min_dcf"].tolist()
    assert found["eer"].tolist() == [official.eer(*side)[0] for side in sides]
    assert found["min_dcf"].tolist() == [official.min_dcf(*side) for side in sides]
    assert found["act_dcf"] == pytest.approx([official.act_dcf(*side) for side in sides], rel=1e-15)
    for replicate, side in zip(found["min_t_dcf"], sides, strict=True):
        if _is_detecting(*side):  # else the function refuses what the bootstrap may draw
            assert replicate == metrics.min_t_dcf(*side)
    for replicate, side in zip(found["act_t_dcf"], sides, strict=True):
        if _is_detecting(*side):
            assert replicate == metrics.act_t_dcf(*side)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_resampled_speakers_bring_all_their_trials(data) -> None:
    bonafide, spoof = sorted(data.draw(SCORES)), sorted(data.draw(SCORES))
    assume(_is_detecting(bonafide, spoof))
    names = st.integers(0, 3)
    speakers = Speakers(
        np.array([data.draw(names) for _ in bonafide]),
        np.array([data.draw(names) for _ in spoof]),
        4,
    )
    trials = Trials.of(bonafide, spoof)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "TRIALS_A_BUCKET", 5)
        found = replicates(trials, (*EXACT, "cllr"), 5, seed=1, speakers=speakers)
    rng = np.random.default_rng(1)
    for row in range(5):
        while True:
            drawn = rng.integers(0, 4, size=4).tolist()
            sides = [
                [score for who in drawn for score, of in zip(scores, one, strict=True) if of == who]
                for scores, one in ((bonafide, speakers.bonafide), (spoof, speakers.spoof))
            ]
            if all(sides):
                break
        assert found["eer"][row] == official.eer(*sides)[0]
        assert found["min_dcf"][row] == official.min_dcf(*sides)
        assert found["cllr"][row] == pytest.approx(official.cllr(*sides), rel=1e-12)


def test_every_trial_is_drawn_as_often_as_any_other() -> None:
    # 2,500 trials in three buckets, 400 resamples: 400 draws of a trial expected, of variance 400.
    trials = Trials.of(np.arange(1_500) + 0.5, np.arange(1_000) * 1.5)
    ladder_ = Ladder.of(trials)
    assert ladder_.num_buckets == 3
    drawn = np.zeros(1_500)
    totals = []
    for block in draw_resamples(ladder_, 400, seed=3):
        totals.append(block.bonafide.drawn.sum(axis=1))
        for bucket in range(3):
            drawn += np.bincount(block.bonafide.draws(bucket)[0], minlength=1_500)
    assert set(np.concatenate(totals)) == {1_500}
    chi_square = ((drawn - 400) ** 2 / 400).sum()
    # 1,499 degrees of freedom: within five deviations of sqrt(2 * 1499) = 55.
    assert abs(chi_square - 1_499) < 275
    # The counts of the first bucket scatter as a binomial does.
    first = np.concatenate(
        [block.bonafide.drawn[:, 0] for block in draw_resamples(ladder_, 4_000, seed=3)]
    )
    share = ladder_.bonafide_edges[ladder_.bucket_edges[1]] / 1_500
    assert first.mean() == pytest.approx(1_500 * share, abs=1.5)
    assert first.var() == pytest.approx(1_500 * share * (1 - share), rel=0.12)


def test_a_draw_does_not_hang_on_the_metrics_asked_for() -> None:
    rng = np.random.default_rng(0)
    trials = Trials.of(rng.normal(1, 1, 3_000), rng.normal(-1, 1, 4_000))
    together = replicates(trials, (*EXACT, "cllr"), 20, seed=5)
    for metric in together:
        alone = replicates(trials, (metric,), 20, seed=5)[metric]
        assert alone.tolist() == together[metric].tolist()


def test_memory_does_not_grow_with_the_resamples() -> None:
    rng = np.random.default_rng(0)
    trials = Trials.of(
        np.round(rng.normal(1, 1, 20_000), 2), np.round(rng.normal(-1, 1, 20_000), 2)
    )
    peaks = []
    for num_resamples in (1_000, 4_000):
        tracemalloc.start()
        replicates(trials, ("eer", "min_dcf"), num_resamples, seed=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
    assert peaks[0] < 120e6


def test_resamples_without_a_class_are_drawn_again() -> None:
    trials = Trials.of([1.0, 2.0], [0.0])
    apart = Speakers(np.array([0, 0]), np.array([1]), 2)
    assert replicates(trials, ("eer",), 50, seed=0, speakers=apart)["eer"].tolist() == [0] * 50
