"""DistributedDataParallel under torchrun, with a checkpoint that any number of ranks goes on from.

    torchrun --nproc-per-node 2 examples/train_ddp.py work
    torchrun --nproc-per-node 3 examples/train_ddp.py work     # goes on where that stopped

The loader takes its rank from torchrun and gives all ranks equally many steps, so there is no
DistributedSampler, no DataLoader and no join().
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from speech import corpus, loss_of, new_model, record
from torch.nn.parallel import DistributedDataParallel

from datalake.loader import Loader


def main() -> None:
    """Train, and save every few steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="where checkpoints and records go")
    parser.add_argument("--lake", type=Path, help="of one's own, with a table `corpus`")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--save-every", type=int, default=4)
    parser.add_argument("--stop-after", type=int, help="steps; as if the job had been ended")
    given = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()

    loader = Loader(corpus(given.lake or given.work / "lake"), batch_size=given.batch_size)
    model = DistributedDataParallel(new_model())
    optimizer = torch.optim.Adam(model.parameters())
    path = given.work / "checkpoint.pt"
    if path.exists():
        checkpoint = torch.load(path)
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])

    def save() -> None:
        # All ranks stand at the same place after the same step, so one rank's state is enough.
        if rank == 0:
            state = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),
            }
            torch.save(state, path.with_suffix(".new"))
            os.replace(path.with_suffix(".new"), path)

    step = 0
    while loader.epoch < given.epochs:
        for batch in loader:
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record(given.work, rank, batch)
            step += 1
            if step % given.save_every == 0:
                save()
            if step == given.stop_after:
                dist.destroy_process_group()
                return
        save()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
