"""What a trainer may do to a pass: end it by its length, look at it first, count epochs itself."""

from __future__ import annotations

from itertools import islice

import pytest

from datalake.loader import Loader
from datalake.tables import Table
from tests.loader.corpus import stream
from tests.loader.resuming import assert_same


def make(table: Table) -> Loader:
    return stream(table, batch_size=10, num_samples=50)


@pytest.mark.parametrize("num_workers", [None, 0])
def test_a_pass_whose_last_batch_came_is_over(table: Table, num_workers: int | None) -> None:
    expected = make(table)
    first, second = list(expected), list(expected)
    loader = make(table)
    batches = loader if num_workers is None else loader.dataloader(num_workers=num_workers)
    assert_same(islice(batches, len(loader)), first)
    assert loader.state_dict() == loader.state_after(first[-1])
    assert_same(islice(batches, len(loader)), second)


@pytest.mark.parametrize("num_workers", [None, 0])
def test_iterators_that_nobody_asks_are_no_passes(table: Table, num_workers: int | None) -> None:
    first = list(make(table))
    loader = make(table)
    batches = loader if num_workers is None else loader.dataloader(num_workers=num_workers)
    loader.load_state_dict(loader.state_after(first[1]))
    iter(batches), iter(batches)
    assert loader.state_dict() == loader.state_after(first[1])
    assert_same(batches, first[2:])


def test_passes_say_nothing_that_a_trainer_could_count_by(table: Table) -> None:
    passes = make(table).passes()
    for name in ("__len__", "set_epoch", "state_dict", "load_state_dict", "epoch"):
        assert not hasattr(passes, name)


def test_passes_are_never_empty(table: Table) -> None:
    expected = make(table)
    first, second = list(expected), list(expected)
    for step, rest in [(2, first[3:]), (len(first) - 1, second)]:
        loader = make(table)
        loader.load_state_dict(loader.state_after(first[step]))
        assert_same(loader.passes(), rest)
