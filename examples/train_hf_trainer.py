"""The Trainer of Hugging Face transformers, alone or under torchrun.

    torchrun --nproc-per-node 2 examples/train_hf_trainer.py work

The Trainer gets `loader.passes()`: it finds no length and no epoch to count by, so `max_steps` says
when to stop. `ignore_data_skip`: the loader begins where it stood, nothing is to be skipped.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
from speech import corpus, loss_of, new_model, record
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from datalake.loader import Loader
from datalake.loader.stream import Passes


class SpeechTrainer(Trainer):
    """Trains on a loader of its own rank."""

    def __init__(self, loader: Loader, work: Path, **arguments: Any) -> None:
        super().__init__(callbacks=[SaveLoader(loader)], **arguments)
        self.loader, self.work = loader, work

    def get_train_dataloader(self) -> Passes:
        """In place of a DataLoader over `train_dataset`."""
        return self.loader.passes()

    def compute_loss(self, model: Any, inputs: Any, **_: Any) -> torch.Tensor:
        """The loss of a batch."""
        record(self.work, self.args.process_index, inputs)
        return loss_of(model, inputs)


class SaveLoader(TrainerCallback):
    """Saves the loader's state into each checkpoint."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        """The batches that were fetched are trained on by now."""
        if state.is_world_process_zero:
            folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
            (folder / "loader.json.new").write_text(json.dumps(self.loader.state_dict()))
            os.replace(folder / "loader.json.new", folder / "loader.json")


def main() -> None:
    """Train, and save every few steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="where checkpoints and records go")
    parser.add_argument("--lake", type=Path, help="of one's own, with a table `corpus`")
    parser.add_argument("--max-steps", type=int, default=40, help="of the whole training")
    given = parser.parse_args()
    arguments = TrainingArguments(
        output_dir=str(given.work / "checkpoints"),
        max_steps=given.max_steps,
        save_steps=3,
        ignore_data_skip=True,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    loader = Loader(
        corpus(given.lake or given.work / "lake"),
        batch_size=8,
        rank=arguments.process_index,
        world_size=arguments.world_size,
    )
    trainer = SpeechTrainer(loader, given.work, model=new_model(), args=arguments)
    Path(arguments.output_dir).mkdir(parents=True, exist_ok=True)
    last = get_last_checkpoint(arguments.output_dir)
    if last is not None:
        loader.load_state_dict(json.loads(Path(last, "loader.json").read_text()))
    trainer.train(resume_from_checkpoint=last)


if __name__ == "__main__":
    main()
