"""States: small, plain, and refused where they do not belong."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.batching import ByCost, Fixed, Packed, Place
from datalake.loader.state import Cursor, State, load, save
from tests.loader.batching.fakes import UNIT, FakeSampler, as_sampler, sampler_of, uniform
from tests.loader.exactness import unhurried

SAMPLER = uniform(100)

GOLDEN = (
    '{"format": 2, "epoch": 1, "position": 0, "taken": ['
    '{"by": "cost", "limit": 20, "unit": "frames", "max_examples": null, "padded": true, '
    '"overlong": "alone", "tail": "pad", "world_size": 2, "steps": 1, "stop": 80}, '
    '{"by": "packed", "capacity": 9, "unit": "frames", "num_sequences": 1, "overlong": "raise", '
    '"tail": "pad", "world_size": 1, "steps": 2, "stop": 80}, '
    '{"by": "fixed", "batch_size": 4, "world_size": 3, "steps": 1, "stop": 80}], '
    '"identity": {"sources": [{"uri": "s3://bucket/lake/tables/corpus.lance", "version": 3}], '
    '"order": "exact/1", "seed": 0}, "progress": {"weights": [1.0], "at": 80}}'
)


def nth(batching: Any, sampler: FakeSampler, place: Place, world_size: int, steps: int) -> Place:
    """Where so many steps of a batching lead."""
    shares = batching.shares(as_sampler(sampler), place, 0, world_size)
    for _ in range(steps):
        place = next(shares).after
    return place


def golden_place() -> Place:
    place = nth(ByCost(20, UNIT, window=80), SAMPLER, Place(1, 0), 2, 1)
    place = nth(Packed(9, UNIT), SAMPLER, place, 1, 2)
    return nth(Fixed(4), SAMPLER, place, 3, 1)


def state_of(**changes: object) -> State:
    state: State = json.loads(GOLDEN)
    return state | changes


def test_a_state_is_what_it_always_was() -> None:
    """A change of this text means a new number of the format."""
    assert json.dumps(save(as_sampler(SAMPLER), golden_place())) == GOLDEN
    place, sampler = load(as_sampler(SAMPLER), json.loads(GOLDEN))
    assert place == golden_place()
    assert sampler is as_sampler(SAMPLER)


def test_sizes() -> None:
    """300 bytes, and 200 for each batching that worked on the window."""
    plain = save(as_sampler(SAMPLER), Place(3, 64))
    assert len(json.dumps(plain)) < 300
    begun = nth(ByCost(480.0, UNIT), uniform(5000), Place(0, 0), 8, 1)
    assert len(json.dumps(save(as_sampler(uniform(5000)), begun))) < 450
    assert len(GOLDEN) < 800


def test_numbers_of_numpy_become_plain() -> None:
    class Numpy(FakeSampler):
        def identity(self) -> dict[str, Any]:
            return {"seed": np.int64(4), "sizes": (np.int64(1), 2)}

    sampler = as_sampler(Numpy(((1.0,),)))
    state = save(sampler, Place(0, 0))
    assert state["identity"] == {"seed": 4, "sizes": [1, 2]}
    assert load(sampler, json.loads(json.dumps(state)))[0] == Place(0, 0)


def test_another_stream_is_refused_by_all_that_differs() -> None:
    other = as_sampler(replace(SAMPLER, version=4, seed=7))
    with pytest.raises(InputError) as caught:
        load(other, state_of())
    assert caught.value.found == "sources.0.version: 3 (the state's) / 4; seed: 0 (the state's) / 7"
    more = as_sampler(sampler_of([1.0], [1.0]))
    with pytest.raises(InputError) as caught:
        load(more, save(as_sampler(uniform(1)), Place(0, 0)))
    assert "sources.1.version: absent (the state's) / 3" in caught.value.found
    with pytest.raises(InputError) as caught:
        load(as_sampler(uniform(1)), save(more, Place(0, 0)))
    assert "sources.1.version: 3 (the state's) / absent" in caught.value.found


def test_other_weights_go_on_beyond_what_is_dealt_out() -> None:
    """Positions of a window that is begun keep their examples; weights change behind it."""
    heavier = as_sampler(replace(SAMPLER, weights=(2.0,)))
    _, sampler = load(heavier, state_of())
    assert sampler == as_sampler(replace(SAMPLER, weights=(2.0,), went_on_at=80))


def test_states_of_earlier_versions_say_so() -> None:
    old = {"format": 1, "epoch": 0, "position": 0, "table": "/t", "table_version": 3}
    with pytest.raises(InputError, match=r"earlier version of the loader.*format 1"):
        load(as_sampler(SAMPLER), old)
    with pytest.raises(InputError, match="later version"):
        load(as_sampler(SAMPLER), state_of(format=3))


RECORD = json.loads(GOLDEN)["taken"][0]
LIST = {"by": "list", "left": "gA==", "stop": 8}
CHANGES: list[dict[str, Any]] = [
    {"by": "magic"},
    {"by": None},
    {"by": ["cost"]},
    {"extra": 1},
    {"limit": "20"},
    {"limit": float("nan")},
    {"limit": -1},
    {"unit": 7},
    {"max_examples": 0},
    {"padded": "yes"},
    {"tail": 3},
    {"overlong": {}},
    {"world_size": 0},
    {"world_size": 2**70},
    {"steps": 0},
    {"steps": 1.5},
    {"stop": 0},
    {"stop": 101},
    {"stop": None},
]
DEEP: Any = []
for _ in range(3000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "state",
    [
        None,
        7,
        "state",
        [],
        {},
        {"format": 2},
        state_of(extra=1),
        state_of(format="2"),
        state_of(format=True),
        state_of(format=2.5),
        state_of(format=-(10**6000)),
        state_of(epoch=-1),
        state_of(epoch="1"),
        state_of(epoch=True),
        state_of(epoch=1.0),
        state_of(epoch=10**6000),
        state_of(position=101),
        state_of(position=None),
        state_of(position=2**80),
        state_of(identity=None),
        state_of(identity=[]),
        state_of(identity={"seed": 10**6000}),
        state_of(identity=DEEP),
        state_of(progress=None),
        state_of(progress={}),
        state_of(progress={"weights": 5}),
        state_of(taken=None),
        state_of(taken={}),
        state_of(taken=[7]),
        state_of(taken=[RECORD] * 5),
        *(state_of(taken=[RECORD | change]) for change in CHANGES),
        state_of(taken=[{key: RECORD[key] for key in RECORD if key != "limit"}]),
        state_of(taken=[RECORD, RECORD | {"stop": 79}]),
        state_of(taken=[RECORD, LIST | {"stop": 80}]),
        *(
            state_of(taken=[LIST | change])
            for change in ({"left": 3}, {"left": "???"}, {"left": "gAAA"}, {"left": "é"})
        ),
    ],
)
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(InputError) as caught:
        load(as_sampler(SAMPLER), state)
    assert len(str(caught.value)) < 2000


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@unhurried
@given(st.sampled_from(sorted(json.loads(GOLDEN))), junk)
def test_junk_anywhere_is_refused_or_understood(key: str, value: Any) -> None:
    try:
        place, sampler = load(as_sampler(SAMPLER), state_of(**{key: value}))
        list(Fixed(8).shares(sampler, place, 0, 1))
    except InputError:
        pass


@unhurried
@given(st.integers(0, 2), st.sampled_from(sorted(RECORD)), junk | st.integers(1, 200))
def test_junk_in_records_is_refused_or_understood(index: int, key: str, value: Any) -> None:
    state = state_of()
    state["taken"][index][key] = value
    try:
        place, sampler = load(as_sampler(SAMPLER), state)
        list(Fixed(8).shares(sampler, place, 0, 1))
    except InputError:
        pass


def test_more_steps_than_the_window_has_are_refused() -> None:
    place, sampler = load(as_sampler(SAMPLER), state_of(taken=[RECORD | {"steps": 50}]))
    for batching in (Fixed(3), ByCost(20, UNIT), ByCost(10, UNIT)):
        with pytest.raises(InputError, match="at most 2 steps"):
            list(batching.shares(sampler, place, 0, 2))


# The cursor ---------------------------------------------------------------------------------------


def follow(cursor: Cursor, positions: list[int]) -> list[tuple[int, int]]:
    made: list[dict[str, Any]] = [{"position": position} for position in positions]
    batches = cursor.follow(made)
    return [(cursor.place.epoch, cursor.place.position) for _ in batches]


def test_a_pass_to_its_end_moves_on_to_the_next_epoch() -> None:
    cursor = Cursor()
    assert cursor.begin() == Place(0, 0)
    assert follow(cursor, [4, 8]) == [(0, 4), (0, 8)]
    assert cursor.place == Place(1, 0)
    assert cursor.begin() == Place(1, 0)


def test_a_pass_broken_off_begins_anew() -> None:
    cursor = Cursor(5)
    cursor.begin()
    made: list[dict[str, Any]] = [{"position": 4, "taken": [RECORD]}, {"position": 8}]
    next(cursor.follow(made))
    assert cursor.place == Place(5, 4, (RECORD,))
    assert cursor.begin() == Place(5, 0)


def test_a_loaded_place_holds_for_one_pass_and_through_its_own_epoch_number() -> None:
    cursor = Cursor()
    loaded = Place(2, 8, (RECORD,))
    cursor.jump(loaded)
    cursor.set_epoch(2)
    assert cursor.begin() == loaded
    assert cursor.begin() == Place(2, 0)
    cursor.jump(loaded)
    cursor.set_epoch(3)
    assert cursor.begin() == Place(3, 0)


def test_epochs_far_ahead_and_behind() -> None:
    cursor = Cursor(3)
    for epoch in (17, 2, 0, 2**40):
        cursor.set_epoch(epoch)
        assert cursor.place == Place(epoch, 0)
        assert cursor.begin() == Place(epoch, 0)
    cursor.jump(Place(1, 30))
    assert cursor.begin() == Place(1, 30)
    assert follow(cursor, []) == []
    assert cursor.place == Place(2, 0)
