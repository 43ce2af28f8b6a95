"""What a user can ask of a selector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from datalake.errors import InputError, nearest

__all__ = ["REAL_MODES", "Options", "RealMode"]

RealMode = Literal["per_source", "total", "cap"]
REAL_MODES: Final[tuple[RealMode, ...]] = get_args(RealMode)


@dataclass(frozen=True)
class Options:
    """Options of all selectors; each reads those that it names in `uses`.

    Raises:
        InputError: a value is out of its range.
    """

    cap: int | None = None
    """N_c: most rows of a spoof domain."""
    ratio: float = 1.0
    """rho: bona fide rows wanted for each spoof row."""
    real_mode: RealMode = "per_source"
    """How the bona fide rows are shared out over the sources."""
    budget: int | None = None
    """Rows in all."""

    def __post_init__(self) -> None:
        for name in ("cap", "budget"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(
                    f"The {name} is a number of rows", expected="1 or more", found=str(value)
                )
        if not (math.isfinite(self.ratio) and self.ratio >= 0):
            raise InputError(
                "The ratio is bona fide rows for each spoof row",
                expected="a finite number, 0 or more",
                found=str(self.ratio),
            )
        if self.real_mode not in REAL_MODES:
            raise InputError(
                f"The real mode {self.real_mode} is not known",
                expected=", ".join(REAL_MODES),
                fix=nearest(self.real_mode, REAL_MODES),
            )
