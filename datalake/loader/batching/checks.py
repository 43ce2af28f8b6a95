"""Checks of what a batching is made with, whoever gave it: a program, or a saved state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from datalake.errors import InputError

__all__ = [
    "LARGEST_WINDOW",
    "check_choice",
    "check_flag",
    "check_number",
    "check_rank",
    "check_unit",
    "check_whole",
    "shown",
]

LARGEST_WINDOW: Final = 2**20
"""Positions that may be planned together, unless a single step of all ranks takes more."""


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raises InputError unless it is a whole number in a range."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(
            f"The {name} is out of range",
            expected=f"a whole number from {least:,} to {most:,}",
            found=shown(value),
        )


def check_number(name: str, value: object) -> None:
    """Raises InputError unless it is a number above 0 and below 2**63."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 2**63:
        raise InputError(
            f"The {name} is out of range",
            expected="a number above 0 and below 2**63",
            found=shown(value),
        )


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raises InputError unless it is one of the known names."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise InputError(
            f"The {name} is unknown",
            expected=", ".join(names[:-1]) + f" or {names[-1]}",
            found=shown(value),
        )


def check_flag(name: str, value: object) -> None:
    """Raises InputError unless it is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is no flag", expected="True or False", found=shown(value))


def check_unit(value: object) -> None:
    """Raises InputError unless it can be the name of a unit."""
    if not isinstance(value, str) or not 0 < len(value) <= 64:
        raise InputError(
            "This is no unit", expected="a name such as seconds or frames", found=shown(value)
        )


def check_rank(rank: int, world_size: int) -> None:
    """Raises InputError unless the rank lies in the world."""
    if not 0 <= rank < world_size:
        raise InputError(
            "The rank lies outside of the world",
            expected="0 <= rank < world_size",
            found=f"rank {rank}, world_size {world_size}",
        )


def shown(value: object) -> str:
    """A value for a message, however long it is."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        # Python refuses to print a whole number of thousands of digits.
        return f"a value of type {type(value).__name__} that is too large to show"
    return text if len(text) <= 200 else text[:200] + "…"
