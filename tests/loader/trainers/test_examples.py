"""Every trainer's example: stopped in mid epoch and gone on with, each row comes once an epoch.

Two processes that import a trainer take half a minute of CPU, so most go from two ranks to one in
the slow tests only.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from datalake.loader import ByCost, Loader, Rows
from datalake.tables import create_table
from tests.loader.trainers.running import (
    ROOT,
    epochs,
    finish,
    free_address,
    here,
    ranks,
    seen,
    start,
)

ONE_OR_TWO = pytest.mark.parametrize("num_ranks", [1, pytest.param(2, marks=pytest.mark.slow)])

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def _fresh_accelerate() -> Iterator[None]:
    """Accelerate keeps what it found in the environment for the life of the process."""
    yield
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def test_torchrun(work: Path) -> None:
    name = "train_ddp.py"
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    finish([start(name, work, "--stop-after", "4", prefix=torchrun, env={})])
    first = seen(work, 2)
    assert len(first) == 64
    here(name, work, "--batch-size=5", env={"RANK": "0", "WORLD_SIZE": "1", **free_address()})
    assert sorted(first + seen(work, 1)) == epochs(2)


@pytest.mark.parametrize("name", ["train_dataloader.py", "train_stateful_dataloader.py"])
def test_dataloaders(work: Path, name: str) -> None:
    here(name, work, "--stop-after", "5")
    first = seen(work, 1)
    assert len(first) == 80
    here(name, work)
    assert sorted(first + seen(work, 1)) == epochs(2)


@ONE_OR_TWO
def test_lightning(work: Path, num_ranks: int) -> None:
    name, stop = "train_lightning.py", "--stop-after=6"
    if num_ranks == 1:
        here(name, work, stop)
    else:
        finish([start(name, work, "--devices=2", stop, env={})])
    first = seen(work, num_ranks)
    assert len(first) == 48 * num_ranks
    here(name, work)
    assert sorted(first + seen(work, 1)) == epochs(2)


@ONE_OR_TWO
@pytest.mark.usefixtures("_fresh_accelerate")
def test_hf_trainer(work: Path, num_ranks: int) -> None:
    begin("train_hf_trainer.py", num_ranks, work, "--max-steps=6")
    first = seen(work, num_ranks)
    assert len(first) == 48 * num_ranks
    # What is left of the first epoch in steps of 8 rows, and then 19 for a whole one.
    steps = 6 + -(-(150 - len(first)) // 8) + 19
    here("train_hf_trainer.py", work, f"--max-steps={steps}")
    assert sorted(first + seen(work, 1)) == epochs(2)


@ONE_OR_TWO
@pytest.mark.usefixtures("_fresh_accelerate")
def test_accelerate(work: Path, num_ranks: int) -> None:
    begin("train_accelerate.py", num_ranks, work, "--stop-after=6")
    first = seen(work, num_ranks)
    assert len(first) == 48 * num_ranks
    here("train_accelerate.py", work)
    assert sorted(first + seen(work, 1)) == epochs(2)


def begin(name: str, num_ranks: int, *arguments: str | Path) -> None:
    """Run on one rank in this process, or on two in their own."""
    if num_ranks == 1:
        here(name, *arguments)
    else:
        ranks(num_ranks, name, *arguments)


def test_moves_to_a_device_leave_what_is_no_tensor() -> None:
    from accelerate.utils import send_to_device
    from lightning.fabric.utilities import move_data_to_device

    rows = pa.table({"tokens": range(3, 43), "text": [f"text {number}" for number in range(40)]})
    table = create_table("memory://trainers/moved", rows.schema, format="memory").append(rows)
    source = Rows(table, columns=["text"])
    loader = Loader(source, batching=ByCost(90, unit="tokens", window=40))
    batch = next(iter(loader))
    assert batch["taken"]
    for moved in (move_data_to_device(batch, "meta"), send_to_device(batch, "meta")):
        assert loader.state_after(moved) == loader.state_after(batch)
        assert moved["text"] == batch["text"]
        assert moved["row_index"].device.type == "meta"


@pytest.mark.slow
def test_ray_train(work: Path) -> None:
    name = "train_ray.py"
    finish([start(name, work, "--stop-after=6", env={"RAY_TRAIN_V2_ENABLED": "1"})])
    first = seen(work, 2)
    assert len(first) == 96
    finish([start(name, work, "--workers=1", env={"RAY_TRAIN_V2_ENABLED": "1"})])
    assert sorted(first + seen(work, 1)) == epochs(1)


@pytest.mark.slow
def test_ranks_killed_again_and_again() -> None:
    script = ROOT / "scripts" / "elastic_ddp.py"
    finish([start(str(script), env={})])
