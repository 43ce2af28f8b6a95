"""Mixtures: exact proportions, every part through its own epochs, weights that change."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.sampling import (
    Mixture,
    Realised,
    Sampler,
    Selected,
    Weighted,
    sampler_of,
    without_weights,
)
from tests.loader.sampling.fakes import Counted, selection, stream

PARTS = {"a": Counted(40), "b": Counted(100, "memory://b"), "c": Counted(23, "memory://c")}
NUM_EXAMPLES = 163


def mixed(seed: int = 0, **weights: float) -> Any:
    return Mixture(PARTS, weights or None).sampler(seed=seed)


def own(sampler: Any, source: int, num_epochs: int) -> list[tuple[int, int]]:
    """What one source gives, in the stream's order: rows and visits."""
    sources, rows, visits = stream(sampler, num_epochs)
    at = sources == source
    return list(zip(rows[at].tolist(), visits[at].tolist(), strict=True))


def test_every_part_goes_through_its_own_epochs() -> None:
    sampler = mixed(a=1, b=1, c=2)
    sources, rows, visits = stream(sampler, 6)
    for number, part in enumerate(PARTS.values()):
        at = np.flatnonzero(sources == number)
        for epoch in range(len(at) // part.num_rows):
            once = at[epoch * part.num_rows : (epoch + 1) * part.num_rows]
            assert sorted(rows[once].tolist()) == list(range(part.num_rows))
            assert set(visits[once].tolist()) == {epoch}
    counts = np.cumsum(sources[:, np.newaxis] == np.arange(3), axis=0)
    shares = np.arange(1, len(sources) + 1)[:, np.newaxis] * np.array([0.25, 0.25, 0.5])
    assert np.abs(counts - shares).max() < 1 + 3 / 2


def test_by_size_without_weights() -> None:
    sampler = mixed()
    assert sampler.num_examples == NUM_EXAMPLES
    assert sampler.shares() == {"a": 40 / 163, "b": 100 / 163, "c": 23 / 163}


def test_parts_of_one_table_come_in_different_orders() -> None:
    sampler = Mixture({"one": Counted(50), "two": Counted(50)}).sampler()
    assert own(sampler, 0, 1) != own(sampler, 1, 1)


@settings(deadline=None)
@given(st.lists(st.integers(0, NUM_EXAMPLES - 1), max_size=10), st.integers(0, 50))
def test_any_pieces_give_the_same(positions: list[int], epoch: int) -> None:
    whole = mixed(a=3, c=1).picks(epoch, np.arange(NUM_EXAMPLES))
    some = mixed(a=3, c=1).picks(epoch, np.array(positions, np.int64))
    for name in ("sources", "rows", "visits", "weights"):
        assert getattr(some, name).tolist() == getattr(whole, name)[positions].tolist()


@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.tuples(st.integers(0, 3 * NUM_EXAMPLES), *[st.integers(0, 5)] * 3), max_size=3),
    st.integers(0, 9),
)
def test_every_part_goes_on_where_it_stood(
    changes: list[tuple[int, int, int, int]], seed: int
) -> None:
    """Weights changed at any places: no part loses or repeats an example, and what was before a
    change stays as it was."""
    reference = {
        number: own(Mixture({name: part}, None, 4 * NUM_EXAMPLES).sampler(seed=seed), 0, 1)
        for number, (name, part) in enumerate(PARTS.items())
    }
    sampler: Any = mixed(seed, a=1, b=2, c=3)
    before: np.ndarray = np.array(stream(sampler, 4))
    for begin, a, b, c in sorted(changes):
        if not a + b + c:
            continue
        epoch, position = divmod(begin, NUM_EXAMPLES)
        progress = json.loads(json.dumps(sampler.progress(epoch, position)))
        sampler = mixed(seed, a=a, b=b, c=c).resumed(epoch, position, progress)
        after = np.array(stream(sampler, 4))
        assert np.array_equal(after[:, :begin], before[:, :begin])
        drawn = sampler.drawn(epoch, position)
        counts = np.bincount(after[0, :begin], minlength=3)
        assert list(drawn.values()) == counts.tolist()
        rest = after[0, begin:]
        shares = np.arange(1, len(rest) + 1)[:, np.newaxis] * np.array([a, b, c]) / (a + b + c)
        had = np.cumsum(rest[:, np.newaxis] == np.arange(3), axis=0)
        assert np.abs(had - shares).max() < 4
        before = after
    for number in range(3):
        found = own(sampler, number, 4)
        assert found == reference[number][: len(found)]


