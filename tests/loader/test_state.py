"""States: small, plain, and refused where they do not belong."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from datalake.errors import InputError
from datalake.loader.state import Cursor, Identity

IDENTITY = Identity(
    table="s3://bucket/lake/tables/corpus.lance",
    table_version=12,
    selection="0" * 64,
    num_examples=1_000_000,
    order="exact/1",
    seed=2**63,
)


def test_survives_json_and_is_small() -> None:
    text = json.dumps(IDENTITY.state(3, 4096))
    assert IDENTITY.place(json.loads(text)) == (3, 4096)
    assert len(text) < 400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("table", "/elsewhere"),
        ("table_version", 13),
        ("selection", None),
        ("num_examples", 5),
        ("order", "sequential/1"),
        ("seed", 0),
    ],
)
def test_another_stream_is_refused_by_what_differs(field: str, value: object) -> None:
    state = replace(IDENTITY, **{field: value}).state(0, 0)
    with pytest.raises(InputError) as caught:
        IDENTITY.place(state)
    assert f"{field} {value}" in caught.value.expected
    assert caught.value.found == f"{field} {getattr(IDENTITY, field)}"


@pytest.mark.parametrize(
    "change", [{"format": 2}, {"extra": 1}, {"epoch": -1}, {"position": 1_000_001}, {"epoch": "1"}]
)
def test_what_is_no_state_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        IDENTITY.place(IDENTITY.state(0, 0) | change)  # type: ignore[operator]
    with pytest.raises(InputError, match="format None"):
        IDENTITY.place({})


def follow(cursor: Cursor, positions: list[int]) -> list[tuple[int, int]]:
    batches = cursor.follow([{"position": position} for position in positions])
    return [(cursor.epoch, cursor.position) for _ in batches]


def test_a_pass_to_its_end_moves_on_to_the_next_epoch() -> None:
    cursor = Cursor()
    assert cursor.begin() == (0, 0)
    assert follow(cursor, [4, 8]) == [(0, 4), (0, 8)]
    assert (cursor.epoch, cursor.position) == (1, 0)
    assert cursor.begin() == (1, 0)


def test_a_pass_broken_off_begins_anew() -> None:
    cursor = Cursor()
    cursor.begin()
    next(cursor.follow([{"position": 4}, {"position": 8}]))
    assert (cursor.epoch, cursor.position) == (0, 4)
    assert cursor.begin() == (0, 0)


def test_a_loaded_place_holds_for_one_pass_and_through_its_own_epoch_number() -> None:
    cursor = Cursor()
    cursor.jump(2, 8)
    cursor.set_epoch(2)
    assert cursor.begin() == (2, 8)
    assert cursor.begin() == (2, 0)
    cursor.jump(2, 8)
    cursor.set_epoch(3)
    assert cursor.begin() == (3, 0)
