"""A limit on how often a row may be expected in an epoch."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from curation.domains import Domain

__all__ = ["limit_repeats"]


def limit_repeats(
    masses: Mapping[Domain, float], sizes: Mapping[Domain, int], max_repeat: float
) -> dict[Domain, float]:
    """Cut domains whose rows would come too often, and share what that frees.

    An epoch has as many draws as there are rows, so a row of domain c is expected
    p(c) * N / n_c times. What is cut goes to the domains of the same label that have room, in
    proportion to their shares, and to those of the other label once none has.

    Args:
        masses: the share of draws of each domain; they sum to 1.
        sizes: rows of each domain.
        max_repeat: most draws of a row expected in an epoch, 1 or more.

    Returns:
        Shares that sum to 1, none above its limit.
    """
    num_rows = sum(sizes.values())
    limits = {domain: max_repeat * size / num_rows for domain, size in sizes.items()}
    cut: dict[Domain, float] = {}
    for is_bonafide in (False, True):
        within = [domain for domain in masses if domain.is_bonafide is is_bonafide]
        budget = math.fsum(masses[domain] for domain in within)
        cut |= _filled(masses, limits, within, budget)
    left = math.fsum(masses.values()) - math.fsum(cut.values())
    if left > 1e-12:
        open_ = [domain for domain in cut if cut[domain] < limits[domain]]
        budget = math.fsum(cut[domain] for domain in open_) + left
        cut |= _filled(masses, limits, open_, budget)
    return {domain: cut[domain] for domain in masses}


def _filled(
    masses: Mapping[Domain, float],
    limits: Mapping[Domain, float],
    domains: Collection[Domain],
    budget: float,
) -> dict[Domain, float]:
    """Water-filling: min(limit, level * mass) each, with the level that spends the budget."""
    filled: dict[Domain, float] = {}
    # Those that reach their limit at the lowest level come first.
    rest = sorted(
        (domain for domain in domains if masses[domain] > 0),
        key=lambda domain: limits[domain] / masses[domain],
    )
    weight = math.fsum(masses[domain] for domain in rest)
    for number, domain in enumerate(rest):
        if limits[domain] * weight > budget * masses[domain]:
            level = budget / weight
            filled |= {other: level * masses[other] for other in rest[number:]}
            break
        filled[domain] = limits[domain]
        budget -= limits[domain]
        weight -= masses[domain]
    return {domain: filled.get(domain, 0.0) for domain in domains}
