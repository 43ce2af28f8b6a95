"""Every trainer's example: stopped in mid epoch and gone on with, each row comes once an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loader.trainers.running import epochs, finish, free_address, here, ranks, seen, start

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


def test_lightning(work: Path) -> None:
    finish([start("train_lightning.py", work, "--devices=2", "--stop-after=6", env={})])
    first = seen(work, 2)
    assert len(first) == 96
    here("train_lightning.py", work)
    assert sorted(first + seen(work, 1)) == epochs(2)


@pytest.mark.usefixtures("_fresh_accelerate")
def test_hf_trainer(work: Path) -> None:
    ranks(2, "train_hf_trainer.py", work, "--max-steps=6")
    first = seen(work, 2)
    assert len(first) == 96
    # 54 rows are left of the first epoch, 7 steps, and then 19 for a whole one.
    here("train_hf_trainer.py", work, f"--max-steps={6 + 7 + 19}")
    assert sorted(first + seen(work, 1)) == epochs(2)


@pytest.mark.usefixtures("_fresh_accelerate")
def test_accelerate(work: Path) -> None:
    ranks(2, "train_accelerate.py", work, "--stop-after=6")
    first = seen(work, 2)
    assert len(first) == 96
    here("train_accelerate.py", work)
    assert sorted(first + seen(work, 1)) == epochs(2)


def test_ray_train(work: Path) -> None:
    name = "train_ray.py"
    finish([start(name, work, "--stop-after=6", env={"RAY_TRAIN_V2_ENABLED": "1"})])
    first = seen(work, 2)
    assert len(first) == 96
    finish([start(name, work, "--workers=1", env={"RAY_TRAIN_V2_ENABLED": "1"})])
    assert sorted(first + seen(work, 1)) == epochs(1)


@pytest.mark.slow
def test_ranks_killed_again_and_again() -> None:
    script = Path(__file__).resolve().parents[3] / "scripts" / "elastic_ddp.py"
    finish([start(str(script), env={})])
