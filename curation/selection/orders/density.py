"""Density-based pruning: complex clusters keep more rows, and of each its least typical.

arXiv 2401.04578 (Abbas et al., ICLR 2024).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.neighbors import assign, fit_kmeans
from curation.selection.orders.order import OrderOptions, PoolRows, Ranked
from curation.selection.orders.similarity import BLOCK_ROWS, embedding_of, in_units

__all__ = ["DENSITY", "complexities", "density", "turns_of"]

_MOST_CLUSTERS: Final = 500
_NEAR_CLUSTERS: Final = 20
_LEAST_FITTED: Final = 65_536
_FITTED_A_CLUSTER: Final = 256

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


def density(
    vectors: npt.NDArray[Any],
    keep: int,
    *,
    num_clusters: int | None = None,
    temperature: float = 0.5,
) -> IntArray:
    """The first rows by density-based pruning.

    SOURCE (the authors' code): k-means by cosine. The complexity of a cluster is the product of
    d_intra, the mean distance (1 - cosine) of its rows to its centroid, and d_inter, that of its
    centroid to the 20 nearest others. Their softmax at a temperature says which share of the rows
    kept a cluster should give; numbers kept are as near to that, by least squares, as one row a
    cluster at least and its size at most allow. Of a cluster the rows farthest from the centroid
    are kept.

    OURS: numbers are found row by row, each going to the cluster that is farthest below its share
    (the step that least squares takes), so that a larger `keep` adds rows and takes none; first
    each cluster has one, complex ones first. Centroids are fitted on the first 65,536 rows, or 256
    a cluster, which are a random sample where the rows stand in the order of a hash.

    The paper prunes what was deduplicated before: copies make clusters of their own.

    Holds 40 bytes a row, the rows that are fitted on, and 100 MB.

    Args:
        vectors: (rows, dims) float32, of length 1, in the order that breaks ties.
        keep: 1 to the number of rows.
        num_clusters: at most the number of rows; None: the root of that, at most 500 (the paper's
            best for 280 million pictures).
        temperature: of the softmax.

    Returns:
        Positions, the first first, (keep,).
    """
    num_rows = len(vectors)
    count = min(num_clusters or min(_MOST_CLUSTERS, max(1, math.isqrt(num_rows))), num_rows)
    fitted = np.array(vectors[: max(_LEAST_FITTED, _FITTED_A_CLUSTER * count)], np.float32)
    centroids = fit_kmeans(fitted, count).centroids
    del fitted
    centroids, home = _inhabited(centroids, assign(vectors, centroids))
    sizes = np.bincount(home, minlength=len(centroids))
    near = _cosines_home(vectors, centroids, home)
    spread = np.bincount(home, 1 - near.astype(np.float64), len(centroids)) / sizes
    wanted = complexities(spread, centroids) / temperature
    shares = np.exp(wanted - wanted.max())
    turns = turns_of(shares / shares.sum(), sizes, keep)
    order = np.lexsort((np.arange(num_rows), in_units(near), home))
    starts = np.cumsum(sizes) - sizes
    return _dealt(order, starts, turns)


def complexities(spread: FloatArray, centroids: npt.NDArray[np.float32]) -> FloatArray:
    """d_intra x d_inter of each cluster; of a single one, d_intra.

    Args:
        spread: d_intra, (clusters,).
        centroids: (clusters, dims), of length 1.
    """
    count = min(_NEAR_CLUSTERS, len(centroids) - 1)
    if not count:
        return spread
    cosines = (centroids @ centroids.T).astype(np.float64)
    np.fill_diagonal(cosines, -np.inf)
    nearest = -np.sort(-cosines, axis=1)[:, :count]
    return np.asarray(spread * (1 - nearest).mean(axis=1), np.float64)


def turns_of(shares: FloatArray, sizes: IntArray, keep: int) -> IntArray:
    """Which cluster each row that is kept comes from, (keep,).

    Args:
        shares: of the rows kept that each cluster should give; their sum is 1.
        sizes: rows of each cluster, 1 or more.
        keep: at most the sum of the sizes.
    """
    turns = np.empty(keep, np.int64)
    begun = min(keep, len(sizes))
    turns[:begun] = np.argsort(-shares, kind="stable")[:begun]
    given = np.ones(len(sizes), np.int64)
    full = np.where(given >= sizes, np.inf, 0.0)
    for number in range(begun, keep):
        cluster = int((shares * (number + 1) - given - full).argmax())
        turns[number] = cluster
        given[cluster] += 1
        if given[cluster] >= sizes[cluster]:
            full[cluster] = np.inf
    return turns


def _inhabited(
    centroids: npt.NDArray[np.float32], home: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Leave out centroids that no row is nearest to."""
    present, numbered = np.unique(home, return_inverse=True)
    return centroids[present], numbered.astype(np.int64)


def _cosines_home(
    vectors: npt.NDArray[Any], centroids: npt.NDArray[np.float32], home: IntArray
) -> npt.NDArray[np.float32]:
    found = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = np.asarray(vectors[start : start + BLOCK_ROWS], np.float32)
        own = centroids[home[start : start + len(block)]]
        found[start : start + len(block)] = np.einsum("ij,ij->i", block, own)
    return found


def _dealt(order: IntArray, starts: IntArray, turns: IntArray) -> IntArray:
    """The rows of the turns: of each cluster the next in its order."""
    by_cluster = np.argsort(turns, kind="stable")
    ordered = turns[by_cluster]
    number = np.empty(len(turns), np.int64)
    number[by_cluster] = np.arange(len(turns)) - np.searchsorted(ordered, ordered)
    return np.asarray(order[starts[turns] + number], np.int64)


class DensityOrder:
    """Density-based pruning (an extension of DOSS; see `density`). A `DomainOrder`, nested."""

    uses = frozenset({"embedding", "num_clusters", "temperature"})

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:
        """The embedding."""
        return (embedding_of(schema, options, "density"),)

    def first(self, rows: PoolRows, keep: int, options: OrderOptions) -> Ranked:
        """See `DomainOrder.first`."""
        vectors = rows.columns[str(options.embedding)]
        found = density(
            vectors, keep, num_clusters=options.num_clusters, temperature=options.temperature
        )
        return Ranked(found)


DENSITY: Final = DensityOrder()
