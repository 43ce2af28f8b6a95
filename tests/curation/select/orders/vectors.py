"""Vectors to choose from: around centres, and some whose products are exact and often equal."""

from __future__ import annotations

import numpy as np


def clustered(num_rows: int, dims: int = 8, seed: int = 0, spread: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(30, dims))[rng.integers(0, 30, num_rows)]
    rows = rows + spread * rng.normal(size=rows.shape)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def signs(num_rows: int, seed: int = 0) -> np.ndarray:
    """Corners of a cube in 16 dimensions: every product is a multiple of 1/8, exactly."""
    rng = np.random.default_rng(seed)
    corners = rng.choice([-0.25, 0.25], (max(1, num_rows // 3), 16))
    return corners[rng.integers(0, len(corners), num_rows)].astype(np.float32)


def units(rows: np.ndarray) -> np.ndarray:
    """All cosines in whole numbers of 2^-20, as the orders compare them."""
    return np.rint((rows @ rows.T) * np.float32(1 << 20)).astype(np.int64)
