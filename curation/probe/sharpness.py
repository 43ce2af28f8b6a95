"""Flat minima: sharpness-aware minimisation, and how sharp a trained detector's minimum is.

Foret et al., "Sharpness-aware minimization for efficiently improving generalization" (ICLR 2021,
arXiv 2010.01412), equation 2 and algorithm 1. As a figure for detectors: Huang et al., "From
sharpness to better generalization for speech deepfake detection" (arXiv 2506.11532); its
m-sharpness is read from the code that its authors published, not from the paper's text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["ascended", "gradients_at_worst", "mean_sharpness"]

_TINY = 1e-12


@contextmanager
def ascended(parameters: Iterable[nn.Parameter], rho: float) -> Iterator[None]:
    """Within, parameters w stand at w + rho * g / |g|, g their gradients as found; then again at w.

    |g| is the norm over all parameters together. Those without a gradient stay.
    """
    moved = [each for each in parameters if each.grad is not None]
    gradients = [each.grad.detach().clone() for each in moved if each.grad is not None]
    before = [each.detach().clone() for each in moved]
    norm = torch.stack([each.norm() for each in gradients]).norm() if moved else torch.zeros(())
    with torch.no_grad():
        for each, gradient in zip(moved, gradients, strict=True):
            each.add_(gradient * (rho / (norm + _TINY)))
    try:
        yield
    finally:
        with torch.no_grad():
            for each, value in zip(moved, before, strict=True):
                # Copied back, since adding and subtracting does not give the same bits.
                each.copy_(value)


def gradients_at_worst(network: nn.Module, loss: Callable[[], Tensor], rho: float) -> float:
    """Leave in `network` the gradients of SAM: those at w + rho * g / |g|, g being those at w.

    An optimizer's step then completes SAM's. Batch statistics are gathered at w alone.

    Args:
        network: whose parameters count; gradients it has are forgotten.
        loss: the loss of one batch, the same in both calls but for dropout.
        rho: how far to look.

    Returns:
        The loss at w.
    """
    network.zero_grad()
    here = loss()
    here.backward()  # type: ignore[no-untyped-call]
    with ascended(network.parameters(), rho), _statistics_kept(network):
        network.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
    return float(here.detach())


def mean_sharpness(
    network: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], rho: float
) -> float:
    """m-sharpness: the mean of L(w + rho * g / |g|) - L(w) over batches, weighted by their rows.

    L is the mean cross entropy of a batch, g its gradient, the network in evaluation mode. The
    network is left as it was, without gradients.

    Args:
        network: features to scores.
        batches: features (m, ...) and labels (m,), 1 for bona fide, on the network's device.
        rho: how far to look; 0.05 in the authors' code.
    """
    entropy = nn.BCEWithLogitsLoss()
    was_training = network.training
    network.eval()
    total, num_rows = 0.0, 0
    for features, labels in batches:
        network.zero_grad()
        loss = entropy(network(features), labels)
        loss.backward()
        with ascended(network.parameters(), rho), torch.no_grad():
            worst = entropy(network(features), labels)
        total += len(labels) * (float(worst) - float(loss.detach()))
        num_rows += len(labels)
    network.zero_grad()
    network.train(was_training)
    return total / max(num_rows, 1)


@contextmanager
def _statistics_kept(network: nn.Module) -> Iterator[None]:
    norms = [each for each in network.modules() if isinstance(each, _BatchNorm)]
    before = [(each.momentum, each.num_batches_tracked) for each in norms]
    for each, (_, count) in zip(norms, before, strict=True):
        # An average over all steps (momentum None) counts them: in a copy that is thrown away.
        each.num_batches_tracked = None if count is None else count.clone()
        each.momentum = 0.0
    try:
        yield
    finally:
        for each, (momentum, count) in zip(norms, before, strict=True):
            each.momentum, each.num_batches_tracked = momentum, count
