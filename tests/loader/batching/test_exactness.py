"""Killed at any step and resumed by any other trainer, every example comes once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from datalake.loader.batching import Batching, ByCost, Fixed, Packed
from tests.loader.batching.fakes import UNIT, FakeSampler, as_sampler, sampler_of, samplers
from tests.loader.exactness import (
    Run,
    batchings,
    by_cost,
    every_example_once,
    fixed,
    packed,
    pure_stream,
    runs,
    tails,
    unhurried,
)


def drive(sampler: FakeSampler, runs: list[Run], *, epoch: int = 0, **checks: object) -> None:
    order = sampler.ids(epoch, np.arange(sampler.num_examples))
    stream = pure_stream(as_sampler(sampler), sampler.ids, epoch)
    every_example_once(stream, runs, order, **checks)  # type: ignore[arg-type]


@unhurried
@given(samplers, runs(fixed()))
def test_fixed(sampler: FakeSampler, runs: list[Run]) -> None:
    drive(sampler, runs, in_order=True)


@unhurried
@given(samplers, runs(by_cost(UNIT)))
def test_by_cost(sampler: FakeSampler, runs: list[Run]) -> None:
    drive(sampler, runs)


@unhurried
@given(samplers, runs(packed(UNIT)))
def test_packed(sampler: FakeSampler, runs: list[Run]) -> None:
    drive(sampler, runs)


@unhurried
@given(samplers, runs(batchings(UNIT)), st.integers(0, 3))
def test_any_batching_goes_on_where_any_other_stood(
    sampler: FakeSampler, runs: list[Run], epoch: int
) -> None:
    drive(sampler, runs, epoch=epoch)


@unhurried
@given(samplers, runs(batchings(UNIT, tails)))
def test_what_is_dropped_is_less_than_a_step(sampler: FakeSampler, runs: list[Run]) -> None:
    last = runs[-1]
    batch_size = last.batching.batch_size if isinstance(last.batching, Fixed) else 1
    dropped = last.world_size * batch_size - 1
    # A run before the last may have come to the epoch's end as well.
    drive(sampler, runs, most_dropped=dropped)


def test_many_changes_within_one_window_stay_small() -> None:
    """A window of 4,096, and another batching after every step or two."""
    rng = np.random.default_rng(5)
    sampler = sampler_of(rng.integers(1, 40, 6000).tolist())
    kinds: list[Batching] = [ByCost(60, UNIT), Packed(64, UNIT), Fixed(3), ByCost(90, UNIT)]
    runs = [Run(kinds[n % 4], 1 + n % 5, 0, 1 + n % 2) for n in range(40)]
    drive(sampler, [*runs, Run(Fixed(64))], most_state_bytes=1700)
