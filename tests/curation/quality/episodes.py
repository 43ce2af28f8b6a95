"""Frames of robots to judge: several episodes one after another, and what is wrong with them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from curation.quality.robot_scale import Scale

starts_of = st.lists(st.integers(0, 12), min_size=1, max_size=6).map(
    lambda lengths: np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
)


def unit_scale(num_dims: int = 1, *, step: float = 0.01, noise: float = 0.0) -> Scale:
    """A robot that goes from 0 to 1."""
    ones = np.ones(num_dims)
    return Scale(0 * ones, ones, step * ones, noise * ones)


def rough(starts: np.ndarray, seed: int, num_dims: int = 2) -> np.ndarray:
    """Values of few levels, so that all there is happens: rests, leaps, ends, and a NaN."""
    rng = np.random.default_rng(seed)
    levels = np.array([0.0, 0.005, 0.01, 0.5, 1.0, np.nan])
    shares = [0.3, 0.2, 0.2, 0.1, 0.15, 0.05]
    values = rng.choice(levels, (int(starts[-1]), num_dims), p=shares)
    # Some values stay for a while.
    stay = rng.random(values.shape) < 0.6
    for frame in range(1, len(values)):
        values[frame] = np.where(stay[frame], values[frame - 1], values[frame])
    return values


def each(starts: np.ndarray) -> list[slice]:
    """The frames of each episode."""
    return [slice(int(one), int(two)) for one, two in itertools.pairwise(starts)]


def slow_filled(values: np.ndarray) -> np.ndarray:
    """Of one episode: what is not finite is the last value that was, or the first to come."""
    out = values.copy()
    for dim in range(values.shape[1]):
        known = [value for value in values[:, dim] if np.isfinite(value)]
        last = known[0] if known else 0.0
        for frame in range(len(values)):
            if np.isfinite(values[frame, dim]):
                last = values[frame, dim]
            out[frame, dim] = last
    return out
