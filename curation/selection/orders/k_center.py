"""k-center: each row is the one farthest from those that come before it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.selection.orders.order import OrderOptions, PoolRows, Ranked
from curation.selection.orders.similarity import (
    BLOCK_ROWS,
    UNIT,
    cosines_to_kept,
    embedding_of,
    in_units,
)

__all__ = ["K_CENTER", "k_center"]

_CANDIDATES: Final = 512
"""Rows among which the next picks are looked for without looking at the others."""
_TAKEN: Final = np.int32(2**31 - 1)

IntArray = npt.NDArray[np.int64]


def k_center(vectors: npt.NDArray[Any], keep: int) -> IntArray:
    """Farthest-first traversal (Gonzalez, 1985): no choice of so few has half its radius.

    Begins with the first row. Distance is that of unit vectors, which falls as the cosine rises.
    Takes rows x keep products. The next picks are nearly always among the rows that were farthest
    when last all were looked at: those are settled among themselves while no other row can be
    farther, and then all rows meet the new picks in one product. Holds 8 bytes a row and 100 MB.

    Args:
        vectors: (rows, dims) float32, of length 1, in the order that breaks ties.
        keep: 1 to the number of rows.

    Returns:
        Positions in the order of the picks, (keep,).
    """
    picks = [0]
    # The cosine to the nearest pick: rows of the least are the farthest.
    nearest = np.full(len(vectors), -UNIT - 1, np.int32)
    _meet(vectors, nearest, np.array(picks))
    while len(picks) < keep:
        candidates, bound = _farthest(nearest)
        rows = np.ascontiguousarray(vectors[candidates], np.float32)
        products = in_units(rows @ rows.T)
        local = nearest[candidates]
        new: list[int] = []
        while len(picks) + len(new) < keep:
            place = int(local.argmin())
            if local[place] == _TAKEN or (new and local[place] >= bound):
                break
            new.append(int(candidates[place]))
            np.maximum(local, products[place], out=local)
            local[place] = _TAKEN
        picks += new
        _meet(vectors, nearest, np.array(new))
        nearest[picks] = _TAKEN
    return np.array(picks, np.int64)


def _farthest(nearest: npt.NDArray[np.int32]) -> tuple[IntArray, int]:
    """Rows of the least cosines, ascending, and the cosine that all others have at least."""
    if len(nearest) <= _CANDIDATES:
        return np.arange(len(nearest)), int(_TAKEN)
    bound = int(np.partition(nearest, _CANDIDATES)[_CANDIDATES])
    below = np.flatnonzero(nearest < bound)
    # Where too many are equally far, the first of them is the next.
    return (below if len(below) else np.array([int(nearest.argmin())])), bound


def _meet(vectors: npt.NDArray[Any], nearest: npt.NDArray[np.int32], new: IntArray) -> None:
    """Bring the cosines to the nearest pick up to date with new picks."""
    chosen = np.ascontiguousarray(vectors[new], np.float32)
    for start in range(0, len(vectors), BLOCK_ROWS):
        block = np.ascontiguousarray(vectors[start : start + BLOCK_ROWS], np.float32)
        best = nearest[start : start + len(block)]
        np.maximum(best, in_units((block @ chosen.T).max(axis=1)), out=best)
    nearest[new] = _TAKEN


class KCenterOrder:
    """k-center greedy (an extension of DOSS, OURS). A `DomainOrder`, nested.

    Its value is the least, over the rows, of the cosine to the nearest kept one.
    """

    uses = frozenset({"embedding"})

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:
        """The embedding."""
        return (embedding_of(schema, options, "k_center"),)

    def first(self, rows: PoolRows, keep: int, options: OrderOptions) -> Ranked:
        """See `DomainOrder.first`."""
        vectors = rows.columns[str(options.embedding)]
        picks = k_center(vectors, keep)
        return Ranked(picks, float(cosines_to_kept(vectors, picks).min()))


K_CENTER: Final = KCenterOrder()
