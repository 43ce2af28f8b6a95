"""Facility location: rows chosen so that every row has a chosen one like it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.neighbors import exact_neighbors
from curation.selection.orders.order import OrderOptions, PoolRows, Ranked
from curation.selection.orders.similarity import cosines_to_kept, embedding_of, in_units

__all__ = ["FACILITY_LOCATION", "facility_location", "facility_value"]

MOST_ROWS: Final = 32_768
"""Up to so many rows greedy looks at all of them at once."""
_LEAST_EACH: Final = 2048
_LEAST_JUDGED: Final = 131_072
_JUDGED_PER_EACH: Final = 4
_CHUNK_ROWS: Final = 4096
_TAKEN: Final = -1

IntArray = npt.NDArray[np.int64]


def facility_location(
    vectors: npt.NDArray[Any], keep: int, *, num_neighbors: int = 128
) -> IntArray:
    """Greedy choice of rows that maximises the sum of each row's cosine to the nearest chosen one.

    Of each row the `num_neighbors` most similar rows count, by what their cosine (0 if negative) is
    above that of the last of them: exact greedy for the sum in which a row that has none of them
    chosen counts as if it had the last. Once each row has one, that is the whole sum. Gains of all
    rows are kept up to date as rows are chosen, in whole numbers of 2^-20, so nothing is evaluated
    twice or lazily. Nested: a larger `keep` begins with the rows of a smaller one.

    More than 32,768 rows are chosen from in two rounds (GreeDi, Mirzasoleiman et al., 2013, with
    the random partition of Barbosa et al., 2015): even slices of at most so many rows, which are
    random where the rows stand in the order of a hash, choose `each` rows of their own; then greedy
    chooses among those by their value for the first 131,072 rows, or 4 times `each` if that is
    more. `each` is the power of two from 2,048 up that is not below twice `keep`. Nested where that
    is the same: for all up to 1,024, then up to 2,048, and so on. Across such a border it is not.

    Takes rows^2 products up to 32,768 rows, then 32,768 a row. Holds some 24 bytes a neighbour of
    the rows looked at at once (32,768; then 131,072 or 4 times `each`), 32,768 vectors, `each` more
    of each part, and 100 MB.

    Args:
        vectors: (rows, dims) float32, of length 1, in the order that breaks ties.
        keep: 1 to the number of rows.
        num_neighbors: fewer are quicker, and blinder for a small `keep`.

    Returns:
        Positions in the order of the picks, (keep,).
    """
    if len(vectors) <= MOST_ROWS:
        return _choose(vectors, vectors, keep, num_neighbors)
    each = max(_LEAST_EACH, 1 << (2 * keep - 1).bit_length())
    num_parts = -(-len(vectors) // MOST_ROWS)
    bounds = np.linspace(0, len(vectors), num_parts + 1).astype(np.int64).tolist()
    found = []
    for start, stop in pairwise(bounds):
        part = np.array(vectors[start:stop], np.float32)
        found.append(start + _choose(part, part, min(each, len(part)), num_neighbors))
    union = np.sort(np.concatenate(found))
    candidates = np.array(vectors[union], np.float32)
    judged = vectors[: max(_LEAST_JUDGED, _JUDGED_PER_EACH * each)]
    return np.asarray(union[_choose(judged, candidates, keep, num_neighbors)])


def facility_value(vectors: npt.NDArray[Any], kept: IntArray) -> float:
    """The mean over all rows of the cosine to the nearest kept row, 0 if negative."""
    cosines = np.maximum(cosines_to_kept(vectors, kept), 0)
    return float(cosines.mean(dtype=np.float64))


def _choose(
    rows: npt.NDArray[Any], candidates: npt.NDArray[Any], keep: int, num_neighbors: int
) -> IntArray:
    """Greedy: candidates in the order of their picks, (keep,)."""
    graph = _Graph.of(rows, candidates, num_neighbors)
    gains = graph.first_gains()
    picks = np.empty(keep, np.int64)
    for number in range(keep):
        pick = int(gains.argmax())
        picks[number] = pick
        graph.take(pick, gains)
        gains[pick] = _TAKEN
    return picks


class _Graph:
    """Which candidates count for which rows, both ways, and what each row has so far."""

    def __init__(
        self, neighbors: npt.NDArray[np.int32], worth: npt.NDArray[np.int32], num_candidates: int
    ) -> None:
        self._neighbors = neighbors
        self._worth = worth
        flat = neighbors.ravel()
        order = np.argsort(flat, kind="stable")
        self._worth_to_rows = worth.ravel()[order]
        np.floor_divide(order, neighbors.shape[1], out=order)
        self._rows = order.astype(np.int32)
        counts = np.bincount(flat, minlength=num_candidates)
        self._ends = np.concatenate([[0], np.cumsum(counts)])
        self._has = np.zeros(len(neighbors), np.int32)

    @classmethod
    def of(cls, rows: npt.NDArray[Any], candidates: npt.NDArray[Any], num_neighbors: int) -> _Graph:
        count = min(num_neighbors, len(candidates))
        neighbors = np.empty((len(rows), count), np.int32)
        worth = np.empty((len(rows), count), np.int32)
        for start in range(0, len(rows), _CHUNK_ROWS):
            some = slice(start, min(start + _CHUNK_ROWS, len(rows)))
            neighbors[some], cosines = exact_neighbors(rows[some], candidates, count)
            worth[some] = np.maximum(in_units(cosines), 0)
        if count < len(candidates):
            worth -= worth[:, -1:].copy()
        return cls(neighbors, worth, len(candidates))

    def first_gains(self) -> IntArray:
        """What each candidate adds to nothing, (candidates,)."""
        sums = np.concatenate([[0], np.cumsum(self._worth_to_rows, dtype=np.int64)])
        return np.asarray(sums[self._ends[1:]] - sums[self._ends[:-1]], np.int64)

    def take(self, pick: int, gains: IntArray) -> None:
        """Choose a candidate: lower the gains of those that were worth the same to a row."""
        begin, end = self._ends[pick], self._ends[pick + 1]
        rows, worth = self._rows[begin:end], self._worth_to_rows[begin:end]
        better = worth > self._has[rows]
        rows, worth = rows[better], worth[better]
        had = self._has[rows]
        self._has[rows] = worth
        lost = np.clip(self._worth[rows], had[:, None], worth[:, None]) - had[:, None]
        np.subtract.at(gains, self._neighbors[rows].ravel(), lost.ravel().astype(np.int64))


class FacilityLocationOrder:
    """Facility location (an extension of DOSS; see `facility_location`). A `DomainOrder`.

    Nested up to 32,768 rows of a domain, and beyond for caps between the same two powers of two.
    Its value is the mean over the rows of the cosine to the nearest kept one.
    """

    uses = frozenset({"embedding", "num_neighbors"})

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:
        """The embedding."""
        return (embedding_of(schema, options, "facility_location"),)

    def first(self, rows: PoolRows, keep: int, options: OrderOptions) -> Ranked:
        """See `DomainOrder.first`."""
        vectors = rows.columns[str(options.embedding)]
        picks = facility_location(vectors, keep, num_neighbors=options.num_neighbors)
        return Ranked(picks, facility_value(vectors, picks))


FACILITY_LOCATION: Final = FacilityLocationOrder()
