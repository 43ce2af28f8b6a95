"""When a run gives up."""

from __future__ import annotations

import random

import pytest

from datalake.pipelines.patience import is_hopeless


@pytest.mark.parametrize(
    ("num_bad", "num_seen", "num_total", "max_fraction", "hopeless"),
    [
        (0, 0, 100, 0.0, False),
        (1, 1, 100, 0.0, True),
        (1, 1, 100, 0.01, False),
        (2, 2, 100, 0.01, True),
        (100, 100, 100, 1.0, False),
        # 1,000 seen at 1 %: 10 expected, and 10 + 4 * sqrt(10) = 22.6.
        (22, 1000, 10**6, 0.01, False),
        (23, 1000, 10**6, 0.01, True),
        # The same rate, but too few rows to judge by.
        (23, 999, 10**6, 0.01, False),
    ],
)
def test_hand_calculation(
    num_bad: int, num_seen: int, num_total: int, max_fraction: float, hopeless: bool
) -> None:
    assert is_hopeless(num_bad, num_seen, num_total, max_fraction) is hopeless


def test_a_corpus_at_the_limit_is_not_given_up_by_chance() -> None:
    rng = random.Random(0)
    for _ in range(50):
        # Exactly 1 % bad, in random order, looked at in steps of 1,000.
        bad = set(rng.sample(range(20_000), 200))
        for seen in range(1000, 20_001, 1000):
            found = sum(1 for row in bad if row < seen)
            assert not is_hopeless(found, seen, 20_000, 0.01)


def test_a_hopeless_corpus_is_given_up_early() -> None:
    assert is_hopeless(100, 1000, 10**8, 0.01)
