"""Subsets of sources and generators, by hand and by what must hold of every one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curation.study.diversity import diverse_subset
from datalake.errors import InputError

NUM_SOURCES, NUM_GENERATORS, EACH = 4, 5, 6


def side(order: np.ndarray | None = None) -> pa.Table:
    """Of each source six rows of each generator, and thirty bona fide ones."""
    rows = [
        {"utt_id": f"s{source}/{name}/{number}", "source": f"s{source}",
         "generator": name, "label": "spoof" if name else "bonafide"}
        for source in range(NUM_SOURCES)
        for name in [None] * NUM_GENERATORS + [f"g{number}" for number in range(NUM_GENERATORS)]
        for number in range(EACH)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    return table if order is None else table.take(order)


def values(table: pa.Table, column: str) -> set[str]:
    return set(table[column].drop_null().to_pylist())


@given(
    num_sources=st.integers(1, NUM_SOURCES),
    num_generators=st.integers(1, NUM_GENERATORS),
    seed=st.integers(0, 50),
)
def test_subsets_have_what_they_say(num_sources: int, num_generators: int, seed: int) -> None:
    found = diverse_subset(side(), num_sources, num_generators, 12, seed)
    labels = found["label"].to_pylist()
    assert (labels.count("bonafide"), labels.count("spoof")) == (6, 6)
    whole = diverse_subset(side(), num_sources, num_generators, None, seed)
    assert len(values(whole, "source")) == num_sources
    assert len(values(whole, "generator")) == num_generators
    assert whole.num_rows == num_sources * EACH * (NUM_GENERATORS + num_generators)
    assert values(found, "utt_id") <= values(whole, "utt_id")
    shuffled = side(np.random.default_rng(seed).permutation(side().num_rows))
    again = diverse_subset(shuffled, num_sources, num_generators, 12, seed)
    assert values(again, "utt_id") == values(found, "utt_id")
    if num_sources > 1:
        fewer = diverse_subset(side(), num_sources - 1, num_generators, None, seed)
        assert values(fewer, "source") < values(whole, "source")


def test_seeds_draw_other_subsets() -> None:
    drawn = {
        tuple(sorted(values(diverse_subset(side(), 2, 2, None, seed), "generator")))
        for seed in range(12)
    }
    assert len(drawn) > 4


@pytest.mark.parametrize(
    ("sources", "generators", "budget", "words"),
    [
        (5, 1, 4, "not so many sources"),
        (1, 6, 4, "not so many generators"),
        (0, 1, 4, "not so many sources"),
        (1, 1, 40, "too few rows"),
    ],
)
def test_what_would_not_keep_n_fixed(
    sources: int, generators: int, budget: int, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        diverse_subset(side(), sources, generators, budget, 0)
