"""Hugging Face Accelerate: it prepares the model and the optimizer, and not the loader.

    accelerate launch --cpu --num_processes 2 examples/train_accelerate.py work

`prepare` would share the loader's batches out once more. Registered for checkpointing, the loader
is saved and loaded with the rest.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from speech import corpus, loss_of, new_model, record

from datalake.loader import Loader


def main() -> None:
    """Train, and save every few steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="where checkpoints and records go")
    parser.add_argument("--lake", type=Path, help="of one's own, with a table `corpus`")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--stop-after", type=int, help="steps; as if the job had been ended")
    given = parser.parse_args()
    accelerator = Accelerator(cpu=True)

    loader = Loader(
        corpus(given.lake or given.work / "lake"),
        batch_size=8,
        rank=accelerator.process_index,
        world_size=accelerator.num_processes,
    )
    model = new_model()
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters()))
    accelerator.register_for_checkpointing(loader)
    path = given.work / "checkpoint"
    if path.exists():
        accelerator.load_state(str(path))

    step = 0
    while loader.epoch < given.epochs:
        for batch in loader:
            # On a GPU, rather Loader(…, device=accelerator.device).
            batch = send_to_device(batch, accelerator.device)
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            record(given.work, accelerator.process_index, batch)
            step += 1
            if step % 3 == 0:
                accelerator.save_state(str(path))
            if step == given.stop_after:
                accelerator.end_training()
                return
    accelerator.save_state(str(path))
    accelerator.end_training()


if __name__ == "__main__":
    main()
