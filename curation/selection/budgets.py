"""A budget in rows, hours or bytes, and the option of a selector that spends it.

Each selector has one option that a budget turns: DOSS its cap, random sampling its number of rows.
A larger value keeps every row that a smaller one keeps, so bisection finds the largest that fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, get_args

from curation.domains import Domain
from curation.selection.amounts import US_PER_HOUR, Amount
from curation.selection.options import Options
from curation.selection.selectors import Pool, Selector
from datalake.errors import InputError, nearest

__all__ = ["UNITS", "Budget", "Unit", "spend"]

Unit: TypeAlias = Literal["rows", "hours", "bytes"]
UNITS: Final[tuple[Unit, ...]] = get_args(Unit)


@dataclass(frozen=True)
class Budget:
    """How much may be kept in all.

    Raises:
        InputError: the amount or the unit cannot be used.
    """

    amount: float
    unit: Unit = "rows"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise InputError(
                f"A budget has no unit {self.unit!r}",
                expected=", ".join(UNITS),
                fix=nearest(self.unit, UNITS),
            )
        if not (math.isfinite(self.amount) and self.amount > 0):
            raise InputError(
                "The budget is out of range",
                expected=f"a finite number of {self.unit} above 0",
                found=str(self.amount),
            )

    def cost(self, amount: Amount) -> float:
        """What rows cost in the budget's unit."""
        if self.unit == "hours":
            return amount.duration_us / US_PER_HOUR
        return float(amount.num_rows if self.unit == "rows" else amount.num_bytes)

    def refuse_unknown(self, available: Mapping[Domain, Amount]) -> None:
        """See that the cost of every row is known.

        Raises:
            InputError: rows have no duration or size.
        """
        for domain, amount in available.items():
            known = {"hours": amount.num_timed, "bytes": amount.num_sized}.get(
                self.unit, amount.num_rows
            )
            if known < amount.num_rows:
                column = "duration_s" if self.unit == "hours" else "num_bytes"
                raise InputError(
                    f"A budget in {self.unit} needs what each row costs",
                    where=domain.name,
                    expected=f"a number in the column {column}",
                    found=f"none in {amount.num_rows - known:,} of {amount.num_rows:,} rows",
                    fix=f"Give the budget in rows, or leave such rows out: {column} IS NOT NULL",
                )


def spend(
    budget: Budget, selector: Selector, options: Options, available: Mapping[Domain, Amount]
) -> Options:
    """The options with the largest value of the selector's `knob` that the budget allows.

    Rows of a domain count for their mean: which of them are kept is not known yet.

    Raises:
        InputError: the selector has no such option, it was given as well, or the budget is too
            small for one row.
    """
    knob = selector.knob
    if knob is None:
        raise InputError("This method keeps what it keeps", fix="Leave the budget out")
    if getattr(options, knob) is not None:
        raise InputError(
            f"The {knob} and a budget cannot both be given",
            expected="one of them: a budget finds the cap",
            found=f"{knob} = {getattr(options, knob)}, budget = {budget.amount:g} {budget.unit}",
        )
    sizes = {domain: amount.num_rows for domain, amount in available.items()}
    means = {domain: budget.cost(amount) / amount.num_rows for domain, amount in available.items()}

    def fits(value: int) -> bool:
        turned: Any = {knob: value}
        pools = selector.pools(sizes, replace(options, **turned))
        return _expected(pools, sizes, means) <= budget.amount * (1 + 1e-12)

    low, high = 0, sum(sizes.values()) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if not low:
        raise InputError(
            "The budget is too small",
            expected=f"enough for a {knob} of 1",
            found=f"{budget.amount:g} {budget.unit}",
        )
    turned: Any = {knob: low}
    return replace(options, **turned)


def _expected(
    pools: Sequence[Pool], sizes: Mapping[Domain, int], means: Mapping[Domain, float]
) -> float:
    return math.fsum(
        pool.keep
        * math.fsum(sizes[domain] * means[domain] for domain in pool.domains)
        / sum(sizes[domain] for domain in pool.domains)
        for pool in pools
        if pool.keep
    )
