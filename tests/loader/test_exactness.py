"""Real loaders, killed anywhere and resumed by any others: each example once, and always the same.

Ranks and workers are simulated in one process, but for a few runs with real worker processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.lake import open_lake
from datalake.loader import ByCost, EpisodeWindows, Fixed, Loader, Mixture, Packed, Rows, Utterances
from datalake.loader.batching import Batching, Place
from datalake.loader.order.choice import OrderName
from datalake.loader.sampling.spec import Data
from datalake.loader.state import State
from datalake.loader.stream import Batch
from datalake.tables import create_table
from tests.loader import timed
from tests.loader.exactness import (
    MakeStream,
    Run,
    Step,
    by_cost,
    every_example_once,
    fixed,
    packed,
    runs,
    tails,
)
from tests.robots import write_robots

EPOCH: Final = 2
UNITS: Final = {"speech": "samples", "stored": "samples", "rows": "tokens", "windows": "frames"}
OF_BATCH: Final = {"epoch", "position", "taken", "is_pad"}
OF_SEQUENCES: Final = {"sequence", "lengths", "cu_seqlens", "max_seqlen", "fill"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Data]:
    """Small ones of every kind, by name."""
    path: Path = tmp_path_factory.mktemp("exact")
    made = timed.rows(41)
    memory = create_table("memory://exact/speech", timed.SCHEMA, format="memory").append(made)
    lance = create_table(path / "speech.lance", timed.SCHEMA).append(made[:20]).append(made[20:])
    schema = pa.schema([("tokens", pa.int64()), ("text", pa.string())])
    numbers = create_table("memory://exact/rows", schema, format="memory").append(
        pa.table({"tokens": [7 * n % 90 for n in range(37)], "text": list(map(str, range(37)))},
                 schema=schema)
    )  # fmt: skip
    lake = open_lake(path / "lake")
    write_robots(lake, video=False, image=False)
    return {
        "speech": Utterances(memory, num_samples=60),
        "stored": Utterances(lance, num_samples=60, layout="flat", columns=["utt_id"]),
        "rows": Rows(numbers),
        "windows": EpisodeWindows.from_lake(lake, "g1", {"action": [0, 0.1]}),
    }


def examples(batch: Batch) -> dict[int, dict[str, Any]]:
    """What a batch holds for each example, by the example's own random number."""
    flat = batch["audio"].ndim == 1 if "audio" in batch else False
    columns = {
        name: values.split(batch["num_samples"].tolist()) if flat and name == "audio" else values
        for name, values in batch.items()
        if name not in OF_BATCH | OF_SEQUENCES
    }
    seeds = batch["seed"].tolist()
    return {
        seed: {
            name: values[index].tolist() if torch.is_tensor(values[index]) else values[index]
            for name, values in columns.items()
        }
        for index, seed in enumerate(seeds)
    }


class Real:
    """Streams of real loaders over the same data, which must hold what one whole batch held."""

    def __init__(self, data: Data, order: OrderName, seed: int) -> None:
        self.arguments: dict[str, Any] = {"order": order, "seed": seed, "epoch": EPOCH}
        self.data = data
        loader = Loader(data, num_threads=0, **self.arguments)
        (whole,) = Loader(data, batch_size=loader.num_examples, num_threads=0, **self.arguments)
        self.order = whole["seed"].tolist()
        self.expected = examples(whole)

    def stream(self, **more: Any) -> MakeStream:
        def make(run: Run, rank: int, state: State | None) -> Iterator[Step]:
            arguments = {"num_threads": 0, **self.arguments, **more}
            loader = Loader(
                self.data, batching=run.batching, rank=rank, world_size=run.world_size, **arguments
            )
            if state is not None:
                loader.load_state_dict(json.loads(json.dumps(state)))
            for batch in self.batches(loader, run.num_workers):
                for seed, example in examples(batch).items():
                    assert example == self.expected[seed]
                yield Step(
                    batch["seed"].tolist(), batch["is_pad"].tolist(), loader.state_after(batch)
                )

        return make

    def batches(self, loader: Loader, num_workers: int) -> Iterator[Batch]:
        if not num_workers:
            yield from loader
            return
        place = loader._cursor.begin()
        workers = [
            loader.batches(place, worker=worker, num_workers=num_workers)
            for worker in range(num_workers)
        ]
        turn = 0
        while (batch := next(workers[turn % num_workers], None)) is not None:
            turn += 1
            yield batch


names = st.sampled_from(sorted(UNITS))
orders: st.SearchStrategy[OrderName] = st.sampled_from(["exact", "blocks", "sequential"])


def searched(few: int, many: int) -> pytest.MarkDecorator:
    """So many runs are tried; in the slow tests many more."""
    slow = pytest.param(many, marks=[pytest.mark.slow, pytest.mark.timeout(1500)], id="many")
    return pytest.mark.parametrize("max_examples", [pytest.param(few, id="few"), slow])


