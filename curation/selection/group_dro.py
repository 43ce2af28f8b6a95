"""Domain weights by group distributionally robust optimisation, as DoReMi learns them.

SOURCE: Xie et al., arXiv 2305.10429, algorithm 1. A proxy is trained on a mixture; at each step the
weight of a domain grows by the exponential of its excess loss, the part by which the proxy's loss
is above a reference's: what can still be learned of it. The weights of all steps are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["SMOOTHING", "STEP_SIZE", "GroupDro"]

STEP_SIZE: Final = 1.0
"""eta of the paper."""
SMOOTHING: Final = 1e-3
"""c of the paper."""

FloatArray = npt.NDArray[np.float64]


class GroupDro:
    """The weights of domains, a step at a time.

    alpha' = alpha exp(eta * excess); alpha = (1 - c) alpha' / sum(alpha') + c / k. OURS: a domain
    of which a step has no row keeps the excess that was seen last, 0 at first.

    Args:
        domains: their names; k of them, one at least.
        step_size: eta.
        smoothing: c, the share that is spread evenly over the domains.

    Raises:
        InputError: a number is out of its range, or there is no domain.
    """

    def __init__(
        self,
        domains: Sequence[str],
        *,
        step_size: float = STEP_SIZE,
        smoothing: float = SMOOTHING,
    ) -> None:
        if not (math.isfinite(step_size) and step_size > 0):
            raise InputError(
                "The step size is out of range", expected="a number above 0", found=str(step_size)
            )
        if not 0 <= smoothing <= 1:
            raise InputError(
                "The smoothing is out of range", expected="from 0 to 1", found=str(smoothing)
            )
        if not domains:
            raise InputError("There is no domain to weigh")
        self.domains = tuple(domains)
        self.num_steps = 0
        self._step_size = step_size
        self._smoothing = smoothing
        self._weights = np.full(len(domains), 1 / len(domains))
        self._excess = np.zeros(len(domains))
        self._sum = np.zeros(len(domains))

    @property
    def weights(self) -> FloatArray:
        """Of the step that was taken last, (domains,); all alike at first. They sum to 1."""
        return self._weights

    def step(self, excess: FloatArray) -> FloatArray:
        """Take a step.

        Args:
            excess: the mean over the step's rows of a domain of max(loss - reference loss, 0),
                (domains,); NaN for domains that the step has no row of.

        Returns:
            The new weights: what the proxy's step is to be weighted by.

        Raises:
            InputError: an excess is infinite or below 0.
        """
        seen = ~np.isnan(excess)
        if not (np.isfinite(excess[seen]).all() and (excess[seen] >= 0).all()):
            raise InputError(
                "An excess loss cannot be",
                where=f"step {self.num_steps + 1}",
                expected="finite numbers, 0 or more",
                found=str(excess[seen].tolist())[:200],
            )
        self._excess[seen] = excess[seen]
        grown = np.log(np.maximum(self._weights, np.finfo(np.float64).tiny))
        grown += self._step_size * self._excess
        grown = np.exp(grown - grown.max())
        spread = self._smoothing / len(self.domains)
        self._weights = (1 - self._smoothing) * grown / math.fsum(grown) + spread
        self._sum += self._weights
        self.num_steps += 1
        return self._weights

    def average(self) -> Mapping[str, float]:
        """The mean of the weights over the steps taken, by domain; all alike before the first."""
        total = self._sum / self.num_steps if self.num_steps else self._weights
        return dict(zip(self.domains, total.tolist(), strict=True))
