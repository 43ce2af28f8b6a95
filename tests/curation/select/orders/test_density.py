"""Density-based pruning beside its formulas, in plain loops."""

from __future__ import annotations

import math
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curation.neighbors import assign, fit_kmeans
from curation.selection.orders.density import complexities, density, turns_of
from tests.curation.select.orders.vectors import clustered

CLUSTERS = st.lists(st.tuples(st.floats(0.01, 1), st.integers(1, 30)), min_size=1, max_size=8)


def plain_counts(shares: list[float], sizes: list[int], keep: int) -> list[int]:
    """Least squares in fractions of rows: sum of (x - share * keep)^2, from 1 to the size each."""
    low, high = -float(keep), float(keep)
    for _ in range(200):
        level = (low + high) / 2
        counts = [
            min(max(share * keep + level, 1), size)
            for share, size in zip(shares, sizes, strict=True)
        ]
        low, high = (level, high) if sum(counts) < keep else (low, level)
    return counts


def test_turns_by_hand() -> None:
    shares, sizes = np.array([0.3, 0.5, 0.2]), np.array([5, 2, 5])
    # One each; of four rows 1 should have two, and has no more; then 1.5 - 1 of 0 is the most;
    # of six rows 0 should have 1.8 and has 2, 2 should have 1.2 and has 1.
    assert turns_of(shares, sizes, 6).tolist() == [1, 0, 2, 1, 0, 2]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.integers(1, 30)), min_size=1, max_size=8), st.data()
)
def test_numbers_kept_are_those_of_least_squares(clusters, data) -> None:
    total = sum(share for share, _ in clusters)
    shares = [share / total for share, _ in clusters]
    sizes = [size for _, size in clusters]
    keep = data.draw(st.integers(len(sizes), sum(sizes)))
    turns = turns_of(np.array(shares), np.array(sizes), keep)
    counts = np.bincount(turns, minlength=len(sizes))
    assert counts.sum() == keep
    assert (counts <= sizes).all()
    for count, expected in zip(counts, plain_counts(shares, sizes, keep), strict=True):
        assert abs(count - expected) < 1 + 1e-6


def test_complexity_by_hand() -> None:
    centroids = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    found = complexities(np.array([0.5, 0.1, 0.2]), centroids)
    # Distances: 0 to 1 is 1, 0 to 2 is .4, 1 to 2 is .2.
    assert found == pytest.approx([0.5 * 0.7, 0.1 * 0.6, 0.2 * 0.3], rel=1e-6)
    assert complexities(np.array([0.5]), centroids[:1]) == [0.5]


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_rows_are_the_farthest_of_clusters_by_their_complexity(temperature) -> None:
    rows = clustered(600, dims=12, seed=1)
    keep, count = 200, 9
    centroids = fit_kmeans(rows, count).centroids.astype(np.float64)
    home = assign(rows, centroids.astype(np.float32))
    distance = [1 - float(row @ centroids[own]) for row, own in zip(rows, home, strict=True)]
    members = {c: [row for row in range(600) if home[row] == c] for c in range(count)}
    wanted = []
    for c in range(count):
        intra = sum(distance[row] for row in members[c]) / len(members[c])
        inter = [1 - float(centroids[c] @ centroids[d]) for d in range(count) if d != c]
        wanted.append(math.exp(intra * sum(inter) / len(inter) / temperature))
    shares = [each / sum(wanted) for each in wanted]
    expected = plain_counts(shares, [len(members[c]) for c in range(count)], keep)
    found = density(rows, keep, num_clusters=count, temperature=temperature)
    assert len(set(found.tolist())) == keep
    for c in range(count):
        own = [row for row in found.tolist() if home[row] == c]
        assert abs(len(own) - expected[c]) < 1.01
        assert own == sorted(own, key=lambda row: -round(distance[row], 6))
        left = set(members[c]) - set(own)
        if own and left:
            assert min(distance[row] for row in own) >= max(distance[row] for row in left) - 2e-6


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(0, 99), st.data())
def test_nested_and_complete(num_rows, seed, data) -> None:
    rows = clustered(num_rows, seed=seed)
    keep = data.draw(st.integers(1, num_rows))
    all_rows = density(rows, num_rows).tolist()
    assert sorted(all_rows) == list(range(num_rows))
    assert density(rows, keep).tolist() == all_rows[:keep]


def test_vectors_in_a_file_stay_there(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(sys.modules[density.__module__], "_LEAST_FITTED", 2_000)
    np.save(tmp_path / "rows.npy", clustered(40_000, dims=128))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    tracemalloc.start()
    density(rows, 1_000, num_clusters=8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 2


def test_copies_are_one_cluster() -> None:
    rows = np.repeat(np.eye(2, dtype=np.float32), [3, 1], axis=0)
    assert sorted(density(rows, 2, num_clusters=4).tolist()) == [0, 3]
