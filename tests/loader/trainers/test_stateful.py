"""torchdata's `StatefulDataLoader` around a loader: it keeps the state of each worker's copy."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa
import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

from datalake.errors import InputError
from datalake.loader import ByCost, Loader, Mixture, Rows
from datalake.tables import Table, create_table
from tests.loader.corpus import stream
from tests.loader.resuming import assert_same

pytestmark = pytest.mark.filterwarnings(
    "ignore:lance is not fork-safe", "ignore:This DataLoader will create"
)
FIXED = {"batch_size": 4, "world_size": 2}


def make(table: Table, **arguments: Any) -> Loader:
    return stream(table, columns=["utt_id"], num_samples=50, rank=0, **arguments)


@pytest.fixture(scope="module")
def texts() -> Table:
    tokens = [3 + number * 37 % 20 for number in range(60)]
    rows = pa.table({"tokens": tokens, "text": [f"text {number}" for number in range(60)]})
    return create_table("memory://trainers/texts", rows.schema, format="memory").append(rows)


def make_by_tokens(texts: Table) -> Loader:
    batching = ByCost(50, unit="tokens", window=20)
    return Loader(Rows(texts, columns=["text"]), batching=batching, rank=0, world_size=2)


def through(loader: Loader, num_workers: int) -> StatefulDataLoader:
    context = "fork" if num_workers else None
    return StatefulDataLoader(
        loader, batch_size=None, num_workers=num_workers, multiprocessing_context=context
    )


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("kind", ["count", "tokens"])
def test_any_step_resumes(table: Table, texts: Table, kind: str, num_workers: int) -> None:
    def fresh() -> Loader:
        return make(table, **FIXED) if kind == "count" else make_by_tokens(texts)

    expected = list(fresh())
    batches = through(fresh(), num_workers)
    states = [batches.state_dict()]
    for batch, wanted in zip(batches, expected, strict=True):
        assert_same([batch], [wanted])
        states.append(batches.state_dict())
    for step in (0, 1, len(expected) // 2, len(expected)):
        resumed = through(fresh(), num_workers)
        resumed.load_state_dict(states[step])
        assert_same(resumed, expected[step:])


def test_a_resumed_pass_is_saved_and_resumed_again(table: Table) -> None:
    expected = list(make(table, **FIXED))
    batches = through(make(table, **FIXED), 2)
    list(islice(batches, 3))
    again = through(make(table, **FIXED), 2)
    again.load_state_dict(batches.state_dict())
    assert_same(islice(again, 2), expected[3:5])
    third = through(make(table, **FIXED), 2)
    third.load_state_dict(again.state_dict())
    assert_same(third, expected[5:])


def refusal(batches: StatefulDataLoader) -> str:
    """What its workers refuse; torchdata rebuilds the error from its text."""
    try:
        list(batches)
    except InputError as error:
        # Torch's frame and the error hold each other; workers that are left to the garbage
        # collector take 5 seconds each.
        error.__traceback__ = None
        return str(error)
    pytest.fail("nothing was refused")


def state_after(loader: Loader, num_steps: int) -> dict[str, Any]:
    batches = through(loader, 2)
    list(islice(batches, num_steps))
    state: dict[str, Any] = batches.state_dict()
    return state


@pytest.mark.parametrize(
    ("num_workers", "changes"), [(3, {}), (1, {}), (2, {"batch_size": 3}), (2, {"world_size": 3})]
)
def test_states_of_workers_fit_the_same_workers_only(
    table: Table, num_workers: int, changes: dict[str, int]
) -> None:
    other = through(make(table, **{**FIXED, **changes}), num_workers)
    other.load_state_dict(state_after(make(table, **FIXED), 3))
    said = refusal(other)
    assert "as many workers" in said
    assert "state_after" in said


def test_mixtures_go_on_with_the_same_weights_only(texts: Table) -> None:
    def mixed(weight: float) -> Loader:
        parts = {name: Rows(texts, columns=["text"]) for name in "ab"}
        return Loader(Mixture(parts, weights={"a": 1, "b": weight}), batch_size=7)

    state = state_after(mixed(2), 5)
    resumed = through(mixed(2), 2)
    resumed.load_state_dict(state)
    assert_same(resumed, list(mixed(2))[5:])
    other = through(mixed(3), 2)
    other.load_state_dict(state)
    assert "the weights of a mixture" in refusal(other)


def test_a_workers_state_is_none_of_the_stream(table: Table) -> None:
    workers = state_after(make(table, **FIXED), 1)["_snapshot"]["_worker_snapshots"]
    with pytest.raises(InputError, match=r"one worker.*state_after"):
        make(table, **FIXED).load_state_dict(workers["worker_0"]["dataset_state"])
