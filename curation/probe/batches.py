"""Which rows make up each step of training, and how often each came before.

Everything is drawn in advance from the seed, so that a run neither hangs on timing nor on workers.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError, nearest

__all__ = ["Sampling", "balanced_batches", "check_sampling", "draw_batches", "visits"]

Indices: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.float64]

Sampling: TypeAlias = Literal["balanced", "domains", "natural", "weights"]
"""How rows are drawn:

- `balanced`: half of every batch bona fide, half spoof; within a label all rows alike often.
- `domains`: the same halves; within a label all domains alike often, within a domain all rows.
- `natural`: all rows alike often, whatever their label.
- `weights`: each row as often as its weight says, whatever its label.
"""


def check_sampling(name: str) -> None:
    """Raise `InputError` for what is no `Sampling`."""
    if name not in get_args(Sampling):
        raise InputError(
            f"There is no sampling {name!r}",
            expected=", ".join(get_args(Sampling)),
            fix=nearest(name, get_args(Sampling)),
        )


def draw_batches(
    sampling: Sampling,
    rows: Indices,
    bonafide: npt.NDArray[np.bool_],
    domains: npt.NDArray[np.object_],
    weights: Numbers | None,
    *,
    num_steps: int,
    batch_size: int,
    seed: int,
) -> Indices:
    """The rows of every step: (num_steps, batch_size).

    Args:
        sampling: how.
        rows: the rows to draw from, (n,).
        bonafide: which of them are bona fide, (n,).
        domains: their domains, (n,).
        weights: their expected draws, (n,), in any unit; for `weights`.
        num_steps: how many steps.
        batch_size: rows a step; even.
        seed: of all draws.

    Raises:
        InputError: `weights` are asked for and there are none, or none above 0.
    """
    count = num_steps * batch_size
    if sampling == "natural":
        drawn = _passes(rows, count, np.random.default_rng([seed, 2]))
    elif sampling == "weights":
        drawn = _weighted(rows, _checked(weights), count, np.random.default_rng([seed, 3]))
    elif sampling == "balanced":
        return balanced_batches(
            rows[bonafide], rows[~bonafide], num_steps=num_steps, batch_size=batch_size, seed=seed
        )
    else:
        half = batch_size // 2
        sides = [
            _by_domain(rows[side], domains[side], num_steps * half, [seed, 4 + number])
            for number, side in enumerate((bonafide, ~bonafide))
        ]
        return np.concatenate([side.reshape(num_steps, half) for side in sides], axis=1)
    return drawn.reshape(num_steps, batch_size)


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


def visits(batches: Indices) -> Indices:
    """How often each row came before, from 0: the shape of `batches`."""
    flat = batches.ravel()
    order = np.argsort(flat, kind="stable")
    begins = np.flatnonzero(np.diff(flat[order], prepend=-1))
    lengths = np.diff(begins, append=len(flat))
    counted = np.empty(len(flat), np.int64)
    counted[order] = np.arange(len(flat)) - np.repeat(begins, lengths)
    return counted.reshape(batches.shape)


def _passes(rows: Indices, count: int, rng: np.random.Generator) -> Indices:
    """`count` draws: shuffled passes through all rows, one after the other."""
    num_passes = math.ceil(count / len(rows))
    return np.concatenate([rng.permutation(rows) for _ in range(num_passes)])[:count]


def _by_domain(
    rows: Indices, domains: npt.NDArray[np.object_], count: int, seed: list[int]
) -> Indices:
    names = sorted(set(domains))
    picks = _passes(np.arange(len(names)), count, np.random.default_rng(seed))
    drawn = np.empty(count, np.int64)
    for number, name in enumerate(names):
        places = np.flatnonzero(picks == number)
        rng = np.random.default_rng([*seed, number])
        drawn[places] = _passes(rows[domains == name], max(len(places), 1), rng)[: len(places)]
    return drawn


def _weighted(rows: Indices, weights: Numbers, count: int, rng: np.random.Generator) -> Indices:
    """Passes of as many draws as there are rows, a row's number in each within 1 of its weight.

    Systematic sampling: evenly spaced points on the line on which each row takes up its weight.
    """
    size = len(rows)
    drawn = []
    for _ in range(math.ceil(count / size)):
        order = rng.permutation(size)
        ends = np.cumsum(weights[order])
        points = (np.arange(size) + rng.uniform()) * (ends[-1] / size)
        # A point may round up to the very end.
        found = np.minimum(np.searchsorted(ends, points, side="right"), size - 1)
        drawn.append(rng.permutation(rows[order[found]]))
    return np.concatenate(drawn)[:count]


def _checked(weights: Numbers | None) -> Numbers:
    if weights is None or not (weights > 0).any():
        raise InputError(
            "There are no weights to draw rows by",
            expected="keys with a column `weight` above 0, as with_weights gives them",
            fix="Give a saved selection that has weights: --weights NAME",
        )
    return weights
