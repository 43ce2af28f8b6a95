"""Exact nearest neighbours: every query against every row, in tiles."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["exact_neighbors"]

_QUERY_ROWS: Final = 1024
_ROWS: Final = 8192


def exact_neighbors(
    queries: npt.NDArray[Any], vectors: npt.NDArray[Any], num_neighbors: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The rows of largest dot product with each query, the largest first.

    Equal products stand in the order of their rows. Holds some 100 MB beside its arguments.

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
    for begin in range(0, len(queries), _QUERY_ROWS):
        some = np.ascontiguousarray(queries[begin : begin + _QUERY_ROWS], np.float32)
        best_rows = np.empty((len(some), 0), np.int64)
        best = np.empty((len(some), 0), np.float32)
        for start in range(0, len(vectors), _ROWS):
            tile = some @ np.ascontiguousarray(vectors[start : start + _ROWS], np.float32).T
            numbers = np.broadcast_to(np.arange(start, start + tile.shape[1]), tile.shape)
            best, best_rows = _largest(
                np.hstack([best, tile]), np.hstack([best_rows, numbers]), num_neighbors
            )
        rows[begin : begin + len(some)] = best_rows
        products[begin : begin + len(some)] = best
    return rows, products


def _largest(
    products: npt.NDArray[np.float32], rows: npt.NDArray[np.int64], count: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The largest of each line in order; of equal ones those that stand first."""
    order = np.argsort(-products, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(products, order, 1), np.take_along_axis(rows, order, 1)
