"""Facility location beside greedy that evaluates every row at every step."""

from __future__ import annotations

import sys
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curation.selection.orders import facility_location, facility_value
from tests.curation.select.orders.vectors import clustered, signs, units

module = sys.modules[facility_location.__module__]


def plain_greedy(worth: np.ndarray, keep: int, num_neighbors: int) -> list[int]:
    """Of (rows, candidates): the sum of each row's best, above its last neighbour's worth."""
    worth = np.maximum(worth, 0)
    best = np.zeros(len(worth), np.int64)
    if num_neighbors < worth.shape[1]:
        best = np.sort(worth, axis=1)[:, -num_neighbors]
    picks: list[int] = []
    for _ in range(keep):
        gains = np.maximum(worth - best[:, None], 0).sum(axis=0)
        gains[picks] = -1
        picks.append(int(gains.argmax()))
        best = np.maximum(best, worth[:, picks[-1]])
    return picks


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.integers(0, 10**6), st.integers(1, 80), st.booleans(), st.data())
def test_picks_are_those_of_plain_greedy(num_rows, seed, num_neighbors, is_exact, data) -> None:
    rows = signs(num_rows, seed) if is_exact else clustered(num_rows, seed=seed)
    keep = data.draw(st.integers(1, num_rows))
    found = facility_location(rows, keep, num_neighbors=num_neighbors)
    assert found.tolist() == plain_greedy(units(rows), keep, min(num_neighbors, num_rows))


def test_by_hand() -> None:
    # Row 0 is like 1 and 2 (cosines .8), those unlike each other (.28); 3 stands alone.
    rows = np.array([[1, 0, 0], [0.8, 0.6, 0], [0.8, -0.6, 0], [0, 0, 1]], np.float32)
    # 1 + .8 + .8; then 3 adds 1, 1 and 2 add .2 each, the first of which comes first.
    assert facility_location(rows, 4).tolist() == [0, 3, 1, 2]
    assert facility_value(rows, np.array([0])) == pytest.approx((1 + 0.8 + 0.8) / 4)
    assert facility_value(rows, np.array([0, 3])) == pytest.approx((1 + 0.8 + 0.8 + 1) / 4)


def test_is_no_further_from_the_best_than_greedy_may_be() -> None:
    rows = clustered(12, seed=4)
    best = max(facility_value(rows, np.array(some)) for some in combinations(range(12), 3))
    assert facility_value(rows, facility_location(rows, 3)) >= (1 - 1 / np.e) * best


@pytest.mark.parametrize("spread", [0.3, 1.0, 100.0])
def test_neighbours_alone_reach_what_all_rows_reach(spread) -> None:
    rows = clustered(900, dims=24, spread=spread)
    dense = plain_greedy(units(rows), 60, len(rows))
    found = facility_location(rows, 60, num_neighbors=64)
    for keep in (30, 60):
        reached = facility_value(rows, found[:keep])
        assert reached >= 0.99 * facility_value(rows, np.array(dense[:keep]))
        assert reached > facility_value(rows, np.arange(keep))


@pytest.fixture
def small_parts(monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 40)
    monkeypatch.setattr(module, "_LEAST_EACH", 8)
    monkeypatch.setattr(module, "_LEAST_JUDGED", 60)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("keep", [1, 4, 5, 15, 16, 17, 110])
def test_two_rounds_by_hand(keep) -> None:
    rows = signs(110, seed=2)
    worth = units(rows)
    each = next(size for size in (8, 16, 32, 64, 128, 256) if size >= 2 * keep)
    union: list[int] = []
    for start, stop in ((0, 36), (36, 73), (73, 110)):
        own = worth[start:stop, start:stop]
        union += [start + pick for pick in plain_greedy(own, min(each, stop - start), len(own))]
    union.sort()
    judged = worth[: max(60, 4 * each)][:, union]
    expected = [union[pick] for pick in plain_greedy(judged, keep, len(union))]
    assert facility_location(rows, keep).tolist() == expected


@pytest.mark.usefixtures("small_parts")
def test_two_rounds_nest_between_powers_of_two_and_not_across() -> None:
    rows = clustered(200, seed=3)
    picks = {keep: facility_location(rows, keep).tolist() for keep in (2, 4, 5, 8)}
    assert picks[4][:2] == picks[2]
    assert picks[8][:5] == picks[5]
    assert set(picks[4]) - set(picks[5])


@pytest.mark.usefixtures("small_parts")
def test_two_rounds_reach_nearly_what_one_does(monkeypatch) -> None:
    rows = clustered(1_500, dims=16)
    monkeypatch.setattr(module, "MOST_ROWS", 300)
    monkeypatch.setattr(module, "_LEAST_JUDGED", 1_500)
    two = facility_value(rows, facility_location(rows, 60))
    monkeypatch.setattr(module, "MOST_ROWS", 1_500)
    assert two >= 0.99 * facility_value(rows, facility_location(rows, 60))


def test_memory_of_two_rounds_does_not_grow_with_the_rows(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 2_000)
    monkeypatch.setattr(module, "_LEAST_EACH", 64)
    monkeypatch.setattr(module, "_LEAST_JUDGED", 2_000)
    peaks = []
    for num_rows in (6_000, 18_000):
        path = tmp_path / f"{num_rows}.npy"
        np.save(path, clustered(num_rows, dims=16))
        tracemalloc.start()
        facility_location(np.load(path, mmap_mode="r"), 50, num_neighbors=32)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
