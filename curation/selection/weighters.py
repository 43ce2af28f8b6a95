"""How often each domain is drawn.

A weighter sees the number of rows of each domain and says what share of the draws falls on it;
within a domain all rows are alike. Like a selector it never sees a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol, runtime_checkable

from curation.domains import Domain
from curation.selection.options import WeightOptions
from datalake.errors import InputError

__all__ = [
    "CLASS_BALANCED",
    "DOSS_WEIGHT",
    "NATURAL",
    "TEMPERATURE",
    "UNIFORM",
    "Masses",
    "Weighter",
]

Masses = dict[Domain, float]


@runtime_checkable
class Weighter(Protocol):
    """Decides how often each domain is drawn. Stateless and deterministic."""

    uses: frozenset[str]
    """The fields of `WeightOptions` that it reads. Setting another one is an error of the user."""

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:
        """Decide.

        Args:
            sizes: rows of each domain, at least 1, in the order of the domains.
            options: what the user asked for.

        Returns:
            The share of draws of each domain; they sum to 1.

        Raises:
            InputError: an option that it needs is missing.
        """
        ...


class DossWeight:
    """DOSS-Weight: domains count for what a capped and tempered size says, and none is cut.

    OURS, after the principle of arXiv 2512.18210, whose own formula could not be had:
    m_c = min(n_c, N_c)^alpha; p(c | y) = m_c / sum of m over the domains of label y;
    P(bona fide) = rho / (1 + rho). alpha = 1 without a cap is naive aggregation at the ratio rho;
    alpha = 0 uniform over the domains of a label; alpha = 1 with a cap is DOSS-Select in
    expectation, with nothing thrown away.
    """

    uses = frozenset({"cap", "alpha", "ratio"})

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:
        """See `Weighter.masses`."""
        cap = math.inf if options.cap is None else options.cap
        alpha = 1.0 if options.alpha is None else options.alpha
        return _by_label(sizes, lambda size: min(size, cap) ** alpha, options.ratio)


class Temperature:
    """Temperature sampling: p(c) in proportion to n_c^alpha over all domains, T = 1 / alpha.

    SOURCE: multilingual pre-training's habit (arXiv 1901.07291, eq. 1). alpha = .5 is the inverse
    square root; labels are not looked at.
    """

    uses = frozenset({"alpha"})

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:
        """See `Weighter.masses`."""
        if options.alpha is None:
            raise InputError(
                "Temperature sampling needs alpha",
                expected="an exponent from 0, uniform, to 1, as the rows are (--alpha)",
                fix="Try --alpha .5, the inverse square root",
            )
        alpha = options.alpha
        return _shares({domain: size**alpha for domain, size in sizes.items()})


class ClassBalanced:
    """Class-balanced weights: a row of domain c weighs (1 - b) / (1 - b^n_c).

    SOURCE: Cui et al., CVPR 2019 (arXiv 1901.05555), eq. 3, with the domain as the class. b = 0 is
    naive aggregation, b towards 1 uniform over domains.
    """

    uses = frozenset({"beta"})

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:
        """See `Weighter.masses`."""
        beta = options.beta
        # 1 - b^n, without the cancellation for b near 1.
        return _shares(
            {
                domain: size * (1 - beta) / -math.expm1(size * math.log(beta)) if beta else size
                for domain, size in sizes.items()
            }
        )


class Uniform:
    """Every domain as often as any other, at rho bona fide draws for each spoof draw."""

    uses = frozenset({"ratio"})

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:
        """See `Weighter.masses`."""
        return _by_label(sizes, lambda _: 1.0, options.ratio)


class Natural:
    """Every row as often as any other: naive aggregation."""

    uses: frozenset[str] = frozenset()

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:  # noqa: ARG002
        """See `Weighter.masses`."""
        return _shares({domain: float(size) for domain, size in sizes.items()})


def _by_label(sizes: Mapping[Domain, int], mass: Callable[[int], float], ratio: float) -> Masses:
    """Shares within each label, and the labels at `ratio` bona fide draws for each spoof draw."""
    parts = {
        is_bonafide: _shares(
            {
                domain: mass(size)
                for domain, size in sizes.items()
                if domain.is_bonafide is is_bonafide
            }
        )
        for is_bonafide in (False, True)
    }
    # A table of one label, or of episodes, has nothing to share with.
    bonafide = ratio / (1 + ratio) if parts[True] and parts[False] else float(not parts[False])
    return {
        domain: parts[domain.is_bonafide][domain]
        * (bonafide if domain.is_bonafide else 1 - bonafide)
        for domain in sizes
    }


def _shares(masses: Mapping[Domain, float]) -> Masses:
    total = math.fsum(masses.values())
    return {domain: mass / total for domain, mass in masses.items()}


DOSS_WEIGHT: Final = DossWeight()
TEMPERATURE: Final = Temperature()
CLASS_BALANCED: Final = ClassBalanced()
UNIFORM: Final = Uniform()
NATURAL: Final = Natural()
