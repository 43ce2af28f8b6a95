"""Sources in one order: each within one item of its share, at every prefix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.packing import mix

names = st.sampled_from("abcdef")
sources = st.dictionaries(
    names,
    st.tuples(
        st.lists(st.integers(1, 50), min_size=1, max_size=40),
        st.floats(0.001, 1) | st.integers(1, 9),
    ),
    min_size=1,
)


@settings(max_examples=150)
@given(sources)
def test_each_prefix_is_within_an_item_of_the_weights(drawn: dict[str, Any]) -> None:
    lengths = {name: np.array(items) for name, (items, _) in drawn.items()}
    found = mix(lengths, {name: weight for name, (_, weight) in drawn.items()})
    longest = max(items.max() for items in lengths.values())
    given_so_far = np.zeros(len(found.names))
    largest = 0.0
    for source, item in zip(found.sources, found.items, strict=True):
        given_so_far[source] += lengths[found.names[source]][item]
        errors = np.abs(given_so_far - given_so_far.sum() * np.array(found.asked))
        largest = max(largest, errors.max())
        assert errors.max() <= longest + 1e-6
    assert found.largest_error == pytest.approx(largest, abs=1)
    assert np.allclose(found.realised, given_so_far / max(1, given_so_far.sum()))
    # Items of a source keep their order, each at most once.
    for number in range(len(found.names)):
        mine = found.items[found.sources == number]
        assert mine.tolist() == list(range(len(mine)))


def test_equal_weights_take_turns() -> None:
    lengths = {"a": np.ones(3, int), "b": np.ones(3, int)}
    assert mix(lengths, {"a": 1, "b": 1}).sources.tolist() == [0, 1, 0, 1, 0, 1]


def test_weights_are_of_tokens_and_not_of_items() -> None:
    lengths = {"long": np.full(10, 9), "short": np.ones(100, int)}
    found = mix(lengths, {"long": 0.5, "short": 0.5})
    assert (found.sources == 1).sum() == pytest.approx(9 * (found.sources == 0).sum(), abs=9)


def test_when_one_runs_out_all_stop() -> None:
    lengths = {"a": np.ones(100, int), "b": np.ones(5, int)}
    found = mix(lengths, {"a": 0.5, "b": 0.5})
    assert len(found) in {10, 11}
    assert found.num_passes[1] == 1.0


def test_when_one_runs_out_it_begins_again() -> None:
    lengths = {"a": np.ones(100, int), "b": np.ones(5, int)}
    found = mix(lengths, {"a": 0.5, "b": 0.5}, exhausted="repeat")
    assert found.num_passes[0] == 1.0
    assert found.num_passes[1] == pytest.approx(20, abs=0.2)
    assert found.items[found.sources == 1][:7].tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert found.realised == pytest.approx((0.5, 0.5), abs=0.01)


def test_when_one_runs_out_the_others_go_on_in_proportion() -> None:
    lengths = {"a": np.ones(300, int), "b": np.ones(5, int), "c": np.ones(900, int)}
    found = mix(lengths, {"a": 0.25, "b": 0.5, "c": 0.25}, exhausted="go_on")
    assert len(found) == 1205
    assert found.num_passes == (1.0, 1.0, 1.0)
    # Once b is through, a and c take turns.
    assert set(np.diff(np.flatnonzero(found.sources[20:400] == 0)).tolist()) == {2}


def test_sources_without_a_weight_are_left_out() -> None:
    lengths = {"a": np.ones(3, int), "b": np.ones(3, int)}
    found = mix(lengths, {"a": 2, "b": 0})
    assert found.names == ("a",)
    assert found.asked == (1.0,)


@pytest.mark.parametrize(
    ("weights", "exhausted", "message"),
    [
        ({"c": 1}, "stop", "names no source"),
        ({"a": -1}, "stop", "out of range"),
        ({"a": float("nan")}, "stop", "out of range"),
        ({"a": 0}, "stop", "No source has a weight"),
        ({"none": 1}, "stop", "has a weight and no items"),
        ({"a": 1}, "panic", "runs out"),
    ],
)
def test_weights_that_cannot_be_met_are_refused(
    weights: dict[str, float], exhausted: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        mix({"a": np.ones(1, int), "none": np.empty(0, int)}, weights, exhausted=exhausted)
