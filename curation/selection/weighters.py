"""How often each domain is drawn.

A weighter sees the number of rows of each domain and says what share of the draws falls on it;
within a domain all rows are alike. Like a selector it never sees a row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from curation.domains import Domain
from curation.selection.domain_losses import dro_weights, read_losses
from curation.selection.options import WeightOptions
from datalake.errors import InputError

__all__ = [
    "CLASS_BALANCED",
    "DOREMI",
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
        masses = {domain: min(size, cap) ** alpha for domain, size in sizes.items()}
        return _by_label(masses, options.ratio)


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
        return _by_label(dict.fromkeys(sizes, 1.0), options.ratio)


class Natural:
    """Every row as often as any other: naive aggregation."""

    uses: frozenset[str] = frozenset()

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:  # noqa: ARG002
        """See `Weighter.masses`."""
        return _shares({domain: float(size) for domain, size in sizes.items()})


class DoReMi:
    """Domain weights from a proxy's excess loss over a reference's (`group_dro`).

    SOURCE: arXiv 2305.10429: the weights themselves. OURS: a label's domains share what is the
    label's, at rho bona fide draws for each spoof draw; the paper has no labels, and without this
    a label that is learned fast would be hardly drawn. Re-Mix does the same for robot data, whose
    domains have no labels. Losses of domains that the table does not have do not count.
    """

    uses = frozenset({"losses", "step_size", "smoothing", "ratio"})

    def masses(self, sizes: Mapping[Domain, int], options: WeightOptions) -> Masses:
        """See `Weighter.masses`.

        Raises:
            InputError: there is no file of losses, or it lacks a domain.
            NotFoundError, SchemaError, StoreError: see `read_losses`.
        """
        if options.losses is None:
            raise InputError(
                "DoReMi needs what a proxy lost on each domain",
                expected="a file of losses (--losses)",
                fix="Train a proxy: curate proxy TABLE --out losses.parquet",
            )
        weights = dro_weights(
            read_losses(Path(options.losses)),
            step_size=options.step_size,
            smoothing=options.smoothing,
        )
        if unknown := [domain.name for domain in sizes if domain.name not in weights]:
            raise InputError(
                f"{len(unknown):,} of {len(sizes):,} domains have no losses",
                where=options.losses,
                expected="a line for each domain",
                found=f"none for {', '.join(unknown[:5])}" + (", …" if len(unknown) > 5 else ""),
                fix="Train the proxy on the rows that are weighed, or weigh fewer with a `where`",
            )
        return _by_label({domain: weights[domain.name] for domain in sizes}, options.ratio)


def _by_label(masses: Mapping[Domain, float], ratio: float) -> Masses:
    """Shares within each label, and the labels at `ratio` bona fide draws for each spoof draw."""
    parts = {
        is_bonafide: _shares(
            {domain: mass for domain, mass in masses.items() if domain.is_bonafide is is_bonafide}
        )
        for is_bonafide in (False, True)
    }
    # A table of one label, or of episodes, has nothing to share with.
    bonafide = ratio / (1 + ratio) if parts[True] and parts[False] else float(not parts[False])
    return {
        domain: parts[domain.is_bonafide][domain]
        * (bonafide if domain.is_bonafide else 1 - bonafide)
        for domain in masses
    }


def _shares(masses: Mapping[Domain, float]) -> Masses:
    total = math.fsum(masses.values())
    return {domain: mass / total for domain, mass in masses.items()}


DOSS_WEIGHT: Final = DossWeight()
TEMPERATURE: Final = Temperature()
CLASS_BALANCED: Final = ClassBalanced()
UNIFORM: Final = Uniform()
NATURAL: Final = Natural()
DOREMI: Final = DoReMi()
