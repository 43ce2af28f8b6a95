"""The cover property, its slow twin, and what the SemDeDup rule leaves without a kept row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curation.duplicates import Pairs, drop_duplicates
from datalake.errors import InputError


def pairs_of(edges: list[tuple[int, int]]) -> Pairs:
    ends = np.array(edges, np.int64).reshape(-1, 2)
    return Pairs(ends[:, 0], ends[:, 1], np.full(len(ends), 0.99))


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    num_rows = draw(st.integers(1, 12))
    row = st.integers(0, num_rows - 1)
    return num_rows, draw(st.lists(st.tuples(row, row), max_size=30))


@given(graphs(), st.randoms())
def test_every_dropped_row_has_a_kept_neighbour(graph, random) -> None:
    num_rows, edges = graph
    near = {frozenset(edge) for edge in edges if edge[0] != edge[1]}
    kept: list[int] = []
    kept_by: dict[int, int] = {}
    for row in range(num_rows):
        by = [other for other in kept if frozenset((row, other)) in near]
        if by:
            kept_by[row] = by[0]
        else:
            kept.append(row)
    found = drop_duplicates(pairs_of(edges), num_rows)
    assert dict(zip(found.rows.tolist(), found.kept_by.tolist(), strict=True)) == kept_by
    assert found.num_uncovered == 0
    mixed = [edge[::-1] if random.random() < 0.5 else edge for edge in edges]
    random.shuffle(mixed)
    again = drop_duplicates(pairs_of(mixed), num_rows)
    assert (again.rows.tolist(), again.kept_by.tolist()) == (
        found.rows.tolist(),
        found.kept_by.tolist(),
    )


def drift_chains(num_chains: int, length: int, dims: int = 32) -> np.ndarray:
    """Chains whose neighbours are near and whose ends are not, in random visiting order."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(num_chains, 1, dims))
    rows = rows + np.cumsum(rng.normal(0, 0.12, (num_chains, length, dims)), axis=1)
    flat = rng.permutation(rows.reshape(-1, dims))
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)


def test_semdedup_leaves_rows_of_drift_chains_uncovered() -> None:
    rows = drift_chains(300, 6)
    similarity = rows.astype(np.float32) @ rows.astype(np.float32).T
    left, right = np.nonzero(np.triu(similarity > 0.98, 1))
    pairs = Pairs(left, right, similarity[left, right].astype(np.float64))
    cover = drop_duplicates(pairs, len(rows))
    semdedup = drop_duplicates(pairs, len(rows), rule="semdedup")
    assert cover.num_uncovered == 0
    assert len(cover.rows) < len(semdedup.rows)
    assert 0.1 < semdedup.num_uncovered / len(semdedup.rows) < 0.4
    kept = np.setdiff1d(np.arange(len(rows)), cover.rows)
    assert (np.triu(similarity[np.ix_(kept, kept)], 1) <= 0.98).all()
    assert (similarity[np.ix_(cover.rows, kept)].max(1) > 0.98).all()


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="not there"):
        drop_duplicates(pairs_of([(0, 3)]), 3)
