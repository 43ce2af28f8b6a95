"""k-center beside the plain farthest-first traversal."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curation.selection.orders import k_center
from tests.curation.select.orders.vectors import clustered, signs, units

module = sys.modules[k_center.__module__]


def plain(cosines: np.ndarray, keep: int) -> list[int]:
    picks = [0]
    while len(picks) < keep:
        nearest = cosines[:, picks].max(axis=1)
        nearest[picks] = 1 << 40
        picks.append(int(nearest.argmin()))
    return picks


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 90), st.integers(0, 10**6), st.booleans(), st.integers(1, 20), st.data())
def test_picks_are_those_of_the_plain_traversal(num_rows, seed, is_exact, most, data) -> None:
    rows = signs(num_rows, seed) if is_exact else clustered(num_rows, seed=seed)
    keep = data.draw(st.integers(1, num_rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CANDIDATES", most)
        patch.setattr(module, "BLOCK_ROWS", 17)
        assert k_center(rows, keep).tolist() == plain(units(rows), keep)


def test_many_rows() -> None:
    rows = clustered(1_500, dims=24, spread=1.0)
    assert k_center(rows, 120).tolist() == plain(units(rows), 120)


def test_by_hand() -> None:
    angles = np.radians([0, 10, 180, 90, 85])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    # Opposite 0; then 90 degrees is as far from both; 10 and 85 are 10 and 5 degrees from a pick.
    assert k_center(rows, 5).tolist() == [0, 2, 3, 1, 4]


def test_copies_come_last_in_their_order() -> None:
    rows = clustered(60)[[*range(60), 5, 3, 4]]
    assert k_center(rows, 63)[60:].tolist() == [60, 61, 62]


def test_vectors_in_a_file_stay_there(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(module, "BLOCK_ROWS", 256)
    np.save(tmp_path / "rows.npy", clustered(40_000, dims=128))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    tracemalloc.start()
    k_center(rows, 40)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 4
