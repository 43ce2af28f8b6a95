"""Train a detector on rows of a table: a fixed number of steps, whatever the rows.

Comparing selections is fair only if each gets the same number of updates, so the length of a run
is counted in optimizer steps and never in epochs. Half of every batch is bona fide and half spoof;
each half is drawn without replacement until its rows are used up, then anew. Within a label rows
are drawn evenly, so the mix of domains is the selection's own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from curation.metrics import eer
from curation.probe.detector import Design, NeuralDetector
from curation.probe.features import FeatureStore, Indices
from curation.probe.keys import is_bonafide
from curation.probe.splits import validation_mask
from datalake.errors import InputError, StoppedError

__all__ = ["Check", "TrainingResult", "TrainingSettings", "balanced_batches", "train"]


@dataclass(frozen=True)
class TrainingSettings:
    """How long and how fast to learn."""

    num_steps: int = 600
    """Optimizer steps at most, the same for every selection."""
    batch_size: int = 64
    learning_rate: float = 1e-3
    """The peak: it rises over the first twentieth of the steps and falls as a cosine to zero."""
    weight_decay: float = 1e-2
    validation_fraction: float = 0.1
    max_validation_rows: int = 2000
    check_every: int = 50
    """Steps between looks at the validation rows."""
    patience: int = 6
    """Stop after so many looks in a row without a lower validation loss."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("num_steps", "check_every", "patience", "max_validation_rows"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is too small", expected="1 or more")
        if self.batch_size < 2 or self.batch_size % 2:
            raise InputError(
                "Half of a batch is bona fide", expected="an even size", found=str(self.batch_size)
            )
        if not 0 < self.validation_fraction < 1:
            raise InputError(
                "validation_fraction is out of range",
                expected="above 0 and below 1",
                found=str(self.validation_fraction),
            )


@dataclass(frozen=True)
class Check:
    """One look at the validation rows."""

    step: int
    training_loss: float
    """Mean over the steps since the last look."""
    validation_loss: float
    """Cross entropy, both labels weighing the same."""
    validation_eer: float


@dataclass(frozen=True)
class TrainingResult:
    """A trained detector and how it came about."""

    detector: NeuralDetector
    history: tuple[Check, ...]
    best_step: int
    """The step whose weights were kept: the lowest validation loss."""
    num_steps: int
    """Steps taken; fewer than asked for if validation stopped improving."""
    num_training_rows: int
    num_validation_rows: int