@searched(12, 400)
def test_each_example_once_and_always_the_same(sources: dict[str, Data], max_examples: int) -> None:
    @settings(deadline=None, max_examples=max_examples)
    @given(st.data(), names, orders, st.integers(0, 3))
    def holds(data: st.DataObject, name: str, order: OrderName, seed: int) -> None:
        unit = UNITS[name]
        batchings = st.one_of(fixed(), by_cost(unit), packed(unit))
        if name == "stored":
            # Sequences cut what is too long for them: here nothing is.
            roomy = st.builds(Packed, st.integers(60, 300), st.just(unit), st.integers(1, 3))
            batchings = st.one_of(fixed(), by_cost(unit), roomy)
        made = data.draw(runs(batchings, max_runs=4))
        real = Real(sources[name], order, seed)
        every_example_once(real.stream(), made, real.order)

    holds()


@searched(5, 200)
def test_counted_batches_come_in_the_order(sources: dict[str, Data], max_examples: int) -> None:
    @settings(deadline=None, max_examples=max_examples)
    @given(names, orders, runs(fixed(tails), max_runs=3))
    def holds(name: str, order: OrderName, made: list[Run]) -> None:
        real = Real(sources[name], order, 0)
        last = made[-1]
        assert isinstance(last.batching, Fixed)
        sizes = [run.world_size * run.batching.batch_size for run in made]  # type: ignore[attr-defined]
        most = max(sizes) - 1
        every_example_once(real.stream(), made, real.order, in_order=True, most_dropped=most)

    holds()


@searched(5, 200)
def test_a_mixture_too(sources: dict[str, Data], max_examples: int) -> None:
    rows = sources["rows"]
    mixture = Mixture({"one": rows, "two": Rows(rows.table)})  # type: ignore[union-attr]

    @settings(deadline=None, max_examples=max_examples)
    @given(st.data(), orders)
    def holds(data: st.DataObject, order: OrderName) -> None:
        real = Real(mixture, order, 1)
        made = data.draw(runs(st.one_of(fixed(), by_cost("tokens"), packed("tokens")), max_runs=4))
        every_example_once(real.stream(), made, real.order)

    holds()


@pytest.mark.parametrize("num_threads", [1, 3])
def test_threads_change_nothing(sources: dict[str, Data], num_threads: int) -> None:
    real = Real(sources["stored"], "exact", 0)
    made = [Run(ByCost(200, "samples", window=16), 3, steps=2), Run(Fixed(4), 2)]
    every_example_once(real.stream(num_threads=num_threads), made, real.order, resumes_alike=False)


class Processes(Real):
    """With worker processes."""

    def __init__(self, data: Data, context: str) -> None:
        super().__init__(data, "exact", 0)
        self.context = context

    def batches(self, loader: Loader, num_workers: int) -> Iterator[Batch]:
        yield from loader.dataloader(num_workers=num_workers, multiprocessing_context=self.context)


@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore:This DataLoader")
@pytest.mark.parametrize(
    ("context", "workers"), [("fork", [0, 3, 1]), ("fork", [4, 2]), ("spawn", [1])]
)
def test_worker_processes(sources: dict[str, Data], context: str, workers: list[int]) -> None:
    real = Processes(sources["stored"], context)
    batchings: list[Batching] = [
        Fixed(4),
        Packed(200, "samples", window=16),
        ByCost(240, "samples", window=16),
    ]
    killed = [
        Run(batchings[n % 3], 1 + n % 2, num_workers, steps=2)
        for n, num_workers in enumerate(workers[:-1])
    ]
    made = [*killed, Run(Fixed(5), 1, workers[-1])]
    every_example_once(real.stream(), made, real.order, resumes_alike=False)


# Epochs ahead and behind --------------------------------------------------------------------------


def seeds(batches: Any) -> list[int]:
    return [seed for batch in batches for seed in batch["seed"].tolist()]


@pytest.mark.parametrize("order", ["exact", "blocks", "sequential"])
def test_epochs_ahead_and_behind(sources: dict[str, Data], order: OrderName) -> None:
    def fresh(epoch: int = 0) -> Loader:
        return Loader(sources["rows"], batch_size=5, num_threads=0, order=order, epoch=epoch)

    loader = fresh()
    epochs, states = [], []
    for _ in range(4):
        batches = list(loader)
        epochs.append(seeds(batches))
        states.append(loader.state_after(batches[2]))
    assert len({tuple(epoch) for epoch in epochs}) == 4
    for epoch in (3, 0, 2, 0, 1):
        loader.set_epoch(epoch)
        assert seeds(loader) == epochs[epoch] == seeds(fresh(epoch))
        # In the midst of another epoch, and before any.
        next(iter(loader))
        for other in (loader, fresh(2)):
            other.load_state_dict(states[epoch])
            assert seeds(other) == epochs[epoch][15:]
            assert other.epoch == epoch + 1
    far = fresh(10**6)
    rest = seeds(far)
    far.load_state_dict(fresh(10**6).state_dict())
    assert seeds(far) == rest
    assert seeds(fresh().batches(Place(3, 15))) == epochs[3][15:]
    assert np.unique(rest).size == 40 - 3
