"""How many rows of each domain to keep.

A selector sees the number of rows of each domain and says how many to keep. It never sees a row, so
it runs on any table at once and is tested on plain numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from curation.domains import Domain
from curation.selection.options import Options
from curation.selection.water_fill import water_fill
from datalake.errors import InputError

__all__ = ["DOSS", "NAIVE", "RANDOM", "Pool", "Selector"]


@dataclass(frozen=True)
class Pool:
    """Domains whose rows are cut together: the first `keep` of all of them, in hash order."""

    domains: tuple[Domain, ...]
    keep: int


@runtime_checkable
class Selector(Protocol):
    """Decides how many rows to keep. Stateless and deterministic."""

    uses: frozenset[str]
    """The fields of `Options` that it reads. Setting another one is an error of the user."""
    knob: str | None
    """The one of them that a budget turns, a number of 1 or more: a larger one keeps all that a
    smaller one keeps. None if there is none."""

    def pools(self, sizes: Mapping[Domain, int], options: Options) -> list[Pool]:
        """Decide.

        Args:
            sizes: rows of each domain, at least 1, in the order of the domains.
            options: what the user asked for.

        Returns:
            Pools that have no domain in common. Rows of a domain that is in no pool are dropped.

        Raises:
            InputError: an option that it needs is missing.
        """
        ...


class DiversityOptimizedSampling:
    """DOSS-Select (arXiv 2512.18210): no spoof domain counts for more than N_c rows.

    SOURCE, second-hand: spoof domains (source and generator) are capped at N_c, and bona fide
    domains (sources) are scaled by a ratio rho. OURS: what scaling means, by `real_mode`.

    - `per_source`: a source gives rho bona fide rows for each of its spoof rows, so that a source
      does not leak the label. What a source lacks is water-filled over the sources that have bona
      fide rows only.
    - `total`: rho rows for each spoof row, water-filled over all bona fide domains.
    - `cap`: at most rho N_c rows of each bona fide domain.

    Domains of episodes are all capped, and nothing follows them by a ratio.

    Products with rho are rounded to whole rows, halves up. A larger N_c keeps every row that a
    smaller one keeps.
    """

    uses = frozenset({"cap", "ratio", "real_mode"})
    knob: str | None = "cap"

    def pools(self, sizes: Mapping[Domain, int], options: Options) -> list[Pool]:
        """See `Selector.pools`."""
        if options.cap is None:
            raise InputError(
                "DOSS needs a cap",
                expected="N_c, the most rows of a spoof domain (--cap), or a budget that finds it",
                fix="Try a cap of 500, or near the median size of the spoof domains",
            )
        bonafide = {domain: size for domain, size in sizes.items() if domain.is_bonafide}
        spoof = {
            domain: min(size, options.cap)
            for domain, size in sizes.items()
            if domain not in bonafide
        }
        if options.real_mode == "cap":
            most = _rows(options.ratio * options.cap)
            kept = {domain: min(size, most) for domain, size in bonafide.items()}
        elif options.real_mode == "total":
            kept = _filled(bonafide, _rows(options.ratio * sum(spoof.values())))
        else:
            kept = _per_source(bonafide, spoof, options.ratio)
        return [Pool((domain,), keep) for domain, keep in {**spoof, **kept}.items()]


def _per_source(
    bonafide: Mapping[Domain, int], spoof: Mapping[Domain, int], ratio: float
) -> dict[Domain, int]:
    spoof_rows: Counter[str] = Counter()
    for domain, keep in spoof.items():
        spoof_rows[domain.source] += keep
    wanted = {source: _rows(ratio * count) for source, count in spoof_rows.items()}
    matched = {
        domain: min(size, wanted[domain.source])
        for domain, size in bonafide.items()
        if domain.source in wanted
    }
    real_only = {domain: size for domain, size in bonafide.items() if domain.source not in wanted}
    return matched | _filled(real_only, sum(wanted.values()) - sum(matched.values()))


def _filled(sizes: Mapping[Domain, int], budget: int) -> dict[Domain, int]:
    return dict(zip(sizes, water_fill(list(sizes.values()), budget), strict=True))


def _rows(amount: float) -> int:
    return math.floor(amount + 0.5)


class RandomSampling:
    """A budget of rows drawn uniformly from the whole table: the baseline of equal size."""

    uses = frozenset({"num_rows"})
    knob: str | None = "num_rows"

    def pools(self, sizes: Mapping[Domain, int], options: Options) -> list[Pool]:
        """See `Selector.pools`."""
        if options.num_rows is None:
            raise InputError(
                "Random selection needs a budget",
                expected="how much to keep (--budget), or a selection of that size (--like)",
            )
        return [Pool(tuple(sizes), options.num_rows)]


class NaiveAggregation:
    """Every row: corpora thrown together as they are."""

    uses: frozenset[str] = frozenset()
    knob: str | None = None

    def pools(self, sizes: Mapping[Domain, int], options: Options) -> list[Pool]:  # noqa: ARG002
        """See `Selector.pools`."""
        return [Pool((domain,), size) for domain, size in sizes.items()]


DOSS: Final = DiversityOptimizedSampling()
RANDOM: Final = RandomSampling()
NAIVE: Final = NaiveAggregation()
