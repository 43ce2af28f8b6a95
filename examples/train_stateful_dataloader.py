"""torchdata's StatefulDataLoader: its own `state_dict` is enough.

    python examples/train_stateful_dataloader.py work --workers 2

With workers, its state holds one of each worker and goes on in as many workers, with the same
batches and ranks; for others save `loader.state_after(batch)`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from speech import corpus, loss_of, new_model, record
from torchdata.stateful_dataloader import StatefulDataLoader

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
    batches = StatefulDataLoader(
        loader,
        batch_size=None,
        num_workers=given.workers,
        multiprocessing_context="spawn" if given.workers else None,
    )
    model = new_model()
    optimizer = torch.optim.Adam(model.parameters())
    path = given.work / "checkpoint.pt"
    first = 0
    if path.exists():
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        batches.load_state_dict(checkpoint["batches"])
        first = checkpoint["epoch"]

    step = 0
    for epoch in range(first, given.epochs):
        # The workers have copies of the loader; a state that was loaded stays as it is.
        if epoch > first:
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
                "batches": batches.state_dict(),
                "epoch": epoch,
            }
            torch.save(state, path)
            step += 1
            if step == given.stop_after:
                return


if __name__ == "__main__":
    main()
