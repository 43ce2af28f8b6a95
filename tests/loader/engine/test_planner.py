"""What is read before a batch is begun: ahead of the trainer, and named where it stalls."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake.blocks.reader import TableReader
from datalake.errors import InputError, StalledError
from datalake.loader import ByCost, Fixed, Loader, Packed, Rows, Utterances
from datalake.loader.batching import Place
from datalake.loader.engine.ahead import Limits
from datalake.loader.engine.planner import Planner
from datalake.tables import create_table
from datalake.telemetry import Meter
from tests.loader import timed

COUNT = 40
NUMBERS = count()


class Stalling(Rows):
    """The costs of rows come when they are let go, from the first that is held on."""

    def __init__(self) -> None:
        schema = pa.schema([("tokens", pa.int64())])
        table = create_table(f"memory://planner/tokens{next(NUMBERS)}", schema, format="memory")
        super().__init__(table.append(pa.table({"tokens": range(1, COUNT + 1)}, schema=schema)))
        # Of all views of it.
        self.released, self.asked, self.threads = threading.Event(), list[int](), set[str]()
        self.held_from = 0

    @property
    def calls(self) -> int:
        return len(self.asked)

    def costs(self, rows: np.ndarray, unit: str) -> np.ndarray:
        if len(rows):
            self.asked.append(len(rows))
            self.threads.add(threading.current_thread().name)
            with self._meter_of_test.during("store", "rows of tokens"):
                assert self.calls <= self.held_from or self.released.wait(20)
        return super().costs(rows, unit)

    def attach(self, meter: Meter) -> None:
        self._meter_of_test = meter
        super().attach(meter)


@pytest.fixture
def stalling() -> Iterator[Stalling]:
    source = Stalling()
    yield source
    source.released.set()


def loader_of(data: Any, **arguments: Any) -> Loader:
    loader = Loader(data, **{"num_threads": 2, "timeout_s": 0.3, **arguments})
    loader._limits = replace(loader._limits, warn_after_s=0.1)
    return loader


@pytest.mark.parametrize("batching", [ByCost(60, "tokens", window=16), Packed(64, "tokens")])
def test_costs_that_stall_are_warned_of_and_raised(
    stalling: Stalling, batching: Any, caplog: pytest.LogCaptureFixture
) -> None:
    loader = loader_of(stalling, batching=batching)
    with caplog.at_level(logging.WARNING, "datalake.loader"), pytest.raises(StalledError) as caught:
        next(iter(loader))
    assert "within 0.3 s" in caught.value.expected
    assert "datalake-plan-0: store rows of tokens" in caught.value.found
    assert "Waiting for a batch" in caplog.text
    assert "datalake-plan-0: store rows of tokens" in caplog.text


def test_a_window_is_planned_while_the_one_before_is_in_use(stalling: Stalling) -> None:
    """All steps of the first window come although the second's costs do not."""
    stalling.held_from = 1
    loader = loader_of(stalling, batching=ByCost(60, "tokens", window=16))
    begin = (loader._sampler, Place(0, 0), 0, 1)
    planner = Planner(Limits(1, 0, 0, 20.0), loader._meter)
    passing = planner.planned(loader._batching.shares(*begin))
    came = [next(passing)]
    deadline = time.monotonic() + 10
    while stalling.calls < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert stalling.calls == 2
    while came[-1].after.taken:
        came.append(next(passing))
    stalling.released.set()
    came += passing
    planner.close()
    expected = list(loader._batching.shares(*begin))
    for one, other in zip(came, expected, strict=True):
        assert one.positions.tolist() == other.positions.tolist()
        assert one.after == other.after


def test_the_trainers_thread_reads_no_costs(stalling: Stalling) -> None:
    stalling.released.set()
    loader = loader_of(stalling, batching=ByCost(60, "tokens", window=16), timeout_s=20.0)
    rows = [row for batch in loader for row in batch["row_index"].tolist()]
    assert sorted(rows) == list(range(COUNT))
    assert stalling.threads == {"datalake-plan-0"}


def test_a_window_that_others_began_is_watched_too(stalling: Stalling) -> None:
    stalling.released.set()
    first = loader_of(stalling, batching=ByCost(60, "tokens", window=16))
    next(iter(first))
    state = first.state_dict()
    assert state["taken"]
    stalling.released.clear()
    later = loader_of(stalling, batching=Fixed(4))
    later.load_state_dict(state)
    with pytest.raises(StalledError, match="datalake-plan"):
        next(iter(later))
    # A pass that was broken off: is its epoch over?
    with pytest.raises(StalledError, match="datalake-plan"):
        next(iter(first))


def test_what_is_missing_of_kept_clips_is_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create_table(tmp_path / "speech.lance", SCHEMA).append(ROWS)
    source = Utterances(table, num_samples=50, cache=tmp_path / "cache", keep="decoded")
    released, numbers, threads = threading.Event(), TableReader.numbers, set()

    def stalls(self: TableReader, column: str, rows: Any, **more: Any) -> Any:
        threads.add(threading.current_thread().name)
        assert released.wait(20)
        return numbers(self, column, rows, **more)

    monkeypatch.setattr(TableReader, "numbers", stalls)
    with pytest.raises(StalledError, match="No batch came") as caught:
        next(iter(loader_of(source, batch_size=8)))
    assert "datalake-look-0: cache which clips" in caught.value.found
    released.set()
    rows = [row for b in loader_of(source, timeout_s=20.0) for row in b["row_index"].tolist()]
    assert sorted(set(rows)) == list(range(COUNT))
    assert threading.current_thread().name not in threads


SCHEMA = timed.SCHEMA.append(pa.field("sample_rate_hz", pa.int32()))
ROWS = timed.rows(COUNT).append_column("sample_rate_hz", pa.array([16000] * COUNT, pa.int32()))


def test_exceptions_come_in_their_turn_and_the_rest_is_let_be() -> None:
    made = []

    def steps() -> Iterator[int]:
        for number in range(1000):
            if number == 70:
                raise InputError("the seventieth")
            made.append(number)
            yield number

    planner = Planner(Limits(1, 0, 0, 20.0), Meter())
    planned = planner.planned(steps())
    assert [next(planned) for _ in range(70)] == list(range(70))
    with pytest.raises(InputError, match="seventieth"):
        next(planned)
    planner.close()

    endless = Planner(Limits(1, 0, 0, 20.0), Meter())
    passing = endless.planned(iter(range(10**9)))
    assert next(passing) == 0
    endless.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("datalake-plan")]


def test_whether_anything_is_left() -> None:
    planner = Planner(Limits(1, 0, 0, 20.0), Meter())
    assert planner.is_empty(iter(()))
    assert not planner.is_empty(iter("ab"))
    planner.close()
