"""Numbers of bytes on the command line: `200GB`, `64GiB`, `5e9`."""

from __future__ import annotations

import re
from typing import Final

from datalake.errors import InputError

__all__ = ["read_bytes"]

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d*)?(?:e\d+)?)\s*([kmgtp]?)(i?)b?", re.IGNORECASE)
_POWERS: Final = " kmgtp"


def read_bytes(name: str, text: str) -> int:
    """A number of bytes, with or without a unit (powers of 1000, or of 1024 with an i).

    Raises:
        InputError: it is none, or not positive.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is not None:
        number, unit, binary = found.groups()
        power = _POWERS.index(unit.lower() or " ")
        value = int(float(number) * (1024 if binary else 1000) ** power)
        if value > 0:
            return value
    raise InputError(
        f"{name} is no number of bytes", expected="such as 200GB, 64GiB or 5000000", found=text
    )
