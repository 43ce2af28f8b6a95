"""Train a detector on rows of a table: a fixed number of steps, whatever the rows.

Comparing selections is fair only if each gets the same number of updates, so the length of a run
is counted in optimizer steps and never in epochs. Unless told otherwise half of every batch is
bona fide and half spoof; each half is drawn without replacement until its rows are used up, then
anew, and the mix of domains is the selection's own. `curation.probe.batches` has other ways.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from curation.metrics import eer
from curation.order import place
from curation.probe.augmentation import Augmenter
from curation.probe.batches import Sampling, balanced_batches, check_sampling, draw_batches, visits
from curation.probe.codec_pass import check_codecs
from curation.probe.detector import Design, NeuralDetector
from curation.probe.features import FeatureStore, Indices
from curation.probe.keys import is_bonafide, texts
from curation.probe.latent_augmentation import augmented
from curation.probe.latent_network import LatentNetwork
from curation.probe.prototypes import PrototypeNetwork
from curation.probe.rawboost import ALGORITHMS
from curation.probe.sharpness import gradients_at_worst, mean_sharpness
from curation.probe.splits import validation_mask
from datalake.errors import InputError, StoppedError

__all__ = [
    "Check",
    "TrainingResult",
    "TrainingSettings",
    "balanced_batches",
    "sharpness",
    "train",
]


@dataclass(frozen=True)
class TrainingSettings:
    """How long, how fast and by which tricks to learn; all of it is in the report."""

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
    sampling: Sampling = "balanced"
    """How rows are drawn; `weights` takes the column `weight` of the keys."""
    weighted_loss: bool = False
    """Weight each row's loss by the column `weight` of the keys; a batch's weights sum to 1."""
    rawboost: int = 0
    """RawBoost's algorithm, 1 to 8; 0 for none."""
    codecs: tuple[str, ...] = ()
    """An example passes one of these codecs (`curation.probe.codec_pass`), drawn by hash."""
    augmented_share: float = 1.0
    """Share of examples that RawBoost changes, and that codecs do."""
    num_spoof_prototypes: int = 0
    """Latent-space refinement: so many prototypes of spoofs; 0 for a plain classifier."""
    prototype_spread: float = 0.1
    """What crowding of prototypes weighs beside the loss."""
    latent_augmentation: bool = False
    """Train on changed copies of the spoofs' latent vectors too."""
    sam_rho: float = 0.0
    """Sharpness-aware minimisation: how far each step looks; 0 for none, twice the work else."""
    sharpness_rho: float = 0.0
    """Report how sharp the minimum is within this distance; 0 leaves it out."""

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
        check_sampling(self.sampling)
        check_codecs(self.codecs)
        if self.rawboost and self.rawboost not in ALGORITHMS:
            raise InputError(
                "There is no such algorithm of RawBoost",
                expected=f"{ALGORITHMS[0]} to {ALGORITHMS[-1]}, or 0 for none",
                found=str(self.rawboost),
            )
        if not 0 <= self.augmented_share <= 1:
            raise InputError(
                "augmented_share is out of range",
                expected="from 0 to 1",
                found=str(self.augmented_share),
            )
        for name in ("num_spoof_prototypes", "prototype_spread", "sam_rho", "sharpness_rho"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(
                    f"{name} is out of range", expected="0 or more", found=str(getattr(self, name))
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
    augmentations: Mapping[str, int] = field(default_factory=dict)
    """How many examples were changed in which way; `none` for those that were not."""
    validation_sharpness: float | None = None
    """The sharpness at the end on the validation rows, if it was asked for."""


def train(
    store: FeatureStore,
    keys: pa.Table,
    design: Design,
    settings: TrainingSettings | None = None,
    *,
    on_check: Callable[[Check], None] | None = None,
) -> TrainingResult:
    """Train `design` on the rows of `keys`, keeping the weights that validate best.

    The same rows, settings and number of torch's threads give the same weights on a CPU. Torch's
    global generator is left as it was.

    Args:
        store: features of the table that `keys` indexes.
        keys: the rows, with the columns of `read_keys`; and `weight`, of `with_weights`, where the
            settings use weights.
        design: what to build.
        settings: how long, how fast and by which tricks.
        on_check: called after each look at the validation rows.

    Raises:
        InputError: training or validation would lack one of the labels, or the settings ask for
            what the keys or the design do not have.
        StoppedError: the loss is not finite.
    """
    settings = settings or TrainingSettings()
    if settings.num_spoof_prototypes:
        design = replace(design, num_spoof_prototypes=settings.num_spoof_prototypes)
    validation = validation_mask(
        keys,
        fraction=settings.validation_fraction,
        max_rows=settings.max_validation_rows,
        seed=settings.seed,
    )
    _require_both_labels(keys, validation)
    rows = keys["row_index"].to_numpy().astype(np.int64)
    bonafide = is_bonafide(keys)
    training = np.flatnonzero(~validation)
    weights = _weights(keys, settings)
    batches = draw_batches(
        settings.sampling,
        training,
        bonafide[training],
        np.asarray(texts(keys, "domain"), dtype=object)[training],
        None if weights is None else weights[training],
        num_steps=settings.num_steps,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    augmenter = Augmenter(
        settings.seed,
        design.sample_rate_hz,
        rawboost=settings.rawboost,
        codecs=settings.codecs,
        share=settings.augmented_share,
        num_threads=store.num_threads,
    )
    if augmenter.is_idle:
        store.ensure(np.concatenate([rows[validation], rows[batches].ravel()]))
    else:
        store.ensure_waveforms(rows[batches].ravel())
        store.ensure(rows[validation])
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        detector = design.build().to(store.device)
        _size_lazy_layers(detector, store, rows[validation][:2])
        examples = _Examples(store, keys, rows, bonafide, weights, augmenter)
        run = _Run(detector, store, settings, examples, np.flatnonzero(validation))
        history, best_step = run.learn(batches, on_check)
    at_end = None
    if settings.sharpness_rho:
        at_end = sharpness(
            store, keys.filter(pa.array(validation)), detector, settings.sharpness_rho
        )
    return TrainingResult(
        detector=detector,
        history=tuple(history),
        best_step=best_step,
        num_steps=history[-1].step,
        num_training_rows=int((~validation).sum()),
        num_validation_rows=int(validation.sum()),
        augmentations=dict(sorted(examples.record.items())),
        validation_sharpness=at_end,
    )


def sharpness(
    store: FeatureStore,
    keys: pa.Table,
    detector: NeuralDetector,
    rho: float,
    *,
    batch_size: int = 64,
) -> float:
    """How much the loss of a trained detector can grow within `rho`: see `mean_sharpness`.

    Rows come in the order of a hash of `utt_id`, whatever the table's, so that batches mix labels
    and domains. The figure depends on the size of a batch.

    Args:
        store: features of the table that `keys` indexes.
        keys: the rows to look at, with the columns of `read_keys`.
        detector: a detector of the store's design.
        rho: how far to look.
        batch_size: rows a gradient is taken of.
    """
    rows = keys["row_index"].to_numpy().astype(np.int64)
    order = np.argsort([place(0, each or "") for each in texts(keys, "utt_id")], kind="stable")
    bonafide = is_bonafide(keys)
    store.ensure(rows)

    def batch(chosen: Indices) -> tuple[Tensor, Tensor]:
        labels = torch.from_numpy(bonafide[chosen].astype(np.float32))
        return store.features(rows[chosen]), labels.to(store.device)

    parts = (order[begin : begin + batch_size] for begin in range(0, len(order), batch_size))
    return mean_sharpness(detector.network, (batch(part) for part in parts), rho)


class _Examples:
    """What a step trains on, by positions in the keys."""

    def __init__(
        self,
        store: FeatureStore,
        keys: pa.Table,
        rows: Indices,
        bonafide: npt.NDArray[np.bool_],
        weights: npt.NDArray[np.float64] | None,
        augmenter: Augmenter,
    ) -> None:
        self.rows = rows
        self.bonafide = bonafide
        self.record: Counter[str] = Counter()
        self._store = store
        self._utt_ids = keys["utt_id"]
        self._weights = weights
        self._augmenter = augmenter

    def features(self, positions: Indices, epochs: Indices) -> Tensor:
        """Features (batch, ...), augmented as the settings say."""
        rows = self.rows[positions]
        if self._augmenter.is_idle:
            return self._store.features(rows)
        names = [str(self._utt_ids[position]) for position in positions.tolist()]
        return self._store.augmented(rows, self._augmenter, names, epochs.tolist(), self.record)

    def labels(self, positions: Indices) -> Tensor:
        """1 for bona fide, 0 for spoof: (batch,)."""
        values = self.bonafide[positions].astype(np.float32)
        return torch.from_numpy(values).to(self._store.device)

    def weights(self, positions: Indices) -> Tensor | None:
        """What each row's loss weighs: (batch,), or None for all alike."""
        if self._weights is None:
            return None
        return torch.from_numpy(self._weights[positions]).float().to(self._store.device)


class _Run:
    """One training run's moving parts."""

    def __init__(
        self,
        detector: NeuralDetector,
        store: FeatureStore,
        settings: TrainingSettings,
        examples: _Examples,
        validation: Indices,
    ) -> None:
        network = detector.network
        if settings.latent_augmentation and not isinstance(network, LatentNetwork):
            raise InputError(
                "Latent augmentation needs a network with latent vectors",
                where=detector.name,
                expected="a curation.probe.LatentNetwork",
                found=type(network).__name__,
            )
        self._detector = detector
        self._store = store
        self._settings = settings
        self._examples = examples
        self._validation_rows = examples.rows[validation]
        self._validation_bonafide = examples.bonafide[validation]
        self._optimizer = torch.optim.AdamW(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
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
        history: list[Check] = []
        losses: list[float] = []
        best = Check(0, math.inf, math.inf, math.inf)
        weights = copy.deepcopy(network.state_dict())
        for step, (positions, epochs) in enumerate(
            zip(batches, visits(batches), strict=True), start=1
        ):
            losses.append(self._step(step, positions, epochs))
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

    def _step(self, step: int, positions: Indices, epochs: Indices) -> float:
        self._detector.train()
        network, settings = self._detector.network, self._settings
        features = self._examples.features(positions, epochs)
        labels = self._examples.labels(positions)
        weights = self._examples.weights(positions) if settings.weighted_loss else None

        def loss() -> Tensor:
            return self._loss(step, features, labels, weights)

        if settings.sam_rho:
            value = gradients_at_worst(network, loss, settings.sam_rho)
        else:
            self._optimizer.zero_grad()
            here = loss()
            here.backward()  # type: ignore[no-untyped-call]
            value = float(here.detach())
        self._optimizer.step()
        self._schedule.step()
        if not math.isfinite(value):
            raise StoppedError(
                "The training diverged",
                found=f"a loss of {value}",
                fix="Lower the learning rate",
            )
        return value

    def _loss(self, step: int, features: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        network, settings = self._detector.network, self._settings
        if not isinstance(network, LatentNetwork):
            return _mean(_entropies(network(features), labels), weights)
        latents = network.embed(features)
        if settings.latent_augmentation:
            is_spoof = labels < 0.5
            # Anew from seed and step: the second look of SAM must see the same copies.
            rng = np.random.default_rng([settings.seed, step])
            latents = torch.cat([latents, augmented(latents[is_spoof], rng)])
            if weights is not None:
                weights = torch.cat([weights, weights[is_spoof]])
            labels = torch.cat([labels, labels[is_spoof]])
        if not isinstance(network, PrototypeNetwork):
            return _mean(_entropies(network.classify(latents), labels), weights)
        prototypes = network.prototypes
        loss = _mean(prototypes.losses(latents, labels), weights)
        return loss + settings.prototype_spread * prototypes.crowding()

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


def _entropies(scores: Tensor, labels: Tensor) -> Tensor:
    return binary_cross_entropy_with_logits(scores, labels, reduction="none")


def _mean(losses: Tensor, weights: Tensor | None) -> Tensor:
    return losses.mean() if weights is None else (weights * losses).sum() / weights.sum()


def _weights(keys: pa.Table, settings: TrainingSettings) -> npt.NDArray[np.float64] | None:
    if "weight" in keys.column_names:
        return np.asarray(keys["weight"].to_numpy(), dtype=np.float64)
    if settings.weighted_loss or settings.sampling == "weights":
        raise InputError(
            "There are no weights to train with",
            expected="keys with a column `weight`, as with_weights gives them",
            fix="Give a saved selection that has weights: --weights NAME",
        )
    return None


@torch.no_grad()
def _size_lazy_layers(detector: NeuralDetector, store: FeatureStore, rows: Indices) -> None:
    """Show the network some rows, so that layers whose size follows from the data have theirs."""
    if any(torch.nn.parameter.is_lazy(each) for each in detector.network.parameters()):
        detector.eval()
        detector.network(store.features(rows))


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
