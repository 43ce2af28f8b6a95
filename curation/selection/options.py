"""What a user can ask of a selector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from curation.selection.group_dro import SMOOTHING, STEP_SIZE
from datalake.errors import InputError, nearest

__all__ = ["REAL_MODES", "Options", "RealMode", "WeightOptions"]

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
    num_rows: int | None = None
    """Rows in all."""

    def __post_init__(self) -> None:
        _check_rows("cap", self.cap)
        _check_rows("number of rows", self.num_rows)
        _check_ratio(self.ratio)
        if self.real_mode not in REAL_MODES:
            raise InputError(
                f"The real mode {self.real_mode} is not known",
                expected=", ".join(REAL_MODES),
                fix=nearest(self.real_mode, REAL_MODES),
            )


@dataclass(frozen=True)
class WeightOptions:
    """Options of all weighters; each reads those that it names in `uses`.

    Raises:
        InputError: a value is out of its range.
    """

    cap: int | None = None
    """N_c: the rows that a domain counts for at most. It loses none."""
    alpha: float | None = None
    """Exponent of a domain's size: 1 as it is, 0 all alike."""
    ratio: float = 1.0
    """rho: bona fide draws for each spoof draw."""
    beta: float = 0.999
    """b of class-balanced weights."""
    losses: str | None = None
    """The file of what a proxy lost on each domain (`curation.selection.domain_losses`)."""
    step_size: float = STEP_SIZE
    """eta of DoReMi: how fast weights follow the losses."""
    smoothing: float = SMOOTHING
    """c of DoReMi: the share that is spread evenly at each step."""

    def __post_init__(self) -> None:
        _check_rows("cap", self.cap)
        _check_ratio(self.ratio)
        if self.alpha is not None and not 0 <= self.alpha <= 1:
            raise InputError(
                "Alpha is an exponent of a domain's size",
                expected="a number from 0 (all domains alike) to 1 (as they are)",
                found=str(self.alpha),
            )
        if not 0 <= self.beta < 1:
            raise InputError(
                "Beta of class-balanced weights is out of range",
                expected="from 0 to below 1, such as .999",
                found=str(self.beta),
            )


def _check_rows(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise InputError(f"The {name} is a number of rows", expected="1 or more", found=str(value))


def _check_ratio(ratio: float) -> None:
    if not (math.isfinite(ratio) and ratio >= 0):
        raise InputError(
            "The ratio is bona fide for each spoof",
            expected="a finite number, 0 or more",
            found=str(ratio),
        )
