"""A plain torch DataLoader, with or without worker processes.

    python examples/train_dataloader.py work --workers 2

`batch_size=None`: the loader makes whole batches. The workers have copies of it, so tell it the
epoch before each pass, and take the state from a batch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from speech import corpus, loss_of, new_model, record
from torch.utils.data import DataLoader

from datalake.loader import Loader


def main() -> None:
    """Train, and save at each step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="where checkpoints and records go")
    parser.add_argument("--lake", type=Path, help="of one's own, with a table `corpus`")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--stop-after", type=int, help="steps; as if the job had been ended")
    given = parser.parse_args()

    loader = Loader(corpus(given.lake or given.work / "lake"), batch_size=16)
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters())
    path = given.work / "checkpoint.pt"
    if path.exists():
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["loader"])

    batches = DataLoader(
        loader,
        batch_size=None,
        num_workers=given.workers,
        multiprocessing_context="spawn" if given.workers else None,
    )
    step = 0
    for epoch in range(loader.epoch, given.epochs):
        loader.set_epoch(epoch)
        for batch in batches:
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            record(given.work, 0, batch)
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_after(batch),
            }
            torch.save(state, path)
            step += 1
            if step == given.stop_after:
                return


if __name__ == "__main__":
    main()
