"""What packing is compared with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.packing import Baselines, LengthLaw, pack_lengths
from datalake.packing.comparison import fewest_bins, next_fit, pad_to_batch_max
from tests.packing import twins
from tests.packing.laws import LAWS, lengths_of

lengths = st.lists(st.integers(1, 20), min_size=1, max_size=60)


@given(lengths)
def test_next_fit_is_the_twin(given_lengths: list[int]) -> None:
    bins = twins.next_fit(given_lengths, 20)
    assert next_fit(np.array(given_lengths), 20) == sum(given_lengths) / (20 * bins)


@given(lengths, st.integers(1, 70))
def test_padding_to_the_longest_of_a_batch(given_lengths: list[int], batch_size: int) -> None:
    batches = [given_lengths[i : i + batch_size] for i in range(0, len(given_lengths), batch_size)]
    padded = sum(max(batch) * len(batch) for batch in batches)
    assert pad_to_batch_max(np.array(given_lengths), batch_size) == sum(given_lengths) / padded


@given(st.lists(st.integers(1, 20), max_size=7))
def test_the_bound_is_never_above_the_best_there_is(few: list[int]) -> None:
    bound = fewest_bins(np.array(few, int), 20)
    assert -(-sum(few) // 20) <= bound <= twins.fewest_bins(few, 20)


@given(lengths)
def test_packing_never_beats_the_bound(given_lengths: list[int]) -> None:
    array = np.array(given_lengths)
    assert pack_lengths(array, 20).utilisation <= Baselines.of(array, 20).bound + 1e-12


@pytest.mark.parametrize(
    ("law", "padded", "by_next_fit"), [("uniform", 0.528, 0.747), ("normal", 0.646, 0.961)]
)
def test_simulations_of_the_literature_are_met(law: str, padded: float, by_next_fit: float) -> None:
    drawn, capacity = lengths_of(law, 20_000)
    found = Baselines.of(drawn, capacity, batch_size=32)
    assert found.pad_to_batch_max == pytest.approx(padded, abs=0.01)
    assert found.next_fit == pytest.approx(by_next_fit, abs=0.005)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_is_told_by_its_figures(law: str) -> None:
    drawn, _ = lengths_of(law, 1000)
    told = LengthLaw.of(drawn)
    assert (told.num_items, told.total) == (1000, drawn.sum())
    assert (told.least, told.most) == (drawn.min(), drawn.max())
    assert told.median == np.sort(drawn)[499]
    assert told.p95 == np.sort(drawn)[949]
    assert told.mean == pytest.approx(drawn.mean())


def test_nothing_has_figures_too() -> None:
    none = np.empty(0, int)
    assert LengthLaw.of(none).num_items == 0
    assert Baselines.of(none, 10) == Baselines(32, 0.0, 0.0, 0.0)
