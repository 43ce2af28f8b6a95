"""Pairs found within clusters against all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from curation.duplicates import drop_duplicates
from curation.duplicates.near_pairs import near_pairs, recall_of
from datalake.errors import InputError
from tests.curation.duplicates.test_cover import drift_chains


def edges(pairs) -> set[tuple[int, int]]:
    return set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))


def test_all_clusters_probed_find_all_pairs_and_fewer_say_what_they_miss(tmp_path) -> None:
    rows = drift_chains(300, 6).astype(np.float32)
    exact = rows.astype(np.float64) @ rows.astype(np.float64).T
    all_pairs = {(int(a), int(b)) for a, b in np.argwhere(np.triu(exact >= 0.98, 1))}
    every = near_pairs(rows, 0.98, tmp_path, num_clusters=8, num_probes=8)
    assert edges(every) == all_pairs
    assert recall_of(every, rows, 0.98, len(rows)) == 1
    shares = []
    for num_probes in (1, 3):
        some = near_pairs(rows, 0.98, tmp_path, num_clusters=8, num_probes=num_probes)
        assert edges(some) <= all_pairs
        shares.append(recall_of(some, rows, 0.98, len(rows)))
        assert shares[-1] == pytest.approx(len(edges(some)) / len(all_pairs))
        assert drop_duplicates(some, len(rows)).num_uncovered == 0
    assert shares[0] < shares[1] > 0.95


def test_more_probes_than_clusters_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="1 to 2"):
        near_pairs(np.eye(4, dtype=np.float32), 0.9, tmp_path, num_clusters=2, num_probes=3)
