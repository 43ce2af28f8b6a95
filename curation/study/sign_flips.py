"""The paired test by sign flips, and Holm's correction for many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["MAX_EXACT_UNITS", "SignFlips", "holm", "sign_flip_test", "smallest_p_value"]

MAX_EXACT_UNITS: Final = 18
"""Up to 2^18 = 262,144 sign patterns are all looked at; beyond, some are drawn."""

NUM_DRAWS: Final = 100_000
_BLOCK: Final = 1 << 14


@dataclass(frozen=True)
class SignFlips:
    """What a test by sign flips found."""

    p_value: float
    """Two-sided."""
    smallest: float
    """The p that this number of units would give if all of them agreed."""
    num_patterns: int
    """Sign patterns looked at: all 2^n of them, or those drawn."""
    exact: bool


def sign_flip_test(
    differences: npt.ArrayLike, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> SignFlips:
    """Whether paired differences lean to one side: the permutation test of their mean, two-sided.

    If two methods do equally well, a unit's difference is as likely with either sign. So p is the
    share of the 2^n sign patterns whose mean lies at least as far from 0 as the one seen (Fisher,
    The Design of Experiments, 1935). No distribution is assumed. Above `MAX_EXACT_UNITS` patterns
    are drawn, and the one seen counts among them (Phipson and Smyth, 2010), so p is never 0.

    Args:
        differences: shape (n,), one a unit. Their order does not matter.
        num_draws: patterns drawn where there are too many.
        seed: of the draws.

    Raises:
        InputError: there is no difference, or one is not finite.
    """
    values = np.sort(np.asarray(differences, np.float64))
    if not len(values) or not np.isfinite(values).all():
        raise InputError("A paired test needs differences, all of them finite")
    # Sums of the same terms in another order may differ in their last bits: those are ties.
    bar = abs(values.sum()) - 1e-12 * np.abs(values).sum()
    n = len(values)
    if n <= MAX_EXACT_UNITS:
        # A pattern and its mirror lie equally far: the last sign stays.
        num_half = 1 << (n - 1)
        count = 0
        bits = np.arange(n - 1)
        for start in range(0, num_half, _BLOCK):
            patterns = np.arange(start, min(start + _BLOCK, num_half))
            signs = 1.0 - 2.0 * ((patterns[:, None] >> bits) & 1)
            count += int(np.count_nonzero(np.abs(signs @ values[:-1] + values[-1]) >= bar))
        return SignFlips(count / num_half, smallest_p_value(n), 1 << n, exact=True)
    rng = np.random.default_rng(seed)
    count = 1
    for start in range(0, num_draws, _BLOCK):
        signs = 1.0 - 2.0 * rng.integers(2, size=(min(_BLOCK, num_draws - start), n))
        count += int(np.count_nonzero(np.abs(signs @ values) >= bar))
    smallest = max(smallest_p_value(n), 1 / (num_draws + 1))
    return SignFlips(count / (num_draws + 1), smallest, num_draws, exact=False)


def smallest_p_value(num_units: int) -> float:
    """2 / 2^n: the two-sided p where all n units agree, which no data can go below.

    Five units give .0625: however clear the effect, five seeds or five folds alone do not reach
    .05. Six give .03125.
    """
    return min(2.0 ** (1 - num_units), 1.0)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted so that among all of them the chance of any false alarm stays at the level.

    Holm, "A Simple Sequentially Rejective Multiple Test Procedure" (1979): the k-th smallest of m
    is multiplied by m - k + 1, and none is less than one before it.
    """
    adjusted = [0.0] * len(p_values)
    floor = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for rank, index in enumerate(order):
        floor = max(floor, min((len(p_values) - rank) * p_values[index], 1.0))
        adjusted[index] = floor
    return adjusted
