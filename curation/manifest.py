"""What a selection took from each domain, and what that did to the mixture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from datalake.schema import BONAFIDE, SPOOF

__all__ = [
    "MANIFEST",
    "MixtureTotals",
    "num_effective_domains",
    "ratio_reached",
    "remarks",
    "totals",
]

MANIFEST: Final = pa.schema(
    [
        pa.field("domain", pa.string(), nullable=False),
        # Null for episodes.
        pa.field("label", pa.string()),
        pa.field("source", pa.string(), nullable=False),
        # Of spoofs.
        pa.field("generator", pa.string()),
        # Of episodes.
        pa.field("embodiment", pa.string()),
        pa.field("task", pa.string()),
        # n_c and k_c: the rows that there are, and those that were kept.
        pa.field("num_rows", pa.int64(), nullable=False),
        pa.field("num_kept", pa.int64(), nullable=False),
        # Of the rows whose duration is known; null if that is none.
        pa.field("hours", pa.float64()),
        pa.field("hours_kept", pa.float64()),
        # num_kept / num_rows.
        pa.field("retention", pa.float64(), nullable=False),
        # The share of draws that falls on the domain.
        pa.field("mass", pa.float64(), nullable=False),
        # Whether a limit changed what the domain counts for: a cap, a budget, a number of repeats.
        pa.field("binds", pa.bool_(), nullable=False),
        # What the order of rows reached where it chose among the domain's, in a number of its own:
        # of the cosines of rows to the nearest kept one facility location the mean, k-center the
        # least. Null where it has none, or nothing was left out.
        pa.field("order_value", pa.float64()),
    ]
)
"""The columns of a manifest, one row a domain, the largest first."""


@dataclass(frozen=True)
class MixtureTotals:
    """Sums over the domains of one label, or of both."""

    num_domains: int
    num_rows: int
    num_kept: int
    hours: float | None
    hours_kept: float | None
    mass: float
    """The share of draws."""
    num_effective_domains: float
    """exp(entropy of the domains' shares of the rows): how many equal domains are as diverse."""
    num_effective_domains_kept: float


def num_effective_domains(masses: Iterable[float]) -> float:
    """exp(entropy) of the shares that `masses` are of their sum; 0 if there is no mass."""
    positive = [mass for mass in masses if mass > 0]
    total = sum(positive)
    return math.exp(-sum(m / total * math.log(m / total) for m in positive)) if positive else 0.0


def totals(manifest: pa.Table) -> dict[str, MixtureTotals]:
    """Sums of a manifest under `bonafide`, `spoof` and `all`; of episodes under `all` alone."""
    labels = () if manifest["label"].null_count else (BONAFIDE, SPOOF)
    return {
        **{label: _sums(manifest.filter(pc.field("label") == label)) for label in labels},
        "all": _sums(manifest),
    }


def _sums(manifest: pa.Table) -> MixtureTotals:
    num_rows = manifest["num_rows"].to_pylist()
    masses = manifest["mass"].to_pylist()
    return MixtureTotals(
        num_domains=manifest.num_rows,
        num_rows=sum(num_rows),
        num_kept=pc.sum(manifest["num_kept"]).as_py() or 0,
        hours=pc.sum(manifest["hours"]).as_py(),
        hours_kept=pc.sum(manifest["hours_kept"]).as_py(),
        num_effective_domains=num_effective_domains(num_rows),
        mass=math.fsum(masses),
        num_effective_domains_kept=num_effective_domains(masses),
    )


def ratio_reached(manifest: pa.Table) -> float | None:
    """Bona fide draws for each spoof draw; None without spoofs."""
    sums = totals(manifest)
    if SPOOF not in sums or not sums[SPOOF].mass:
        return None
    return sums[BONAFIDE].mass / sums[SPOOF].mass


def remarks(manifest: pa.Table, parameters: Mapping[str, object]) -> list[str]:
    """What a person should know about a selection that did not do what its options suggest."""
    found = []
    cap, ratio, budget, unit = (parameters.get(name) for name in ("cap", "ratio", "budget", "unit"))
    is_speech = not manifest["label"].null_count
    capped = manifest.filter(pc.field("label") == SPOOF) if is_speech else manifest
    if isinstance(cap, int) and budget is None and not pc.any(capped["binds"]).as_py():
        largest = pc.max(capped["num_rows"]).as_py() or 0
        kind = "spoof domain" if is_speech else "domain"
        found.append(
            f"The cap of {cap:,} binds no {kind}: the largest has {largest:,} rows. Their mixture "
            "is the table's own; choose a lower cap."
        )
    reached = ratio_reached(manifest)
    by_ratio = parameters.get("real_mode") in ("per_source", "total")
    asked = ratio if by_ratio and isinstance(ratio, int | float) else 0
    if reached is not None and reached < 0.99 * asked:
        found.append(
            f"The ratio reached is {reached:.3g} where {asked:g} was asked: there are not enough "
            "bona fide rows in the sources that may give them."
        )
    everything = totals(manifest)["all"]
    there_is = {"rows": everything.num_rows, "hours": everything.hours}.get(str(unit))
    if isinstance(budget, int | float) and there_is is not None and budget > there_is:
        found.append(f"The budget of {budget:,g} {unit} is more than there is: {there_is:,g}.")
    return found
