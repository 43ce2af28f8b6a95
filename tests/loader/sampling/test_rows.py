"""One source: whole, by a selection, by row numbers."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.order import Blocks, OrderName
from datalake.loader.sampling import Selected, Whole, sampler_of
from tests.loader.sampling.fakes import Counted, selection, stream

ROWS = [9, 2, 33, 4, 17, 5, 28, 30, 31, 8, 11]


@pytest.mark.parametrize("order", ["exact", "blocks", "sequential"])
def test_each_row_once_an_epoch(order: OrderName) -> None:
    whole = sampler_of(Counted(50), order=order, seed=1)
    chosen = Selected(Counted(50), selection(ROWS, ["d"] * 11)).sampler(order=order, seed=1)
    for sampler, rows in ((whole, list(range(50))), (chosen, sorted(ROWS))):
        first = sampler.picks(0, np.arange(sampler.num_examples))
        second = sampler.picks(1, np.arange(sampler.num_examples))
        assert sorted(first.rows.tolist()) == sorted(second.rows.tolist()) == rows
        assert (first.rows.tolist() == second.rows.tolist()) is (order == "sequential")
        assert set(first.visits.tolist()) == {0}
        assert set(second.visits.tolist()) == {1}
        assert first.sources.tolist() == [0] * sampler.num_examples


@settings(deadline=None)
@given(st.lists(st.integers(0, 49), max_size=10))
def test_any_positions(positions: list[int]) -> None:
    sampler = sampler_of(Counted(50), seed=3)
    whole = sampler.picks(2, np.arange(50)).rows
    some = sampler.picks(2, np.array(positions, np.int64)).rows
    assert some.tolist() == whole[positions].tolist()


def test_weights_go_with_their_rows() -> None:
    weights = [float(row) for row in ROWS]
    for order in ("exact", "blocks", "sequential"):
        sampler = Selected(Counted(50), selection(ROWS, ["d"] * 11, weights)).sampler(order=order)
        picks = sampler.picks(0, np.arange(11))
        assert picks.weights.tolist() == picks.rows.tolist()
    assert set(sampler_of(Counted(5)).picks(0, np.arange(5)).weights.tolist()) == {1.0}


def test_sequential_is_the_selections_own_order() -> None:
    sampler = Selected(Counted(50), np.array(ROWS)).sampler(order="sequential")
    assert stream(sampler, 1)[1].tolist() == ROWS


def test_blocks_are_neighbours_in_the_table() -> None:
    rows = np.random.default_rng(0).permutation(1000)[:400]
    sampler = Selected(Counted(1000), rows).sampler(order="blocks", working_set=3)
    runs = np.searchsorted(np.sort(rows), stream(sampler, 1)[1]) // 8
    live = [len(set(runs[:position]) & set(runs[position:])) for position in range(400)]
    assert max(live) <= 3


def test_the_working_set() -> None:
    def at_once(working_set: int | float) -> int:
        order = Whole(Counted(8000)).sampler(order="blocks", working_set=working_set).order(0)
        assert isinstance(order, Blocks)
        return order.blocks_at_once

    assert at_once(77) == 77
    # A quarter of 1,000 blocks, one sixteenth of what is in use read ahead.
    assert at_once(0.25) == 235
    assert at_once(1.0) == 941
    for wrong in (0, -1, 0.0, 1.5):
        with pytest.raises(InputError, match="working set"):
            at_once(wrong)


def test_identity_is_plain_small_and_tells_apart() -> None:
    made = [
        Whole(Counted(50)).sampler(),
        Whole(Counted(50)).sampler(seed=1),
        Whole(Counted(50)).sampler(order="blocks"),
        Whole(Counted(50)).sampler(order="blocks", working_set=7),
        Whole(Counted(50, uri="memory://b")).sampler(),
        Selected(Counted(50), np.array(ROWS)).sampler(),
        Selected(Counted(50), np.array(ROWS[::-1])).sampler(),
        Selected(Counted(50), selection(ROWS, ["d"] * 11)).sampler(),
    ]
    texts = [json.dumps(sampler.identity()) for sampler in made]
    assert len(set(texts)) == len(texts)
    assert max(map(len, texts)) < 400
    for sampler in made:
        copy = pickle.loads(pickle.dumps(sampler))
        assert copy.identity() == sampler.identity()
        assert np.array_equal(stream(copy, 2), stream(sampler, 2))


def test_nothing_changes_at_a_resume() -> None:
    sampler = Whole(Counted(50)).sampler()
    assert sampler.resumed(1, 5, sampler.progress(1, 5)) is sampler


def test_a_source_brings_its_selection() -> None:
    source = Counted(50)
    source.selection = selection(ROWS, ["d"] * 11)  # type: ignore[attr-defined]
    assert sampler_of(source).num_examples == 11


def test_what_cannot_be_streamed_is_refused() -> None:
    source = Counted(50)
    with pytest.raises(InputError, match=r"another version.*version 3"):
        Selected(source, selection(ROWS, ["d"] * 11, version=2))
    with pytest.raises(InputError, match="a table of 50 rows"):
        Selected(source, selection([60], ["d"]))
    source.ids = lambda rows: ["x"] * len(rows)  # type: ignore[method-assign]
    with pytest.raises(InputError, match="from another table"):
        Selected(source, selection(ROWS, ["d"] * 11))
    for rows in ([-1], [50]):
        with pytest.raises(InputError, match="rows from 0 to 49"):
            Selected(source, rows).sampler()
    with pytest.raises(InputError, match="flatnonzero"):
        Selected(source, np.ones(50, bool)).sampler()
    with pytest.raises(InputError, match="nothing to stream"):
        Selected(source, []).sampler()
    with pytest.raises(InputError, match="nothing to stream"):
        sampler_of(Counted(0))
    with pytest.raises(InputError, match="cannot be streamed"):
        sampler_of("corpus")  # type: ignore[arg-type]
