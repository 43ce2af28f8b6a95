"""How much there is of rows that share their keys."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from curation.domains import Domain

__all__ = ["US_PER_HOUR", "Amount", "KeyGroup"]

US_PER_HOUR: Final = 3_600_000_000


@dataclass(frozen=True)
class Amount:
    """Rows, how long those are whose duration is known, and how large."""

    num_rows: int
    num_timed: int
    duration_us: int
    """In whole microseconds, so that a sum does not depend on its order."""
    num_sized: int = 0
    num_bytes: int = 0
    """Of those rows whose size is known."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(Amount))
        )


@dataclass(frozen=True)
class KeyGroup:
    """Rows that share their keys, as stored."""

    values: tuple[str | None, ...]
    """Of the key columns."""
    domain: Domain | None
    """None if a key is missing."""
    amount: Amount
