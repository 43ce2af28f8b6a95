"""Batches by cost and packed: within their limits, as the twins cut them, and the same for ever."""

from __future__ import annotations

import pickle
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import InputError
from datalake.loader.batching import Batching, ByCost, Packed, Place, Share
from datalake.loader.batching.buckets import Buckets
from datalake.loader.batching.plan import plan, whole_steps
from datalake.loader.batching.sequences import Sequences
from tests.loader.batching import twins
from tests.loader.batching.fakes import (
    UNIT,
    FakeSampler,
    as_sampler,
    lengths,
    sampler_of,
    samplers,
)
from tests.loader.exactness import by_cost, packed, unhurried

costs = st.lists(lengths, max_size=60)
world_sizes = st.integers(1, 9)


def ranks(batching: Batching, sampler: FakeSampler, world_size: int) -> list[list[Share]]:
    """All shares, step by step."""
    shares = [
        batching.shares(as_sampler(sampler), Place(1, 0), rank, world_size)
        for rank in range(world_size)
    ]
    return [list(step) for step in zip(*shares, strict=True)]


def costs_at(sampler: FakeSampler, positions: Any) -> Any:
    picks = sampler.picks(1, positions)
    return np.array([sampler.lengths[s][r] for s, r in zip(picks.sources, picks.rows, strict=True)])


def cutter(batching: Any) -> Any:
    return batching._cutter()


def buckets_of(costs: Any, limit: float, most: int | None = None, *, padded: bool = True) -> Any:
    groups = Buckets(limit, UNIT, most, padded, "alone", "pad").groups(np.array(costs, np.float64))
    return [groups.order[begin:end].tolist() for begin, end in pairwise(groups.offsets)]


def twins_of(costs: Any, limit: float) -> Any:
    return twins.buckets(costs.tolist(), limit, None, padded=True)


@unhurried
@given(costs, st.floats(1, 150), st.none() | st.integers(1, 5), st.booleans())
def test_buckets_are_those_of_the_plain_twin(
    costs: list[float], limit: float, most: int | None, padded: bool
) -> None:
    found = buckets_of(costs, limit, most, padded=padded)
    assert found == twins.buckets(costs, limit, most, padded=padded)


def test_a_limit_that_is_no_binary_number_is_met_and_kept_to() -> None:
    """Quotients are rounded: 32.13 / 4.59 is less than 7, and 51.7 / 5.17 no less than 10."""
    for limit, cost in [(0.3, 0.1), (32.129999999999995, 4.59), (51.699999999999996, 5.17)]:
        size = round(limit / cost) + 5
        costs = np.full(size, cost)
        assert twins_of(costs, limit) == buckets_of(costs, limit)
    assert len(buckets_of(np.full(500, 1e-300), 1e18)) == 1


