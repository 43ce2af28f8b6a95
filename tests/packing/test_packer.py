"""Lengths into bins: the same as plain twins, each item once, whatever the way they are fed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.packing import METHODS, Bins, Packer, Segment, fit, pack_lengths
from datalake.packing.best_fit import best_fit
from datalake.packing.first_fit import first_fit
from tests.packing import twins
from tests.packing.laws import LAWS, lengths_of

Packing = dict[str, Any]

capacities = st.sampled_from([1, 7, 32, 63, 64, 65, 1000, 4096, 70_000])
windows = st.one_of(st.none(), st.integers(1, 30))


@st.composite
def problems(draw: st.DrawFn, longest: int = 1) -> tuple[list[int], int]:
    """Lengths up to `longest` capacities, small ones and ones that fill a bin among them."""
    capacity = draw(capacities)
    length = st.one_of(
        st.integers(1, capacity * longest),
        st.integers(1, max(1, capacity // 8)),
        st.sampled_from([1, max(1, capacity // 2), max(1, capacity // 2 + 1), capacity]),
    )
    return draw(st.lists(length, max_size=80)), capacity


@st.composite
def packings(draw: st.DrawFn) -> Packing:
    return {
        "method": draw(st.sampled_from(METHODS)),
        "window": draw(windows),
        "carry": draw(st.integers(0, 8)),
        "seed": draw(st.integers(0, 3)),
        "num_ranks": draw(st.integers(1, 5)),
    }


def assert_sound(bins: Bins, lengths: list[int]) -> None:
    """No bin over its capacity, and every part of every item exactly once."""
    assert (bins.fills <= bins.capacity).all()
    assert bins.total == sum(lengths)
    order = np.lexsort((bins.starts, bins.items))
    ends = np.zeros(len(lengths), np.int64)
    for item, start, length in zip(
        bins.items[order].tolist(), bins.starts[order].tolist(), bins.lengths[order].tolist(),
        strict=True,
    ):  # fmt: skip
        assert start == ends[item]
        ends[item] += length
    assert ends.tolist() == lengths


@given(problems())
def test_one_window_is_best_fit_decreasing(problem: tuple[list[int], int]) -> None:
    lengths, capacity = problem
    bins = pack_lengths(np.array(lengths, int), capacity, window=None)
    twin = twins.best_fit_decreasing(lengths, capacity)
    assert sorted(bins.fills) == sorted(twin)
    assert bins.utilisation == (sum(twin) / (len(twin) * capacity) if twin else 0)


@given(problems())
def test_first_fit_places_each_item_as_the_twin(problem: tuple[list[int], int]) -> None:
    lengths, capacity = problem
    placed, num_bins = first_fit(np.array(lengths, int), capacity)
    assert placed.tolist() == twins.first_fit(lengths, capacity)
    assert num_bins == len(set(placed.tolist()))


@settings(max_examples=200)
@given(problems(), packings())
def test_every_item_lies_in_one_bin(problem: tuple[list[int], int], packing: Packing) -> None:
    lengths, capacity = problem
    bins = pack_lengths(np.array(lengths, int), capacity, **packing)
    assert_sound(bins, lengths)
    assert bins.num_pieces == len(lengths)
    assert len(bins) % packing["num_ranks"] == 0
    # In a bin items keep their order.
    for segments in bins:
        assert [s.item for s in segments] == sorted(s.item for s in segments)


@given(problems(longest=3), packings(), st.lists(st.integers(0, 20)))
def test_how_lengths_are_fed_does_not_matter(
    problem: tuple[list[int], int], packing: Packing, cuts: list[int]
) -> None:
    lengths, capacity = problem
    whole = pack_lengths(np.array(lengths, int), capacity, **packing, overlong="split")
    assert_sound(whole, lengths)
    packer = Packer(capacity, **packing, overlong="split")
    for _ in range(2):  # Once finished it is as new.
        parts, rest = [], lengths
        for cut in cuts:
            parts.append(packer.feed(np.array(rest[:cut], int)))
            rest = rest[cut:]
        parts += [packer.feed(np.array(rest, int)), packer.finish()]
        fed = Bins.concatenate(parts)
        for name in ("items", "starts", "lengths", "offsets"):
            assert getattr(fed, name).tolist() == getattr(whole, name).tolist()


def test_a_packer_gives_out_bins_as_they_close_and_holds_no_more_than_windows() -> None:
    lengths, capacity = lengths_of("uniform", 5000)
    packer = Packer(capacity, window=500, carry=50)
    fed = given_out = 0
    for start in range(0, 5000, 100):
        fed += 100
        given_out += packer.feed(lengths[start : start + 100]).num_pieces
        assert fed - given_out < 500 + 500
    assert given_out + packer.finish().num_pieces == 5000


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("window", [None, 65_536, 4096])
def test_the_laws_are_packed_to_at_least_995_in_a_thousand(law: str, window: int | None) -> None:
    lengths, capacity = lengths_of(law, 20_000)
    bins = pack_lengths(lengths, capacity, window=window)
    assert_sound(bins, lengths.tolist())
    assert bins.utilisation >= 0.995


def test_first_fit_shuffle_depends_on_its_seed_and_packs_well() -> None:
    lengths, capacity = lengths_of("lognormal", 5000)
    one, again, other = (
        pack_lengths(lengths, capacity, method="first_fit_shuffle", seed=seed) for seed in (1, 1, 2)
    )
    assert one.items.tolist() == again.items.tolist() != other.items.tolist()
    assert one.utilisation > 0.99


def test_bins_of_a_window_come_in_no_order_of_length() -> None:
    lengths, capacity = lengths_of("lognormal", 20_000)
    bins = pack_lengths(lengths, capacity)
    longest = np.maximum.reduceat(bins.lengths, bins.offsets[:-1])
    assert abs(np.corrcoef(np.arange(len(bins)), longest)[0, 1]) < 0.1


def test_memory_does_not_grow_with_equal_lengths_that_are_carried() -> None:
    packer = Packer(1000, window=100, carry=10_000)
    given_out = sum(packer.feed([1] * 100).num_pieces for _ in range(50))
    assert given_out == 5000


# Ranks ------------------------------------------------------------------------------------------


def test_missing_bins_are_split_off_the_bins_with_most_pieces() -> None:
    bins = pack_lengths([6, 4, 1, 2, 3, 4, 10], 10, num_ranks=4)
    assert_sound(bins, [6, 4, 1, 2, 3, 4, 10])
    assert sorted(sorted(s.length for s in segments) for segments in bins) == [
        [1, 4], [2, 3], [4, 6], [10],
    ]  # fmt: skip
    assert bins.num_empty == 0


def test_where_nothing_can_be_split_empty_bins_follow() -> None:
    bins = pack_lengths([10, 10, 5, 5], 10, num_ranks=6)
    assert_sound(bins, [10, 10, 5, 5])
    assert (len(bins), bins.num_empty) == (6, 2)
    assert bins[-1] == bins[-2] == []


def test_no_item_makes_no_bin_on_any_number_of_ranks() -> None:
    bins = pack_lengths([], 10, num_ranks=8)
    assert (len(bins), bins.utilisation, list(bins)) == (0, 0.0, [])


# Overlong ---------------------------------------------------------------------------------------


def test_an_overlong_item_raises_and_is_named() -> None:
    packer = Packer(10)
    packer.feed([3])
    with pytest.raises(InputError, match=r"Item 2 is longer than a bin.*at most 10.*Found 11"):
        packer.feed([10, 11])
    # Nothing of that call was taken.
    assert packer.feed([4]).num_pieces == 0
    assert packer.finish()[0] == [Segment(0, 0, 3), Segment(1, 0, 4)]


def test_truncated_items_are_reported_with_what_they_lost() -> None:
    bins = pack_lengths([3, 25, 10, 11], 10, overlong="truncate")
    assert bins.total == 33
    assert bins.cut_items.tolist() == [1, 3]
    assert bins.cut_lengths.tolist() == [15, 1]


def test_split_items_are_pieces_that_follow_each_other() -> None:
    bins = pack_lengths([3, 25, 10, 11], 10, overlong="split")
    assert_sound(bins, [3, 25, 10, 11])
    pieces = sorted((s.item, s.start, s.length) for segments in bins for s in segments)
    assert pieces == [
        (0, 0, 3), (1, 0, 10), (1, 10, 10), (1, 20, 5), (2, 0, 10), (3, 0, 10), (3, 10, 1),
    ]  # fmt: skip


def test_items_may_have_limits_of_their_own() -> None:
    pieces = fit([7, 7], np.array([3, 7]), "split")
    assert pieces.items.tolist() == [0, 0, 0, 1]
    assert pieces.starts.tolist() == [0, 3, 6, 0]
    assert pieces.lengths.tolist() == [3, 3, 1, 7]


# Odd input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ([1, 0, 2], "Item 1"),
        ([-5], "Item 0"),
        ([1, 2**31], "Item 1"),
        ([1.5], "float"),
        ([[1, 2]], "shape"),
        (["a"], "<U1"),
        (7, "shape"),
    ],
)
def test_lengths_that_are_none_are_refused(lengths: Any, found: str) -> None:
    with pytest.raises(InputError, match=found):
        pack_lengths(lengths, 2**31 - 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"capacity": 0},
        {"capacity": 2**31},
        {"capacity": 1.5},
        {"window": 0},
        {"carry": -1},
        {"seed": -1},
        {"num_ranks": 0},
        {"method": "worst_fit"},
        {"overlong": "hide"},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        pack_lengths([1], **{"capacity": 10, **wrong})


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "uint64"])
def test_lengths_of_any_integer_type_will_do(dtype: str) -> None:
    bins = pack_lengths(np.array([200, 100, 250], dtype), 300)
    assert_sound(bins, [200, 100, 250])


def test_a_capacity_of_two_thousand_millions_costs_little() -> None:
    bins, num_bins = best_fit(np.array([2**30, 5]), np.array([3, 2]), 2**31 - 1)
    assert num_bins == 3
    assert len(bins) == 5
