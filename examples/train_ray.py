"""Ray Train, with a checkpoint that any number of workers goes on from.

    python examples/train_ray.py work --workers 2

Each worker makes its loader with its rank from Ray's context; there is no `prepare_data_loader` and
no Ray Data.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model


def train(config: dict[str, Any]) -> None:
    """What each worker does."""
    from speech import corpus, loss_of, new_model, record

    from datalake.loader import Loader

    context = ray.train.get_context()
    rank = context.get_world_rank()
    loader = Loader(
        corpus(Path(config["lake"])),
        batch_size=8,
        rank=rank,
        world_size=context.get_world_size(),
    )
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters())
    if config["checkpoint"]:
        with Checkpoint(config["checkpoint"]).as_directory() as folder:
            checkpoint = torch.load(Path(folder, "state.pt"))
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])
    parallel = prepare_model(model)

    step = 0
    while loader.epoch < config["epochs"]:
        for batch in loader:
            loss = loss_of(parallel, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record(Path(config["work"]), rank, batch)
            step += 1
            if step == config["stop_after"]:
                _report(rank, model, optimizer, loader)
                return
        _report(rank, model, optimizer, loader)


def _report(rank: int, model: Any, optimizer: Any, loader: Any) -> None:
    # All ranks report; the state is the same on all, so the first one's is kept.
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),
            }
            torch.save(state, Path(folder, "state.pt"))
        ray.train.report({}, checkpoint=Checkpoint(folder) if rank == 0 else None)


def main() -> None:
    """Train, and note where the last checkpoint lies."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="where checkpoints and records go")
    parser.add_argument("--lake", type=Path, help="of one's own, with a table `corpus`")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stop-after", type=int, help="steps; as if the job had been ended")
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    last = work / "last_checkpoint"
    config = {
        "work": str(work),
        "lake": str((given.lake or work / "lake").resolve()),
        "checkpoint": last.read_text() if last.exists() else None,
        "epochs": given.epochs,
        "stop_after": given.stop_after,
    }
    ray.init(runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}}, num_cpus=3)
    trainer = TorchTrainer(
        train,
        train_loop_config=config,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=given.workers),
        run_config=RunConfig(storage_path=str(work), name=f"run-{given.workers}"),
    )
    result = trainer.fit()
    last.write_text(result.checkpoint.path)


if __name__ == "__main__":
    main()
