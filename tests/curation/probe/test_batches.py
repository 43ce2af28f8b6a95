"""Which rows make up a step."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curation.probe.batches import Sampling, check_sampling, draw_batches, visits
from datalake.errors import InputError

ROWS = np.arange(100, 112)
BONAFIDE = np.arange(12) < 6
DOMAINS = np.array(["p"] * 5 + ["q"] + ["a"] * 4 + ["b"] * 2, dtype=object)


def drawn(sampling: Sampling, weights: np.ndarray | None = None, **changes: int) -> np.ndarray:
    sizes = {"num_steps": 24, "batch_size": 8, "seed": 0, **changes}
    return draw_batches(sampling, ROWS, BONAFIDE, DOMAINS, weights, **sizes)


def test_domains_come_alike_often_and_rows_within_them() -> None:
    batches = drawn("domains")
    assert batches.shape == (24, 8)
    assert (batches[:, :4] < 106).all()
    assert (batches[:, 4:] >= 106).all()
    counts = Counter(batches.ravel().tolist())
    assert counts[105] == 48  # q, a domain of one row
    assert sum(counts[row] for row in range(100, 105)) == 48
    assert {counts[row] for row in range(106, 110)} == {12}
    assert {counts[row] for row in range(110, 112)} == {24}


def test_natural_takes_no_heed_of_labels() -> None:
    counts = Counter(drawn("natural").ravel().tolist())
    assert set(counts.values()) == {24 * 8 // 12}


def test_weights_are_expected_draws() -> None:
    weights = np.array([0.5, 0, 0, 1, 1, 1, 3, 2.5, 1, 1, 0.5, 0.5])
    batches = drawn("weights", weights, num_steps=30, batch_size=4)
    passes = batches.reshape(10, 12)
    for each in passes:
        counts = np.array([(each == row).sum() for row in ROWS])
        assert (np.abs(counts - weights) < 1).all()
    total = np.array([(batches == row).sum() for row in ROWS])
    assert total[1] == total[2] == 0
    assert (total[weights == 3] == 30).all()


@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=20).filter(lambda each: max(each) > 0.01),
    st.integers(0, 5),
)
@settings(max_examples=50, deadline=None)
def test_a_weighted_pass_is_within_one_of_the_weights(weights: list[float], seed: int) -> None:
    size = len(weights)
    rows, labels = np.arange(size), np.zeros(size, bool)
    domains = np.array(["d"] * size, dtype=object)
    found = draw_batches(
        "weights",
        rows,
        labels,
        domains,
        np.array(weights),
        num_steps=size,
        batch_size=2,
        seed=seed,
    )
    expected = np.array(weights) * size / sum(weights)
    counts = np.bincount(found.ravel()[:size], minlength=size)
    assert (np.abs(counts - expected) < 1 + 1e-9).all()


@pytest.mark.parametrize("sampling", ["balanced", "domains", "natural", "weights"])
def test_the_seed_decides(sampling: Sampling) -> None:
    one, same = drawn(sampling, np.ones(12)), drawn(sampling, np.ones(12))
    assert (one == same).all()
    assert (one != drawn(sampling, np.ones(12), seed=1)).any()


def test_visits_count_what_came_before() -> None:
    batches = np.array([[7, 3, 7], [3, 9, 7]])
    assert visits(batches).tolist() == [[0, 0, 1], [1, 0, 2]]


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="no weights"):
        drawn("weights")
    with pytest.raises(InputError, match="no weights"):
        drawn("weights", np.zeros(12))
    with pytest.raises(InputError, match="balanced"):
        check_sampling("balancd")
