"""A proxy that learns how much each domain should weigh, as DoReMi does (arXiv 2305.10429).

SOURCE: the reference's losses, the update before each step, and the step's loss: that of the
domains, weighted. OURS: half of every batch is bona fide, and within a label all domains come alike
often (the paper samples all domains alike), so that a small probe sees both labels in each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from curation.probe.batches import draw_batches
from curation.probe.detector import Design, NeuralDetector
from curation.probe.features import FeatureStore
from curation.probe.keys import is_bonafide, texts
from curation.probe.training import TrainingSettings, train
from curation.selection.domain_losses import LOSSES
from curation.selection.group_dro import SMOOTHING, STEP_SIZE, GroupDro
from datalake.errors import InputError, StoppedError

__all__ = ["ProxyRun", "train_proxy"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ProxyRun:
    """What a proxy has learned of the domains."""

    weights: Mapping[str, float]
    """Of each domain, the mean over the steps; they sum to 1."""
    losses: pa.Table
    """`LOSSES`: a line for each domain of each step. `curate weigh --losses` takes it as a file."""
    detector: NeuralDetector
    reference: NeuralDetector


def train_proxy(
    store: FeatureStore,
    keys: pa.Table,
    design: Design,
    settings: TrainingSettings | None = None,
    *,
    reference: NeuralDetector | None = None,
    step_size: float = STEP_SIZE,
    smoothing: float = SMOOTHING,
    on_step: Callable[[int, Mapping[str, float]], None] | None = None,
) -> ProxyRun:
    """Train a proxy whose steps are weighted by where it is behind a reference.

    The same rows, settings and number of torch's threads give the same weights on a CPU. Memory: a
    line of 56 bytes for each domain of each step.

    Args:
        store: features of the table that `keys` indexes.
        keys: the rows, with the columns of `read_keys`.
        design: what to build, of the reference too.
        settings: how long, how fast and from which seed; other options are of the reference, which
            draws domains alike whatever they say.
        reference: a trained detector of the store's design; None trains one on the same rows.
        step_size: eta of the update.
        smoothing: c of the update.
        on_step: called after each step with its weights.

    Raises:
        InputError: the keys lack one of the labels, or a number is out of its range.
        StoppedError: the loss is not finite.
    """
    settings = settings or TrainingSettings()
    domains = np.asarray(texts(keys, "domain"), dtype=object)
    names = sorted(set(domains.tolist()))
    dro = GroupDro(names, step_size=step_size, smoothing=smoothing)
    bonafide = is_bonafide(keys)
    if bonafide.all() or not bonafide.any():
        raise InputError(
            "A proxy needs rows of both labels",
            found=f"{int(bonafide.sum())} bona fide and {int((~bonafide).sum())} spoof rows",
        )
    rows = keys["row_index"].to_numpy().astype(np.int64)
    everything = np.arange(len(rows))
    batches = draw_batches(
        "domains",
        everything,
        bonafide,
        domains,
        None,
        num_steps=settings.num_steps,
        batch_size=settings.batch_size,
        seed=settings.seed,
    )
    if reference is None:
        reference = train(store, keys, design, replace(settings, sampling="domains")).detector
    seen = np.unique(batches)
    store.ensure(rows[seen])
    of_reference = np.full(len(rows), np.nan)
    of_reference[seen] = _losses(store.scores(reference, rows[seen]), bonafide[seen])
    numbers = {name: number for number, name in enumerate(names)}
    groups = np.array([numbers[name] for name in domains.tolist()], np.int64)
    lines: list[pa.Table] = []
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        proxy = design.build().to(store.device)
        if any(torch.nn.parameter.is_lazy(each) for each in proxy.network.parameters()):
            with torch.no_grad():
                proxy.eval()
                proxy.network(store.features(rows[seen][:2]))
        optimizer = torch.optim.AdamW(
            proxy.network.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
        )
        for number, batch in enumerate(batches, start=1):
            proxy.train()
            features = store.features(rows[batch])
            labels = torch.from_numpy(bonafide[batch].astype(np.float32)).to(store.device)
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                proxy.network(features), labels, reduction="none"
            )
            values = losses.detach().cpu().numpy().astype(np.float64)
            if not np.isfinite(values).all():
                raise StoppedError(
                    "The proxy's training diverged",
                    where=f"step {number}",
                    found="a loss that is not finite",
                    fix="Lower the learning rate",
                )
            line, of_row = _reweigh(dro, number, values, of_reference[batch], groups[batch])
            lines.append(line)
            optimizer.zero_grad()
            (losses * torch.from_numpy(of_row).float().to(store.device)).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            if on_step is not None:
                on_step(number, dict(zip(names, dro.weights.tolist(), strict=True)))
    proxy.eval()
    return ProxyRun(dro.average(), pa.concat_tables(lines), proxy, reference)


def _reweigh(
    dro: GroupDro,
    step: int,
    losses: FloatArray,
    reference: FloatArray,
    groups: npt.NDArray[np.int64],
) -> tuple[pa.Table, FloatArray]:
    """Take a step of the weights: its lines, and what each row's loss weighs.

    A domain's weight is shared by its rows; those of the domains in the batch are scaled to sum
    to 1.
    """
    count = len(dro.domains)
    num_rows = np.bincount(groups, minlength=count)
    present = num_rows > 0

    def mean(values: FloatArray) -> FloatArray:
        sums = np.bincount(groups, weights=values, minlength=count)
        return np.where(present, sums / np.maximum(num_rows, 1), np.nan)

    excess = mean(np.maximum(losses - reference, 0))
    weights = dro.step(excess)
    of_row = weights[groups] / num_rows[groups] / math.fsum(weights[present])
    names = np.array(dro.domains, dtype=object)
    line = pa.table(
        {
            "step": np.full(int(present.sum()), step, np.int64),
            "domain": pa.array(names[present], pa.string()),
            "num_rows": num_rows[present],
            "loss": mean(losses)[present],
            "reference_loss": mean(reference)[present],
            "excess_loss": excess[present],
            "weight": weights[present],
        },
        schema=LOSSES,
    )
    return line, of_row


def _losses(scores: FloatArray, bonafide: npt.NDArray[np.bool_]) -> FloatArray:
    """Cross entropies of logits, without overflow."""
    return np.asarray(np.logaddexp(0, np.where(bonafide, -scores, scores)))
