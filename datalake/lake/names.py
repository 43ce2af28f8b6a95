"""Which names tables and selections may have."""

from __future__ import annotations

import re
from typing import Final

from datalake.errors import InputError

__all__ = ["check_name", "is_name"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_LONGEST: Final = 128


def is_name(name: str) -> bool:
    """Whether a table or selection may have this name."""
    return len(name) <= _LONGEST and _NAME.fullmatch(name) is not None


def check_name(name: str, kind: str) -> str:
    """`name` if a table or selection (`kind`, for the message) may have it.

    Names become folders and parts of tags, so they keep to what every store and format takes.

    Raises:
        InputError: it is empty, too long, or has other characters.
    """
    if is_name(name):
        return name
    raise InputError(
        f"A {kind} cannot have this name",
        expected=f"1 to {_LONGEST} letters, digits, '_', '-' and single dots within, "
        "beginning with a letter or digit",
        found=repr(name),
    )
