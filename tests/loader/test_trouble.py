"""Rows that make no example, with real tables: others stand in, the same ones for everybody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.blocks.origin import RefusedError
from datalake.errors import InputError, StoreError
from datalake.loader import ByCost, Fixed, Loader, Mixture, Packed, Rows, Utterances
from datalake.loader.batching import Batching, Place
from datalake.loader.stream import Batch
from datalake.tables import Table, create_table
from tests.loader import corpus, timed
from tests.loader.exactness import Run, Step, every_example_once

NUM_ROWS = 53
DOMAINS = [f"made/{row % 4}" for row in range(NUM_ROWS)]
# All of domain 2 but rows 50 and 46, half of domain 1, and two others.
BROKEN = (*range(2, 46, 4), *range(1, NUM_ROWS, 8), 3, 8)


def made(name: str, **what: Any) -> Table:
    table = create_table(f"memory://trouble/{name}", timed.SCHEMA, format="memory")
    return table.append(timed.rows(what.pop("count", NUM_ROWS), **what))


@pytest.fixture(scope="module")
def table() -> Table:
    return made("broken", broken=BROKEN)


def loader_of(table: Table, **changes: Any) -> Loader:
    source = Utterances(table, num_samples=16)
    arguments: dict[str, Any] = {
        "batch_size": NUM_ROWS,
        "on_bad": "substitute",
        "num_threads": 0,
    } | changes
    return Loader(source, **arguments)


@pytest.fixture(scope="module")
def order(table: Table) -> list[int]:
    """The random number of the example at each position of epoch 0, whatever stands in for it."""
    (whole,) = loader_of(table)
    return list(whole["seed"].tolist())


def by_position(order: list[int], batches: Iterable[Batch]) -> dict[int, tuple[Any, ...]]:
    """What came at each position."""
    position_of = {seed: position for position, seed in enumerate(order)}
    found: dict[int, tuple[Any, ...]] = {}
    for batch in batches:
        for index, seed in enumerate(batch["seed"].tolist()):
            came = (
                batch["row_index"][index].item(),
                batch["is_substitute"][index].item(),
                tuple(batch["audio"][index].tolist()),
            )
            assert found.setdefault(position_of[seed], came) == came
    return found


@pytest.fixture(scope="module")
def expected(table: Table, order: list[int]) -> dict[int, tuple[Any, ...]]:
    return by_position(order, loader_of(table))


def test_a_stand_in_is_well_marked_named_and_of_the_domain(table: Table) -> None:
    loader = loader_of(table)
    (batch,) = loader
    originals = loader._sampler.picks(0, np.arange(NUM_ROWS)).rows.tolist()
    rows = batch["row_index"].tolist()
    for index, (original, row) in enumerate(zip(originals, rows, strict=True)):
        assert batch["is_substitute"][index] == (original in BROKEN)
        assert row not in BROKEN
        assert DOMAINS[row] == DOMAINS[original]
        audio = batch["audio"][index].numpy()
        begin = round(float(audio[0]) * 32768)
        assert np.array_equal(audio, corpus.clip(row)[begin : begin + 16])
    stats = loader.stats()
    told = {one.row: one for one in stats.substituted}
    assert sorted(told) == sorted(BROKEN)
    assert stats.counts["substituted"] == len(BROKEN) == len(stats.substituted)
    for original, row in zip(originals, rows, strict=True):
        if original in BROKEN:
            one = told[original]
            assert (one.substitute, one.same_domain, one.source) == (row, True, "data")
            assert f"row {original}, made/{original:04d}" in one.where
    # What is made again is not told again.
    loader.set_epoch(1)
    loader.set_epoch(0)
    list(loader)
    assert loader.stats().counts["substituted"] == len(BROKEN)


@settings(deadline=None, max_examples=20)
@given(
    st.integers(1, 9), st.integers(1, 12), st.integers(1, 4), st.sampled_from([0, 2]),
    st.sampled_from(["pad", "short"]),
)  # fmt: skip
def test_everybody_sees_the_same(
    table: Table,
    order: list[int],
    expected: dict[int, tuple[Any, ...]],
    world_size: int,
    batch_size: int,
    num_workers: int,
    num_threads: int,
    tail: str,
) -> None:
    batches: list[Batch] = []
    for rank in range(world_size):
        loader = loader_of(
            table, batch_size=batch_size, rank=rank, world_size=world_size, tail=tail,
            num_threads=num_threads,
        )  # fmt: skip
        for worker in range(num_workers):
            batches += loader.batches(Place(0, 0), worker=worker, num_workers=num_workers)
    # Repeats of bad examples are stood in for by the same rows: `by_position` sees to it.
    assert by_position(order, batches) == expected


def test_a_resumed_run_sees_the_same(
    table: Table, order: list[int], expected: dict[int, tuple[Any, ...]]
) -> None:
    first = loader_of(table, batch_size=7)
    passing = iter(first)
    batches = [next(passing) for _ in range(3)]
    later = loader_of(table, batch_size=5)
    later.load_state_dict(json.loads(json.dumps(first.state_dict())))
    batches += later
    assert by_position(order, batches) == expected


@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore:This DataLoader")
def test_worker_processes_see_the_same(
    table: Table, order: list[int], expected: dict[int, tuple[Any, ...]]
) -> None:
    loader = loader_of(table, batch_size=9)
    batches = loader.dataloader(num_workers=2, multiprocessing_context="fork")
    assert by_position(order, batches) == expected


@pytest.mark.parametrize(
    "batching",
    [Fixed(4), ByCost(0.05, "seconds", window=16), Packed(600, "samples", num_sequences=2)],
)
@pytest.mark.parametrize("world_size", [1, 3])
def test_every_position_comes_once(
    table: Table, order: list[int], batching: Batching, world_size: int
) -> None:
    """Broken rows have no known duration either: each fills a batch or a sequence by itself."""
    source = Utterances(table, num_samples=None, layout="flat")
    stats = []

    def make(run: Run, rank: int, state: Any) -> Any:
        loader = Loader(
            source, batching=run.batching, rank=rank, world_size=run.world_size, num_threads=0,
            on_bad="substitute",
        )  # fmt: skip
        if state is not None:
            loader.load_state_dict(state)
        for batch in loader:
            rows = batch["row_index"].tolist()
            assert not set(rows) & set(BROKEN)
            if isinstance(run.batching, Packed):
                assert batch["cu_seqlens"].tolist() == [0, *batch["num_samples"].cumsum(0).tolist()]
                fills = torch.bincount(batch["sequence"], batch["num_samples"].double())
                assert (fills <= run.batching.capacity).all()
            yield Step(batch["seed"].tolist(), batch["is_pad"].tolist(), loader.state_dict())
        stats.append(loader.stats())

    runs = [Run(batching, world_size, steps=2), Run(batching, world_size, steps=1), Run(batching)]
    every_example_once(make, runs, order)
    if not isinstance(batching, Fixed):
        with pytest.raises(InputError, match="cost of an example"):
            list(Loader(source, batching=batching, num_threads=0))


def test_a_cost_that_is_not_known_is_no_trouble_if_the_row_is_well() -> None:
    table = made("unknown", count=20, unknown=(4, 11))
    source = Utterances(table, num_samples=None, pad="zeros")
    batching = ByCost(0.05, "seconds")
    loader = Loader(source, batching=batching, on_bad="substitute", num_threads=0)
    batches = list(loader)
    assert sorted(row for b in batches for row in b["row_index"].tolist()) == list(range(20))
    assert [b["row_index"].tolist() for b in batches if 4 in b["row_index"]] == [[4]]
    assert not any(batch["is_substitute"].any() for batch in batches)
    alone = ByCost(0.05, "seconds", unknown="alone")
    again = list(Loader(source, batching=alone, num_threads=0))
    assert [b["row_index"].tolist() for b in again] == [b["row_index"].tolist() for b in batches]


def test_a_column_of_costs_with_nulls() -> None:
    schema = pa.schema([("tokens", pa.int64())])
    numbers = create_table("memory://trouble/tokens", schema, format="memory")
    numbers = numbers.append(pa.table({"tokens": [3, None, 5, 4]}, schema=schema))
    source = Rows(numbers, fill={"tokens": 0})
    assert np.isnan(source.costs(np.arange(4), "tokens")).tolist() == [False, True, False, False]
    batches = list(Loader(source, batching=ByCost(12, "tokens"), on_bad="substitute"))
    assert sorted(batch["tokens"].tolist() for batch in batches) == [[0], [3], [5, 4]]


class LosesCosts(Rows):
    """The costs of some rows lie in a file that is gone."""

    lost: tuple[int, ...] = (3, 4, 5, 17)
    refuses = False

    def costs(self, rows: np.ndarray, unit: str) -> np.ndarray:
        if self.refuses and len(rows):
            raise RefusedError("The store kept refusing")
        if np.isin(rows, self.lost).any():
            raise StoreError("Rows cannot be read")
        return super().costs(rows, unit)


def test_rows_whose_costs_are_lost() -> None:
    schema = pa.schema([("n", pa.int32())])
    numbers = create_table("memory://trouble/lost", schema, format="memory")
    numbers = numbers.append(pa.table({"n": range(20)}, schema=schema))
    source, batching = LosesCosts(numbers), ByCost(4, "examples")
    batches = list(Loader(source, batching=batching, on_bad="substitute", num_threads=0))
    rows = [batch["row_index"].tolist() for batch in batches]
    assert sorted(row for some in rows for row in some) == list(range(20))
    assert sorted(map(len, rows)) == [1] * 4 + [4] * 4
    assert {row for (row, *others) in rows if not others} == set(source.lost)
    with pytest.raises(StoreError, match="cannot be read"):
        list(Loader(source, batching=batching, num_threads=0))
    source.refuses = True
    with pytest.raises(RefusedError):
        list(Loader(source, batching=batching, on_bad="substitute", num_threads=0))


def test_a_domain_that_is_all_bad_is_stood_in_for_by_others() -> None:
    table = made("domain", broken=tuple(range(0, NUM_ROWS, 4)))
    loader = loader_of(table)
    (batch,) = loader
    assert batch["is_substitute"].sum() == 14
    assert not (batch["row_index"] % 4 == 0).any()
    assert {one.same_domain for one in loader.stats().substituted} == {False}


def test_a_rare_domain_has_its_own_stand_in() -> None:
    domains = ["common"] * 1200
    domains[7] = domains[1100] = "rare"
    table = made("rare", count=1200, broken=(7,), domains=domains)
    loader = loader_of(table, batch_size=100)
    rows = [row for batch in loader for row in batch["row_index"].tolist()]
    assert rows.count(1100) == 2
    assert [one.same_domain for one in loader.stats().substituted] == [True]


def test_a_table_that_is_all_bad_ends_in_an_error() -> None:
    for count in (1, 3, 40):
        table = made(f"all{count}", count=count, broken=tuple(range(count)))
        with pytest.raises(InputError, match="no other can stand in") as caught:
            list(loader_of(table, batch_size=4))
        assert table.uri in caught.value.where
        assert "no audio" in caught.value.found or "header" in caught.value.found


def test_nothing_is_replaced_by_default(table: Table) -> None:
    loader = loader_of(table, on_bad="raise")
    with pytest.raises(InputError, match="A row makes no example"):
        list(loader)


@pytest.mark.parametrize("same_kind", [True, False])
def test_in_a_mixture_the_part_stands_in_for_itself(table: Table, same_kind: bool) -> None:
    whole = made(f"whole{same_kind}", count=20)
    lengths = (16, 16) if same_kind else (16, 8)
    parts: dict[str, Any] = {
        name: Utterances(one, num_samples=length)
        for name, one, length in zip(("bad", "good"), (table, whole), lengths, strict=True)
    }
    loader = Loader(Mixture(parts), batch_size=10, on_bad="substitute", num_threads=0)
    for batch in loader:
        assert batch["is_substitute"].shape == batch["source"].shape == batch["is_pad"].shape
        if same_kind:
            bad = batch["source"] == 0
            rows = batch["row_index"][bad].tolist()
        else:
            assert "is_substitute" not in batch["bad"]
            rows = batch["bad"]["row_index"].tolist() if "bad" in batch else []
        assert not set(rows) & set(BROKEN)
        assert not batch["is_substitute"][batch["source"] == 1].any()
    told = loader.stats().substituted
    assert sorted(one.row for one in told) == sorted(BROKEN)
    assert {one.source for one in told} == {"bad"}


# The transform ------------------------------------------------------------------------------------


def added(batch: dict[str, Any]) -> dict[str, Any]:
    assert all(not torch.is_tensor(value) for value in batch.values())
    assert isinstance(batch["audio"], np.ndarray)
    loud = np.abs(batch.pop("audio")).max(1)
    return {**batch, "loud": loud, "parts": [loud[:1], loud[1:]], "name": "x"}


@pytest.mark.parametrize("num_threads", [0, 2])
def test_a_transform_adds_and_removes(table: Table, num_threads: int) -> None:
    plain = list(loader_of(table, batch_size=8))
    found = list(loader_of(table, batch_size=8, transform=added, num_threads=num_threads))
    for one, other in zip(found, plain, strict=True):
        assert "audio" not in one
        assert torch.equal(one["loud"], other["audio"].abs().amax(1))
        assert torch.equal(torch.cat(one["parts"]), one["loud"])
        assert (one["name"], one["position"]) == ("x", other["position"])


def failing(batch: dict[str, Any]) -> dict[str, Any]:
    if 20 in batch["row_index"]:
        raise ZeroDivisionError("of the transform")
    return batch


@pytest.mark.parametrize("num_threads", [0, 2])
@pytest.mark.parametrize(
    ("transform", "kind", "text"),
    [
        (failing, ZeroDivisionError, "of the transform"),
        (lambda batch: None, InputError, "transform gave no batch"),
    ],
)
def test_what_a_transform_raises_comes_in_its_turn(
    table: Table, num_threads: int, transform: Callable[..., Any], kind: type, text: str
) -> None:
    plain = list(loader_of(table, batch_size=8))
    turn = next((n for n, b in enumerate(plain) if 20 in b["row_index"]), 0)
    turn = turn if kind is ZeroDivisionError else 0
    loader = loader_of(table, batch_size=8, transform=transform, num_threads=num_threads)
    passing = iter(loader)
    for _ in range(turn):
        next(passing)
    with pytest.raises(kind, match=text):
        next(passing)
