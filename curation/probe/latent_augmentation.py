"""Latent-space augmentation: spoofs that no generator made, near those that some did.

After Huang et al. (arXiv 2501.14240), who change latent vectors of spoofs only. We know from the
abstract and from summaries which ways there are, not their numbers: the ranges below are ours.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

__all__ = ["WAYS", "augmented"]

WAYS: Final = ("noise", "affine", "mixup", "interpolation", "extrapolation")
"""Ways to change vectors; a step of training uses one of them."""


def augmented(spoofs: Tensor, rng: np.random.Generator, way: str | None = None) -> Tensor:
    """Changed copies of the latent vectors of a batch's spoofs.

    With c their mean, s their standard deviation by dimension, n normal noise, and one draw of a
    and b for the batch:

    - `noise`: z + a s n, a in [0, 0.5];
    - `affine`: a z + 0.1 s n, a in [0.8, 1.2], the same n for all;
    - `mixup`: a z + (1 - a) z', z' another row of the batch, a in [0, 1];
    - `interpolation`: z + a (c - z), a in [0, 0.5];
    - `extrapolation`: z + a (z - c), a in [0, 0.5].

    Args:
        spoofs: (n, latent_size).
        rng: gives the numbers; the same state gives the same copies on every device.
        way: one of `WAYS`; None draws it.

    Returns:
        (n, latent_size); gradients flow back to `spoofs`.
    """
    drawn = WAYS[int(rng.integers(len(WAYS)))]
    way = way or drawn
    amount = float(rng.uniform())
    if not len(spoofs):
        return spoofs

    def normal(*shape: int) -> Tensor:
        values = rng.standard_normal(shape, dtype=np.float32)
        return torch.from_numpy(values).to(spoofs.device)

    if way == "noise":
        spread = spoofs.std(0, correction=0)
        return spoofs + amount / 2 * spread * normal(*spoofs.shape)
    if way == "affine":
        spread = spoofs.std(0, correction=0)
        return (0.8 + 0.4 * amount) * spoofs + 0.1 * spread * normal(spoofs.shape[1])
    if way == "mixup":
        others = torch.from_numpy(rng.permutation(len(spoofs))).to(spoofs.device)
        return amount * spoofs + (1 - amount) * spoofs[others]
    towards = amount / 2 * (spoofs.mean(0) - spoofs)
    return spoofs + towards if way == "interpolation" else spoofs - towards
