"""The same stream through worker processes."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from datalake.errors import InputError
from datalake.loader import Loader
from datalake.loader.batching import Place
from datalake.loader.stream import Batch
from datalake.loader.workers import _PLACE_BYTES, _Pass
from datalake.tables import Table, create_table
from tests.loader import corpus
from tests.loader.corpus import stream as stream_of
from tests.loader.resuming import assert_same

# Lance warns at every fork of a process that imported it. What is read here in forks is in memory.
pytestmark = pytest.mark.filterwarnings(
    "ignore:lance is not fork-safe", "ignore:This DataLoader will create"
)


def make(table: Table, **changes: int) -> Loader:
    arguments = {"batch_size": 6, "num_samples": 50, "rank": 0, "world_size": 2} | changes
    return stream_of(table, columns=["utt_id"], **arguments)


@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_a_plain_dataloader_gives_the_same(table: Table, num_workers: int) -> None:
    expected = list(make(table))
    context = "fork" if num_workers else None
    loader = make(table)
    batches = DataLoader(
        loader, batch_size=None, num_workers=num_workers, multiprocessing_context=context
    )
    assert len(batches) == len(expected)
    found = list(batches)
    assert_same(found, expected)
    resumed = make(table)
    resumed.load_state_dict(loader.state_after(found[1]))
    batches = DataLoader(
        resumed, batch_size=None, num_workers=num_workers, multiprocessing_context=context
    )
    assert_same(batches, expected[2:])


def test_a_plain_dataloader_spawns(stored: Table) -> None:
    spawned = DataLoader(
        make(stored), batch_size=None, num_workers=2, multiprocessing_context="spawn"
    )
    assert_same(spawned, make(stored))


def test_persistent_workers_of_a_plain_dataloader_are_refused(table: Table) -> None:
    batches = DataLoader(
        make(table), batch_size=None, num_workers=1, persistent_workers=True,
        multiprocessing_context="fork",
    )  # fmt: skip
    list(batches)
    assert "would repeat the epoch" in refusal(batches)


def refusal(batches: DataLoader[Batch]) -> str:
    """What a worker of a plain DataLoader refuses."""
    try:
        list(batches)
    except InputError as error:
        # Torch's frame and the error hold each other; workers that are left to the garbage
        # collector take 5 seconds each.
        error.__traceback__ = None
        return str(error)
    pytest.fail("nothing was refused")


def passes(table: Table, num_workers: int, context: str) -> None:
    """Epochs, a state in the middle, a pass broken off: all as without workers."""
    plain = make(table)
    first, second = list(plain), list(plain)
    loader = make(table)
    stream = loader.dataloader(num_workers=num_workers, multiprocessing_context=context)
    assert len(stream) == len(plain)
    states = []
    found = []
    for batch in stream:
        found.append(batch)
        states.append(json.loads(json.dumps(stream.state_dict())))
    assert_same(found, first)
    assert states == [plain.state_after(batch) for batch in first]
    assert stream.epoch == loader.epoch == 1
    assert_same(islice(stream, 2), second[:2])
    assert stream.state_dict() == plain.state_after(second[1])
    assert_same(stream, second)
    for state, rest in [(states[0], first[1:]), (states[-1], [])]:
        stream.load_state_dict(state)
        assert_same(stream, rest)
    stream.set_epoch(0)
    assert_same(stream, first)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_passes_through_forked_workers(table: Table, num_workers: int) -> None:
    passes(table, num_workers, "fork")


def test_passes_through_spawned_workers(stored: Table) -> None:
    passes(stored, 2, "spawn")


def test_other_ranks_and_workers_read_exactly_the_rest(table: Table) -> None:
    (whole,) = stream_of(table, batch_size=53, num_samples=50)
    seen = []
    first = make(table, batch_size=4, world_size=1)
    stream = first.dataloader(num_workers=2, multiprocessing_context="fork")
    for batch in islice(stream, 5):
        seen += batch["row_index"].tolist()
    ranks = [make(table, batch_size=3, rank=rank, world_size=3) for rank in range(3)]
    for loader in ranks:
        loader.load_state_dict(stream.state_dict())
    for step in zip(*(list(loader) for loader in ranks), strict=True):
        for batch in step:
            seen += batch["row_index"][~batch["is_pad"]].tolist()
    assert seen == whole["row_index"].tolist()


def test_a_worker_names_what_it_cannot_decode() -> None:
    table = create_table("memory://workers/broken", corpus.SCHEMA)
    table = table.append(corpus.rows(8, broken=5))
    loader = stream_of(table, batch_size=2, num_samples=8, order="sequential")
    stream = iter(loader.dataloader(num_workers=2, multiprocessing_context="fork"))
    assert [next(stream)["position"], next(stream)["position"]] == [2, 4]
    with pytest.raises(InputError) as caught:
        next(stream)
    assert caught.value.what == "A row makes no example"
    assert caught.value.where.endswith("row 5, made/0005")


def test_a_fork_reads_lance_that_was_prepared(stored: Table) -> None:
    expected = list(make(stored))
    stream = make(stored).dataloader(num_workers=2, multiprocessing_context="fork")
    assert_same(stream, expected)


def test_an_unprepared_fork_of_lance_says_what_to_do(tmp_path: Path) -> None:
    unread = create_table(tmp_path / "corpus.lance", corpus.SCHEMA).append(corpus.rows(20))
    batches = DataLoader(
        make(unread), batch_size=None, num_workers=1, multiprocessing_context="fork"
    )
    assert "spawn" in refusal(batches)


def test_what_a_fork_cannot_look_up_is_no_bad_row(tmp_path: Path) -> None:
    table = create_table(tmp_path / "corpus.lance", corpus.SCHEMA)
    for first in (0, 20, 40):  # The first fragment alone is looked up before the fork.
        table = table.append(corpus.rows(60).slice(first, 20))
    loader = stream_of(table, columns=[], batch_size=6, num_samples=50)
    next(iter(loader))
    batches = DataLoader(loader, batch_size=None, num_workers=1, multiprocessing_context="fork")
    said = refusal(batches)
    assert "A forked process cannot read" in said
    assert "spawn" in said
    assert "A row makes no example" not in said


def test_a_fork_reads_delta(tmp_path: Path) -> None:
    delta = create_table(tmp_path / "corpus.delta", corpus.SCHEMA, format="delta")
    delta = delta.append(corpus.rows(20))
    expected = list(make(delta))
    stream = make(delta).dataloader(num_workers=2, multiprocessing_context="fork")
    assert_same(stream, expected)


def test_a_table_in_memory_is_seen_by_forks_only(table: Table) -> None:
    loader = make(table)
    with pytest.raises(InputError, match="lives in this process"):
        loader.dataloader(num_workers=1)
    stream = loader.dataloader(num_workers=1, multiprocessing_context="fork")
    assert_same(stream, make(table))


def test_where_a_pass_begins_is_never_read_half_written(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is slow to start may look while the place of the next pass is being written."""
    told = _Pass(make(table))
    before, after = Place(1, 7, (1, 2, 3)), Place(22, 123_456, ())
    told.begin_at(before)
    seen = []
    copied = torch.frombuffer

    def look(*arguments: Any, **named: Any) -> torch.Tensor:
        seen.append(told.begin())
        return copied(*arguments, **named)

    monkeypatch.setattr(torch, "frombuffer", look)
    told.begin_at(after)
    assert seen == [before]
    assert told.begin() == after


def test_a_place_of_any_length_that_fits(table: Table) -> None:
    told = _Pass(make(table))
    # `[1, 2, [` and `]]`, and `0, ` for each but the last.
    most = (_PLACE_BYTES - 1 - len("[1, 2, [0]]")) // 3 + 1
    place = Place(1, 2, (0,) * most)
    told.begin_at(place)
    assert told.begin() == place
    told.begin_at(Place(3, 4, ()))
    assert told.begin() == Place(3, 4, ())
    with pytest.raises(InputError, match="too long"):
        told.begin_at(Place(1, 2, (0,) * (most + 1)))
