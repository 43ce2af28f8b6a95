"""The three length laws that packing is measured on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Lengths = npt.NDArray[np.int64]

LAWS = ("lognormal", "uniform", "normal")


def lengths_of(law: str, num_items: int, seed: int = 0) -> tuple[Lengths, int]:
    """Lengths, and the capacity that goes with them."""
    rng = np.random.default_rng(seed)
    if law == "lognormal":
        return rng.lognormal(5.5, 1.0, num_items).astype(np.int64).clip(1, 4096), 4096
    if law == "uniform":
        return rng.integers(50, 2001, num_items), 2048
    return rng.normal(150, 40, num_items).astype(np.int64).clip(10, 2048), 2048
