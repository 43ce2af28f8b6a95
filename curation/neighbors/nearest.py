"""Exact nearest neighbours: every query against every row, in tiles.

A product is looked at again only if it is above a floor: first what a sample of the rows suggests,
then the least of the best so far. Few are, so the matrix products are most of the work.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["exact_neighbors"]

_QUERY_ROWS: Final = 1024
_ROWS: Final = 8192
_SAMPLED_ROWS: Final = 2048
_LEAST_ROWS: Final = 4096
"""Up to so many rows a sample is not worth its products."""


def exact_neighbors(
    queries: npt.NDArray[Any], vectors: npt.NDArray[Any], num_neighbors: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The rows of largest dot product with each query, the largest first.

    Equal products stand in the order of their rows. Holds some 100 MB beside its arguments and what
    it returns, 12 bytes a neighbour.

    Args:
        queries: (queries, dims), float32 or float16.
        vectors: (rows, dims).
        num_neighbors: at most the number of rows.

    Returns:
        Row numbers and products, both (queries, num_neighbors).

    Raises:
        InputError: there are fewer rows than neighbours asked for.
    """
    if not 1 <= num_neighbors <= len(vectors):
        raise InputError(
            "There are not so many neighbours",
            expected=f"1 to {len(vectors)}, the number of rows",
            found=str(num_neighbors),
        )
    rows = np.empty((len(queries), num_neighbors), np.int64)
    products = np.empty((len(queries), num_neighbors), np.float32)
    sample, rank = _sample(vectors, num_neighbors)
    for begin in range(0, len(queries), _QUERY_ROWS):
        some = np.ascontiguousarray(queries[begin : begin + _QUERY_ROWS], np.float32)
        floors = np.full(len(some), -np.inf, np.float32)
        if rank:
            floors = np.partition(some @ sample.T, -rank, axis=1)[:, -rank]
        best, best_rows = _search(some, vectors, num_neighbors, floors)
        missed = np.flatnonzero(best[:, -1] == -np.inf)
        if len(missed):
            floors = np.full(len(missed), -np.inf, np.float32)
            best[missed], best_rows[missed] = _search(some[missed], vectors, num_neighbors, floors)
        rows[begin : begin + len(some)] = best_rows
        products[begin : begin + len(some)] = best
    return rows, products


def _sample(vectors: npt.NDArray[Any], num_neighbors: int) -> tuple[npt.NDArray[np.float32], int]:
    """Rows at even steps, and which of their products, the largest being 1, is a likely floor.

    About twice as many rows as are wanted are above it; 0 where a floor would help little.
    """
    sample = np.ascontiguousarray(vectors[:: max(1, len(vectors) // _SAMPLED_ROWS)], np.float32)
    expected = 2 * num_neighbors * len(sample) / len(vectors)
    rank = math.ceil(expected + 2 * math.sqrt(expected)) + 2
    is_worth = len(vectors) > _LEAST_ROWS and 8 * rank < len(sample)
    return sample, rank if is_worth else 0


def _search(
    queries: npt.NDArray[np.float32],
    vectors: npt.NDArray[Any],
    count: int,
    floors: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The largest products above each query's floor; -inf for those that it kept away."""
    best = np.full((len(queries), count), -np.inf, np.float32)
    best_rows = np.zeros((len(queries), count), np.int64)
    for start in range(0, len(vectors), _ROWS):
        tile = queries @ np.ascontiguousarray(vectors[start : start + _ROWS], np.float32).T
        if not start and tile.shape[1] > 2 * count and (floors == -np.inf).all():
            least = np.partition(tile, -count, axis=1)[:, -count]
            floors = np.nextafter(least, np.float32(-np.inf))
        # Of equal products the earlier row's is there already: a later one must be above it.
        found = np.flatnonzero(tile > floors[:, None])
        if not len(found):
            continue
        line, column = np.divmod(found, tile.shape[1])
        counts = np.bincount(line, minlength=len(queries))
        place = count + np.arange(len(found)) - np.repeat(np.cumsum(counts) - counts, counts)
        width = count + int(counts.max())
        products = np.full((len(queries), width), -np.inf, np.float32)
        rows = np.zeros((len(queries), width), np.int64)
        products[:, :count], rows[:, :count] = best, best_rows
        products[line, place], rows[line, place] = tile.ravel()[found], start + column
        order = np.argsort(-products, axis=1, kind="stable")[:, :count]
        best = np.take_along_axis(products, order, 1)
        best_rows = np.take_along_axis(rows, order, 1)
        np.maximum(floors, best[:, -1], out=floors)
    return best, best_rows
