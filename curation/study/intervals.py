"""Intervals of a mean over few units, as the folds of a study.

The unit is what would be new if the study were done again elsewhere: a held-out generator or
source. Its seeds are averaged first; taking every training for a unit of its own would count the
same generator five times and give intervals that are too narrow.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["NUM_RESAMPLES", "Bounds", "bca_interval", "check_level", "t_interval", "t_quantile"]

Bounds = tuple[float, float]
"""Low, high."""

NUM_RESAMPLES: Final = 10_000
_BLOCK: Final = 1_000_000


def t_interval(values: npt.ArrayLike, *, level: float = 0.95) -> Bounds | None:
    """The t interval of the mean of independent values; None for fewer than two.

    Args:
        values: shape (n,), one a unit.
        level: how often such intervals hold the mean, where values are near to normal.

    Raises:
        InputError: the level is no share.
    """
    check_level(level)
    numbers = np.asarray(values, np.float64)
    if len(numbers) < 2:
        return None
    mean = math.fsum(numbers) / len(numbers)
    half = t_quantile((1 + level) / 2, len(numbers) - 1) * _standard_error(numbers)
    return mean - half, mean + half


def bca_interval(
    values: npt.ArrayLike,
    *,
    level: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> Bounds | None:
    """The bias-corrected and accelerated bootstrap interval of a mean; None for fewer than two.

    Whole units are drawn with replacement: the bootstrap clustered by fold, if a value is a fold's
    mean over its seeds. Efron, "Better Bootstrap Confidence Intervals" (1987). It follows skew,
    that the t interval does not; of five units or fewer it is too narrow, since no mean beyond the
    units seen can be drawn.

    Args:
        values: shape (n,), one a unit. Their order does not matter.
        level: the nominal coverage.
        num_resamples: draws of n units.
        seed: the same seed gives the same interval.

    Raises:
        InputError: the level is no share, or there are no resamples.
    """
    check_level(level)
    if num_resamples < 1:
        raise InputError(
            "A bootstrap needs replicates", expected="at least 1", found=str(num_resamples)
        )
    numbers = np.sort(np.asarray(values, np.float64))
    if len(numbers) < 2:
        return None
    if numbers[0] == numbers[-1]:
        return float(numbers[0]), float(numbers[0])
    means = _resampled_means(numbers, num_resamples, seed)
    # Means that tie with the one seen count half: few units have few different means.
    mean = numbers.mean()
    near = np.isclose(means, mean, rtol=1e-12, atol=0)
    below = (np.count_nonzero((means < mean) & ~near) + np.count_nonzero(near) / 2) / len(means)
    normal = NormalDist()
    edge = 0.5 / len(means)
    bias = normal.inv_cdf(min(max(below, edge), 1 - edge))
    # The jackknife of a mean: what is left out pulls by its distance.
    pull = numbers - mean
    acceleration = float((pull**3).sum() / (6 * (pull**2).sum() ** 1.5))
    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(share)
        ends.append(normal.cdf(bias + z / (1 - acceleration * z)))
    low, high = np.quantile(means, ends)
    return float(low), float(high)


def t_quantile(share: float, num_freedoms: int) -> float:
    """The t that Student's distribution stays below with probability `share`, .5 <= share < 1.

    The distribution of whole degrees of freedom is a finite sum (Abramowitz and Stegun, 26.7.3 and
    26.7.4); its inverse is found by bisection, to the last bits.

    Raises:
        InputError: there are no degrees of freedom, or the share is out of its range.
    """
    if num_freedoms < 1 or not 0.5 <= share < 1:
        raise InputError(
            "No such quantile of Student's distribution",
            expected="at least 1 degree of freedom and a share from .5 to below 1",
            found=f"{num_freedoms} and {share}",
        )
    inside = 2 * share - 1
    low, high = 0.0, 1.0
    while _within(high, num_freedoms) < inside:
        high *= 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return middle
        if _within(middle, num_freedoms) < inside:
            low = middle
        else:
            high = middle


def check_level(level: float) -> None:
    """Refuse a level that is no share.

    Raises:
        InputError: it is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(
            "The level of an interval is a share", expected="between 0 and 1", found=str(level)
        )


def _within(t: float, num_freedoms: int) -> float:
    """P(|T| <= t)."""
    angle = math.atan2(t, math.sqrt(num_freedoms))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = num_freedoms % 2
    term = cosine if is_odd else 1.0
    total = 0.0
    for step in range(is_odd + 2, num_freedoms + 1, 2):
        total += term
        term *= cosine * cosine * (step - 1) / step
    return (angle + sine * total) * 2 / math.pi if is_odd else sine * total


def _standard_error(numbers: npt.NDArray[np.float64]) -> float:
    return float(numbers.std(ddof=1) / math.sqrt(len(numbers)))


def _resampled_means(
    numbers: npt.NDArray[np.float64], num_resamples: int, seed: int
) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    means = []
    block = max(_BLOCK // len(numbers), 1)
    for start in range(0, num_resamples, block):
        shape = (min(block, num_resamples - start), len(numbers))
        means.append(numbers[rng.integers(len(numbers), size=shape)].mean(axis=1))
    return np.concatenate(means)