@unhurried
@given(costs, world_sizes, by_cost(UNIT) | packed(UNIT), st.integers(0, 2), st.integers(0, 99))
def test_plans_are_those_of_the_plain_twin(
    costs: list[float], world_size: int, batching: Any, epoch: int, first: int
) -> None:
    costs = costs[: len(costs) // world_size * world_size]
    array, own = np.array(costs, np.float64), cutter(batching)
    made = plan(
        own, np.arange(first, first + len(costs)), array, world_size, epoch=epoch, weigh=np.zeros
    )
    groups = own.groups(array)
    expected = twins.dealt(
        [part.tolist() for part in np.split(groups.order, groups.offsets[1:-1]) if len(part)],
        world_size,
        own.batch_groups,
        epoch,
        first,
    )
    found = [
        (
            (made.positions[begin:end] - first).tolist(),
            made.sequences[begin:end].tolist(),
        )
        for begin, end in pairwise(made.offsets)
    ]
    assert found == [
        (
            [example for group in batch for example in group],
            [number for number, group in enumerate(batch) for _ in group],
        )
        for batch in expected
    ]
    assert not made.is_pad.any()


@unhurried
@given(samplers, by_cost(UNIT), world_sizes)
def test_batches_keep_to_the_limit(sampler: FakeSampler, batching: ByCost, world_size: int) -> None:
    for step in ranks(batching, sampler, world_size):
        for share in step:
            cost = costs_at(sampler, share.positions)
            assert len(cost) <= (batching.max_examples or len(cost))
            assert (np.diff(cost) <= 0).all()
            if len(cost) > 1:
                total = cost[0] * len(cost) if batching.padded else cost.sum()
                assert total <= batching.limit * (1 + 1e-12)


@unhurried
@given(samplers, packed(UNIT), world_sizes)
def test_sequences_keep_to_the_capacity(
    sampler: FakeSampler, batching: Packed, world_size: int
) -> None:
    for step in ranks(batching, sampler, world_size):
        for share in step:
            assert share.sequences is not None
            numbers = share.sequences.tolist()
            assert sorted(set(numbers)) == list(range(numbers[-1] + 1))
            assert numbers == sorted(numbers)
            assert numbers[-1] < batching.num_sequences
            whole = np.minimum(np.ceil(costs_at(sampler, share.positions)), batching.capacity)
            assert share.extra["lengths"].tolist() == whole.tolist()
            assert share.extra["cu_seqlens"].dtype == np.int32
            assert share.extra["cu_seqlens"].tolist() == [0, *np.cumsum(whole).tolist()]
            assert share.extra["max_seqlen"] == whole.max()
            assert (np.bincount(share.sequences, whole) <= batching.capacity).all()
            fill = whole.sum() / (batching.capacity * batching.num_sequences)
            assert share.extra["fill"] == pytest.approx(fill)


def test_batches_have_all_their_sequences_but_at_the_epochs_end() -> None:
    sampler = sampler_of(np.random.default_rng(0).integers(1, 60, 700).tolist())
    made = ranks(Packed(64, UNIT, num_sequences=3, window=200), sampler, 4)
    for step in made[:-1]:
        assert {share.sequences.max() for share in step} == {2}
    fills = [share.extra["fill"] for step in made for share in step]
    assert np.mean(fills) > 0.9


@pytest.mark.parametrize("world_size", [1, 2, 3, 8, 16])
def test_a_window_ends_with_a_full_step(world_size: int) -> None:
    """No more than one batch in a hundred is cut in two for the sake of the ranks."""
    costs = np.random.default_rng(1).lognormal(5.5, 1, 4096).clip(1, 4096).round()
    for own in (
        Buckets(8192, UNIT, None, True, "alone", "pad"),
        Sequences(4096, UNIT, 2, "raise", "pad"),
    ):
        length = whole_steps(own, costs, world_size)
        num_groups, step = len(own.groups(costs[:length])), world_size * own.batch_groups
        assert len(own.groups(costs)) - step < num_groups + len(costs) / 100
        assert -num_groups % step <= len(costs) / 1000


@unhurried
@given(costs, by_cost(UNIT) | packed(UNIT), world_sizes)
def test_a_window_holds_enough_examples_for_its_steps(
    costs: list[float], batching: Any, world_size: int
) -> None:
    own, array = cutter(batching), np.array(costs, np.float64)
    length = whole_steps(own, array, world_size)
    assert 0 <= length <= len(costs)
    num_steps = -(-len(own.groups(array[:length])) // (world_size * own.batch_groups))
    assert num_steps * world_size <= length
    assert bool(length) == (len(own.groups(array)) >= world_size * own.batch_groups)


def test_a_window_smaller_than_a_step_grows() -> None:
    sampler = sampler_of([1.0] * 640)
    made = ranks(ByCost(16, UNIT, window=4), sampler, 8)
    assert [len(share.positions) for step in made for share in step] == [16] * 40


def test_lengths_do_not_come_sorted() -> None:
    sampler = sampler_of(range(1, 401))
    longest = [
        costs_at(sampler, share.positions)[0] for (share,) in ranks(ByCost(2000, UNIT), sampler, 1)
    ]
    assert len(longest) > 20
    correlation = np.corrcoef(np.arange(len(longest)), longest)[0, 1]
    assert abs(correlation) < 0.5


def test_the_last_step_of_an_epoch() -> None:
    """3 examples that fill a batch each, on 8 ranks."""
    sampler = sampler_of([50.0, 50.0, 50.0])
    for tail in ("pad", "short"):
        (step,) = ranks(ByCost(50, UNIT, tail=tail), sampler, 8)
        assert [len(share.positions) for share in step] == [1] * 8
        assert [bool(share.is_pad[0]) for share in step] == [False] * 3 + [True] * 5
        assert [int(share.positions[0]) for share in step[3:]] == [0, 1, 2, 0, 1]
        assert {share.after for share in step} == {Place(1, 3)}
        (step,) = ranks(Packed(50, UNIT, tail=tail), sampler, 8)
        assert [share.extra["cu_seqlens"].tolist() for share in step] == [[0, 50]] * 8
    assert ranks(ByCost(50, UNIT, tail="drop"), sampler, 8) == []
    # What 2 ranks drop, a rank that goes on alone gets.
    (step,) = ranks(ByCost(50, UNIT, tail="drop"), sampler, 2)
    after = step[0].after
    assert after.position == 0
    shares = list(ByCost(50, UNIT).shares(as_sampler(sampler), after, 0, 1))
    assert [share.positions.tolist() for share in shares] == [[2]]
    same = ByCost(50, UNIT, tail="drop")
    assert list(same.shares(as_sampler(sampler), after, 0, 2)) == []


def test_a_window_that_others_left_is_filled_up_to_the_ranks() -> None:
    """Of 16 examples that fill a batch each 4 ranks took 8; 3 ranks go on with those and one."""
    sampler = as_sampler(sampler_of([50.0] * 40))
    batching = ByCost(50, UNIT, window=16, tail="drop")
    place = list(islice(batching.shares(sampler, Place(0, 0), 0, 4), 2))[-1].after
    steps = zip(*(batching.shares(sampler, place, rank, 3) for rank in range(3)), strict=True)
    made = [[int(share.positions[0]) for share in step] for step in steps]
    left = [position for step in made[:3] for position in step]
    assert sorted(left)[-1] == 16
    # 32 were left, of which 2 make no step.
    assert len(made) == 10


@unhurried
@given(samplers, by_cost(UNIT) | packed(UNIT), st.integers(1, 4), st.integers(0, 6))
def test_workers_asked_in_turn_make_the_steps_in_order(
    sampler: FakeSampler, batching: Any, num_workers: int, begin: int
) -> None:
    whole = list(batching.shares(as_sampler(sampler), Place(0, 0), 0, 2))
    if not begin < len(whole):
        return
    place = whole[begin].after
    for worker in range(num_workers):
        part = batching.shares(
            as_sampler(sampler), place, 0, 2, worker=worker, num_workers=num_workers
        )
        expected = islice(whole, begin + 1 + worker, None, num_workers)
        for left, right in zip(part, expected, strict=True):
            assert left.positions.tolist() == right.positions.tolist()
            assert left.after == right.after


def test_overlong_examples() -> None:
    sampler = as_sampler(sampler_of([10.0, 90.0, 10.0]))
    with pytest.raises(InputError, match=r"row-1 of source 0, position \d of epoch 0.*at most 40"):
        list(ByCost(40, UNIT, overlong="raise").shares(sampler, Place(0, 0), 0, 1))
    alone = ByCost(40, UNIT).shares(sampler, Place(0, 0), 0, 1)
    assert sorted(len(share.positions) for share in alone) == [1, 2]
    with pytest.raises(InputError, match="row-1"):
        list(Packed(40, UNIT).shares(sampler, Place(0, 0), 0, 1))
    cut = list(Packed(40, UNIT, overlong="truncate").shares(sampler, Place(0, 0), 0, 1))
    assert sorted(share.extra["fill"] for share in cut) == [0.5, 1.0]


@pytest.mark.parametrize("cost", [float("nan"), -1.0, float("inf")])
def test_unknown_costs_are_refused_by_name(cost: float) -> None:
    sampler = as_sampler(sampler_of([3.0, 3.0], [cost]))
    for batching in (ByCost(40, UNIT), Packed(40, UNIT)):
        with pytest.raises(InputError, match="row-0 of source 1"):
            list(batching.shares(sampler, Place(0, 0), 0, 1))
    with pytest.raises(InputError, match="unit"):
        list(ByCost(40, "tokens").shares(sampler, Place(0, 0), 0, 1))


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (ByCost, {"limit": 0}),
        (ByCost, {"limit": float("nan")}),
        (ByCost, {"limit": "8"}),
        (ByCost, {"limit": 10**400}),
        (ByCost, {"limit": 8, "unit": ""}),
        (ByCost, {"limit": 8, "max_examples": 0}),
        (ByCost, {"limit": 8, "window": 0}),
        (ByCost, {"limit": 8, "window": 2**40}),
        (ByCost, {"limit": 8, "tail": "wrap"}),
        (ByCost, {"limit": 8, "padded": 1}),
        (ByCost, {"limit": 8, "overlong": "truncate"}),
        (Packed, {"capacity": 0}),
        (Packed, {"capacity": 2.5}),
        (Packed, {"capacity": 2**31}),
        (Packed, {"capacity": 8, "num_sequences": 0}),
        (Packed, {"capacity": 8, "overlong": "split"}),
    ],
)
def test_impossible_fields_are_refused(make: Any, arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        make(**arguments)


def test_survive_pickling() -> None:
    for batching in (ByCost(40, UNIT), Packed(40, UNIT)):
        assert pickle.loads(pickle.dumps(batching)) == batching


def golden_sampler() -> FakeSampler:
    """Lengths and order without a random generator, whose numbers may change."""

    class Straight(FakeSampler):
        def picks(self, epoch: int, positions: Any) -> Any:
            picks = super().picks(epoch, positions)
            return type(picks)(picks.sources, np.asarray(positions), picks.visits, picks.weights)

    return Straight((tuple(float((17 * n) % 23 + 1) for n in range(60)),))


def test_what_a_batch_holds_never_changes() -> None:
    """A state of one version must mean the same in the next: change the numbers of `batches/1`
    and the records' `by` where these change."""
    sampler = as_sampler(golden_sampler())
    found = {
        type(batching).__name__: [
            share.positions.tolist()
            for share in islice(batching.shares(sampler, Place(2, 0), 1, 2), 3)
        ]
        for batching in (ByCost(100, UNIT, window=40), Packed(50, UNIT, window=40))
    }
    assert found == GOLDEN


GOLDEN = {
    "ByCost": [[4, 27, 8, 31], [32, 13, 36, 17, 21, 2], [12, 35, 16, 20]],
    "Packed": [[8, 26, 31], [5, 13, 24], [7, 15, 19, 22, 23, 30, 34, 37, 38]],
}
