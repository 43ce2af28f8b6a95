"""PyTorch Lightning, with a checkpoint in mid epoch that any number of devices goes on from.

    python examples/train_lightning.py work --devices 2

Lightning gets `loader.passes()`: an iterable without length, epoch or state, so that it neither
cuts a resumed epoch by a length that is of other ranks, nor saves the state of a batch that it
fetched ahead. A callback saves the state of the batch that was trained on.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from speech import corpus, loss_of, new_model, record

from datalake.loader import Loader
from datalake.loader.stream import Passes


class Speech(lightning.LightningDataModule):
    """The stream of this rank."""

    def __init__(self, lake: Path) -> None:
        super().__init__()
        self.lake = lake
        self.state: dict[str, Any] | None = None

    def train_dataloader(self) -> Passes:
        """Once the ranks are known."""
        self.loader = Loader(
            corpus(self.lake),
            batch_size=8,
            rank=self.trainer.global_rank,
            world_size=self.trainer.world_size,
        )
        if self.state is not None:
            self.loader.load_state_dict(self.state)
        return self.loader.passes()

    def state_dict(self) -> dict[str, Any]:
        """Part of Lightning's checkpoint."""
        return {"loader": self.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called before `train_dataloader`."""
        self.state = state["loader"]


class Follow(Callback):
    """Keeps the data module's state at the last batch that was trained on."""

    def on_train_batch_end(
        self, trainer: Any, _model: Any, _outputs: Any, batch: Any, *_: Any
    ) -> None:
        """Before checkpoints are saved: Lightning calls those last."""
        trainer.datamodule.state = trainer.datamodule.loader.state_after(batch)


class Detector(lightning.LightningModule):
    """A model as any other."""

    def __init__(self, work: Path) -> None:
        super().__init__()
        self.model, self.work = new_model(), work

    def training_step(self, batch: dict[str, Any]) -> torch.Tensor:
        """The loss of a batch."""
        record(self.work, self.global_rank, batch)
        return loss_of(self.model, batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """One for all."""
        return torch.optim.Adam(self.parameters())


def main() -> None:
    """Train, and save every few steps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="where checkpoints and records go")
    parser.add_argument("--lake", type=Path, help="of one's own, with a table `corpus`")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--stop-after", type=int, default=-1, help="steps, of the whole training")
    given = parser.parse_args()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=given.devices,
        strategy="ddp" if given.devices > 1 else "auto",
        max_epochs=given.epochs,
        max_steps=given.stop_after,
        callbacks=[
            Follow(),
            ModelCheckpoint(given.work, save_last=True, save_top_k=0, every_n_train_steps=3),
        ],
        default_root_dir=given.work,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = given.work / "last.ckpt"
    trainer.fit(
        Detector(given.work),
        datamodule=Speech(given.lake or given.work / "lake"),
        ckpt_path=last if last.exists() else None,
    )


if __name__ == "__main__":
    main()