def test_the_same_weights_go_on_as_if_nothing_had_been() -> None:
    sampler = mixed(a=1, b=2, c=3)
    resumed: Any = mixed(a=1, b=2, c=3).resumed(1, 20, sampler.progress(1, 20))
    assert np.array_equal(stream(resumed, 3), stream(sampler, 3))
    assert resumed.progress(2, 0) == sampler.progress(2, 0)


def nested(**weights: float) -> Sampler:
    rows = list(range(60))
    chosen = selection(rows, ["xy"[row % 2] for row in rows], [1.0 + row % 2 for row in rows])
    inner = Mixture({"p": Counted(30), "q": Counted(20)}, weights)
    speech = Weighted(Counted(60), chosen)
    split = Selected(Counted(90), np.arange(45))
    return sampler_of(Mixture({"speech": speech, "robots": inner, "split": split}), seed=3)


def test_mixtures_of_mixtures() -> None:
    sampler = nested(p=1, q=1)
    assert sampler.names == ("speech", "robots/p", "robots/q", "split")
    assert len(sampler.sources) == 4
    resumed = nested(p=3, q=1).resumed(0, 100, sampler.progress(0, 100))
    old, new = np.array(stream(sampler, 4)), np.array(stream(resumed, 4))
    assert np.array_equal(old[:, :100], new[:, :100])
    robots = new[0, 100:][(new[0, 100:] == 1) | (new[0, 100:] == 2)]
    assert abs((robots == 1).mean() - 0.75) < 3 / len(robots)
    # What is not among the robots is as it was.
    others = (old[0] == 0) | (old[0] == 3)
    assert np.array_equal(old[:, others], new[:, others])
    for source in range(4):
        first, second = own(sampler, source, 4), own(resumed, source, 4)
        shared = min(len(first), len(second))
        assert first[:shared] == second[:shared]
    assert np.array_equal(stream(pickle.loads(pickle.dumps(resumed)), 4), new)


def test_identity_with_and_without_weights() -> None:
    one, two = nested(p=1, q=1).identity(), nested(p=3, q=1).identity()
    assert one != two
    assert without_weights(one) == without_weights(two)
    assert len(json.dumps(one)) < 1500
    assert without_weights(mixed(seed=1).identity()) != without_weights(mixed().identity())


def test_the_realised_mix() -> None:
    sampler = Mixture({"two": Mixture(PARTS), "one": Counted(9)}, {"two": 1, "one": 3}).sampler()
    realised = Realised(sampler)
    realised.observe(sampler.picks(0, np.arange(100)))
    shares = realised.shares()
    assert list(shares) == ["two", "one"]
    assert shares["one"].asked == 0.75
    assert abs(shares["one"].num_examples - 75) <= 2


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to mix"):
        Mixture({})
    with pytest.raises(InputError, match="names no part"):
        Mixture(PARTS, {"x": 1})
    with pytest.raises(InputError, match="out of range"):
        Mixture(PARTS, {"a": float("nan")})
    with pytest.raises(InputError, match="No part has a weight"):
        Mixture(PARTS, {"a": 0})
    with pytest.raises(InputError, match="slash"):
        Mixture({"a/b": Counted(3)})
    with pytest.raises(InputError, match="length of an epoch"):
        Mixture(PARTS, examples_per_epoch=0)
    other = Mixture({"a": Counted(4)}).sampler()
    with pytest.raises(InputError, match="other parts"):
        mixed().resumed(0, 5, other.progress(0, 3))
    with pytest.raises(InputError, match="not the progress"):
        mixed().resumed(0, 5, {})
