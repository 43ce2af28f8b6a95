"""k-means by Lloyd's iterations over blocks of rows.

Products are float32. What a block adds to each centroid is summed in float64 in the order of the
blocks, which are cut at fixed rows: so the result hangs on the order of the rows alone, and not on
how a caller's file or table is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["BLOCK_ROWS", "KMeans", "Metric", "assign", "fit_kmeans"]

Vectors = npt.NDArray[Any]
Metric = Literal["cosine", "l2"]

BLOCK_ROWS: Final = 4096
"""Rows multiplied at once; fixed, since sums follow it. 4096 x 1000 scores are 16 MB."""
_SPLIT: Final = np.float32(1 / 1024)


@dataclass(frozen=True)
class KMeans:
    """What a fit found."""

    centroids: npt.NDArray[np.float32]
    """(clusters, dims); of length 1 each for `cosine`."""
    counts: npt.NDArray[np.int64]
    """Rows of each cluster in the last iteration, (clusters,)."""
    objectives: tuple[float, ...]
    """Before each update, the sum over rows of the squared distance to their centroid; for
    `cosine` 2 - 2 cos, that of unit vectors."""


def fit_kmeans(
    vectors: Vectors, num_clusters: int, *, num_iterations: int = 10, metric: Metric = "cosine"
) -> KMeans:
    """Fit centroids, beginning with the first rows.

    Give rows in the order of a hash, so that the first of them are a random sample. A cluster that
    loses all its rows takes half of the largest one's, by moving both centroids apart a little, as
    faiss does. Holds some 40 MB, and 12 bytes a centroid and dimension, beside the vectors.

    Args:
        vectors: (rows, dims), float32 or float16, finite; of length 1 for `cosine`.
        num_clusters: k, at most the number of rows.
        num_iterations: updates of the centroids.
        metric: `cosine` keeps centroids at length 1 (spherical k-means).

    Raises:
        InputError: there are fewer rows than clusters, or a number is below 1.
    """
    if not 1 <= num_clusters <= len(vectors) or num_iterations < 1:
        raise InputError(
            "k-means cannot be fitted",
            expected="1 to as many clusters as rows, and at least one iteration",
            found=f"{num_clusters} clusters, {len(vectors)} rows, {num_iterations} iterations",
        )
    centroids = np.array(vectors[:num_clusters], np.float32)
    objectives = []
    sums = np.zeros(centroids.shape, np.float64)
    counts = np.zeros(num_clusters, np.int64)
    home = np.full(len(vectors), -1, np.int32)
    for _ in range(num_iterations):
        objective = 0.0
        for start, block, nearest, squares in _assigned(vectors, centroids, metric):
            before = home[start : start + len(block)]
            moved = np.flatnonzero(nearest != before)
            gone = moved[before[moved] >= 0]
            _add_rows(sums, block, gone, before[gone], np.subtract)
            _add_rows(sums, block, moved, nearest[moved], np.add)
            counts -= np.bincount(before[gone], minlength=num_clusters)
            counts += np.bincount(nearest[moved], minlength=num_clusters)
            before[:] = nearest
            objective += float(squares.sum(dtype=np.float64))
        objectives.append(objective)
        centroids = _means(sums, counts, centroids, metric)
    return KMeans(centroids, counts, tuple(objectives))


def assign(
    vectors: Vectors, centroids: npt.NDArray[np.float32], *, metric: Metric = "cosine"
) -> npt.NDArray[np.int32]:
    """The nearest centroid of each row, (rows,); the first of equally near ones."""
    found = np.empty(len(vectors), np.int32)
    for start, block, nearest, _ in _assigned(vectors, centroids, metric):
        found[start : start + len(block)] = nearest
    return found


def _assigned(
    vectors: Vectors, centroids: npt.NDArray[np.float32], metric: Metric
) -> Iterator[tuple[int, npt.NDArray[np.float32], npt.NDArray[np.intp], npt.NDArray[np.float32]]]:
    """Blocks with their start, nearest centroids and squared distances to those.

    A block's memory is that of the next one too.
    """
    num_rows, dims = min(BLOCK_ROWS, len(vectors)), centroids.shape[1]
    scores = np.empty((num_rows, len(centroids)), np.float32)
    # For l2 each row has a 1 and each centroid the half of its square, taken away by the product:
    # another pass over the scores would cost more.
    given = np.ones((num_rows, dims + (metric == "l2")), np.float32)
    halves = np.einsum("ij,ij->i", centroids, centroids)[:, None] / -2
    factors = np.hstack([centroids, halves]) if metric == "l2" else centroids
    for start in range(0, len(vectors), BLOCK_ROWS):
        rows = vectors[start : start + BLOCK_ROWS]
        given[: len(rows), :dims] = rows
        out = scores[: len(rows)]
        np.matmul(given[: len(rows)], factors.T, out=out)
        block = given[: len(rows), :dims]
        nearest = out.argmax(axis=1)
        best = out[np.arange(len(block)), nearest]
        norms = np.einsum("ij,ij->i", block, block) if metric == "l2" else np.float32(2)
        yield start, block, nearest, np.maximum(norms - 2 * best, 0)


def _add_rows(
    sums: npt.NDArray[np.float64],
    block: npt.NDArray[np.float32],
    rows: npt.NDArray[np.intp],
    clusters: npt.NDArray[np.integer],
    add: np.ufunc,
) -> None:
    """Add rows of a block to their clusters' sums, or take them away.

    A cluster's rows come in row order: first the first row of every cluster at once, then the
    second. That is a loop over rows in fewer steps; numpy's reduceat takes four times as long.
    """
    if not len(rows):
        return
    order = np.argsort(clusters, kind="stable")
    ends = np.flatnonzero(np.diff(clusters[order], append=-1))
    starts = np.concatenate([[0], ends[:-1] + 1])
    number = np.arange(len(order)) - np.repeat(starts, ends + 1 - starts)
    order = order[np.argsort(number, kind="stable")]
    stop = 0
    for size in np.bincount(number).tolist():
        some = order[stop : stop + size]
        stop += size
        into = clusters[some]
        sums[into] = add(sums[into], block[rows[some]])


def _means(
    sums: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    before: npt.NDArray[np.float32],
    metric: Metric,
) -> npt.NDArray[np.float32]:
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], before)
    left = counts.copy()
    signs = np.where(np.arange(means.shape[1]) % 2, 1 - _SPLIT, 1 + _SPLIT)
    for empty in np.flatnonzero(counts == 0):
        largest = int(left.argmax())
        if left[largest] < 2:
            break
        means[empty] = means[largest] * signs
        means[largest] = means[largest] * (2 - signs)
        left[empty] = left[largest] // 2
        left[largest] -= left[empty]
    if metric == "cosine":
        lengths = np.sqrt(np.einsum("ij,ij->i", means, means))[:, None]
        means = np.where(lengths > 0, means / np.where(lengths > 0, lengths, 1), before)
    return means.astype(np.float32)