def train(
    store: FeatureStore,
    keys: pa.Table,
    design: Design,
    settings: TrainingSettings | None = None,
    *,
    on_check: Callable[[Check], None] | None = None,
) -> TrainingResult:
    """Train `design` on the rows of `keys`, keeping the weights that validate best.

    The same rows, settings and number of threads give the same weights on a CPU. Torch's global
    generator is left as it was.

    Args:
        store: features of the table that `keys` indexes.
        keys: the rows, with the columns of `read_keys`.
        design: what to build.
        settings: how long and how fast.
        on_check: called after each look at the validation rows.

    Raises:
        InputError: training or validation would lack one of the labels.
        StoppedError: the loss is not finite.
    """
    settings = settings or TrainingSettings()
    validation = validation_mask(
        keys,
        fraction=settings.validation_fraction,
        max_rows=settings.max_validation_rows,
        seed=settings.seed,
    )
    _require_both_labels(keys, validation)
    rows = keys["row_index"].to_numpy().astype(np.int64)
    bonafide = is_bonafide(keys)
    batches = balanced_batches(
        rows[bonafide & ~validation],
        rows[~bonafide & ~validation],
        num_steps=settings.num_steps,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    store.ensure(np.concatenate([rows[validation], batches.ravel()]))
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        detector = design.build().to(store.device)
        run = _Run(detector, store, settings, rows[validation], bonafide[validation])
        history, best_step = run.learn(batches, on_check)
    return TrainingResult(
        detector=detector,
        history=tuple(history),
        best_step=best_step,
        num_steps=history[-1].step,
        num_training_rows=int((~validation).sum()),
        num_validation_rows=int(validation.sum()),
    )


def balanced_batches(
    bonafide_rows: Indices, spoof_rows: Indices, *, num_steps: int, batch_size: int, seed: int
) -> Indices:
    """The rows of every step: (num_steps, batch_size), the first half of each bona fide."""
    half = batch_size // 2
    sides = [
        _passes(rows, num_steps * half, np.random.default_rng([seed, side]))
        for side, rows in enumerate((bonafide_rows, spoof_rows))
    ]
    return np.concatenate([side.reshape(num_steps, half) for side in sides], axis=1)


def _passes(rows: Indices, count: int, rng: np.random.Generator) -> Indices:
    """`count` draws: shuffled passes through all rows, one after the other."""
    num_passes = math.ceil(count / len(rows))
    return np.concatenate([rng.permutation(rows) for _ in range(num_passes)])[:count]


class _Run:
    """One training run's moving parts."""

    def __init__(
        self,
        detector: NeuralDetector,
        store: FeatureStore,
        settings: TrainingSettings,
        validation_rows: Indices,
        validation_bonafide: npt.NDArray[np.bool_],
    ) -> None:
        self._detector = detector
        self._store = store
        self._settings = settings
        self._validation_rows = validation_rows
        self._validation_bonafide = validation_bonafide
        self._optimizer = torch.optim.AdamW(
            detector.network.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
        )
        self._schedule = torch.optim.lr_scheduler.LambdaLR(self._optimizer, self._pace)

    def _pace(self, step: int) -> float:
        """The share of the peak learning rate at a step."""
        total = self._settings.num_steps
        warm = max(total // 20, 1)
        if step < warm:
            return (step + 1) / warm
        return (1 + math.cos(math.pi * (step - warm) / max(total - warm, 1))) / 2

    def learn(
        self, batches: Indices, on_check: Callable[[Check], None] | None
    ) -> tuple[list[Check], int]:
        """Take the steps, leave the best weights in the detector; its history and best step."""
        network, settings = self._detector.network, self._settings
        labels = torch.zeros(settings.batch_size, device=self._store.device)
        labels[: settings.batch_size // 2] = 1
        history: list[Check] = []
        losses: list[float] = []
        best = Check(0, math.inf, math.inf, math.inf)
        weights = copy.deepcopy(network.state_dict())
        for step, rows in enumerate(batches, start=1):
            losses.append(self._step(rows, labels))
            if step % settings.check_every and step != len(batches):
                continue
            check = self._check(step, float(np.mean(losses)))
            losses.clear()
            history.append(check)
            if on_check is not None:
                on_check(check)
            if check.validation_loss < best.validation_loss:
                best, weights = check, copy.deepcopy(network.state_dict())
            elif step - best.step >= settings.patience * settings.check_every:
                break
        network.load_state_dict(weights)
        self._detector.eval()
        return history, best.step

    def _step(self, rows: Indices, labels: Tensor) -> float:
        self._detector.train()
        scores = self._detector.network(self._store.features(rows))
        loss = binary_cross_entropy_with_logits(scores, labels)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._schedule.step()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise StoppedError(
                "The training diverged",
                found=f"a loss of {value}",
                fix="Lower the learning rate",
            )
        return value

    def _check(self, step: int, training_loss: float) -> Check:
        scores = self._store.scores(self._detector, self._validation_rows)
        bonafide = self._validation_bonafide
        # Cross entropy of a logit, written so that it does not overflow; labels weigh the same.
        loss = np.logaddexp(0, np.where(bonafide, -scores, scores))
        return Check(
            step=step,
            training_loss=training_loss,
            validation_loss=float((loss[bonafide].mean() + loss[~bonafide].mean()) / 2),
            validation_eer=eer(scores[bonafide], scores[~bonafide]),
        )


def _require_both_labels(keys: pa.Table, validation: npt.NDArray[np.bool_]) -> None:
    bonafide = is_bonafide(keys)
    for side, mask in (("training", ~validation), ("validation", validation)):
        for label, rows in (("bona fide", mask & bonafide), ("spoof", mask & ~bonafide)):
            if not rows.any():
                raise InputError(
                    f"There are no {label} rows for {side}",
                    expected="at least two rows of each label in some domain",
                    found=f"{int(bonafide.sum())} bona fide and {int((~bonafide).sum())} spoof "
                    "rows in all",
                )
