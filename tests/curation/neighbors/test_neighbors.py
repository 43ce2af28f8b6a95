"""k-means and nearest neighbours against slow twins."""

from __future__ import annotations

import numpy as np
import pytest

from curation.neighbors import assign, exact_neighbors, fit_kmeans
from datalake.errors import InputError


def clustered(num_rows: int, dims: int = 8, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, dims))[rng.integers(0, 12, num_rows)]
    rows = rows + 0.2 * rng.normal(size=rows.shape)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_centroids_are_those_of_a_plain_loop(metric) -> None:
    rows = clustered(9_000)
    found = fit_kmeans(rows, 12, num_iterations=4, metric=metric)
    centroids = rows[:12].astype(np.float64)
    for objective in found.objectives:
        squares = ((rows[:, None] - centroids[None]) ** 2).sum(2)
        nearest = squares.argmin(1)
        assert objective == pytest.approx(squares.min(1).sum(), rel=1e-4)
        centroids = np.array([rows[nearest == c].mean(0, dtype=np.float64) for c in range(12)])
        if metric == "cosine":
            centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    np.testing.assert_allclose(found.centroids, centroids, atol=1e-4)
    assert found.counts.sum() == len(rows)
    assert sorted(found.objectives, reverse=True) == list(found.objectives)


def test_a_file_and_an_array_give_the_same_bits(tmp_path) -> None:
    rows = clustered(9_000)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    one, other = (fit_kmeans(source, 20).centroids for source in (rows, mapped))
    assert one.tobytes() == other.tobytes()
    assert (assign(rows, one) == assign(mapped, one)).all()


def test_a_cluster_without_rows_is_filled() -> None:
    rows = np.repeat(np.eye(4, dtype=np.float32), [200, 1, 1, 1], axis=0)
    rows[:200] += np.random.default_rng(0).normal(0, 0.1, (200, 4)).astype(np.float32)
    rows[1] = rows[0]  # two centroids begin at one place: the second gets no row
    found = fit_kmeans(rows, 3, num_iterations=6, metric="l2")
    assert (found.counts > 0).all()


def test_neighbors_are_those_of_a_full_sort() -> None:
    rows = clustered(9_000)
    rows[5_000] = rows[10]
    numbers, products = exact_neighbors(rows[:30], rows, 5)
    full = rows[:30] @ rows.T
    np.testing.assert_allclose(products, -np.sort(-full, axis=1)[:, :5], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(full, numbers, 1), products, atol=1e-6)
    assert set(numbers[10, :2]) == {10, 5_000}


@pytest.mark.parametrize("count", [0, 13])
def test_more_than_there_is_is_refused(count) -> None:
    rows = clustered(12)
    with pytest.raises(InputError, match="1 to"):
        fit_kmeans(rows, count)
    with pytest.raises(InputError, match="1 to 12"):
        exact_neighbors(rows, rows, count)


@pytest.mark.parametrize("count", [1, 3, 200, 9_000])
@pytest.mark.parametrize("sample", ["like all", "too high", "all alike"])
def test_equal_products_stand_in_the_order_of_rows(count, sample) -> None:
    # Whole numbers: products are exact, and many are equal. The sample is every fourth row.
    rng = np.random.default_rng(1)
    rows = rng.integers(-2, 3, (9_000, 6)).astype(np.float32)
    if sample == "too high":  # its floor leaves too few
        rows[:400:4] += 4
        rows[400::4] -= 4
    elif sample == "all alike":  # its floor leaves none
        rows[::4] = 4
    numbers, products = exact_neighbors(rows[:40], rows, count)
    full = rows[:40] @ rows.T
    order = np.argsort(-full, axis=1, kind="stable")[:, :count]
    np.testing.assert_array_equal(numbers, order)
    np.testing.assert_array_equal(products, np.take_along_axis(full, order, 1))
