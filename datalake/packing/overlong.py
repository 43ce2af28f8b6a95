"""Items longer than a bin: refused, cut short, or split into pieces that follow each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["Overlong", "Pieces", "fit"]

Overlong: TypeAlias = Literal["raise", "truncate", "split"]

_CHOICES: Final = ("raise", "truncate", "split")
_LONGEST: Final = 2**31 - 1


@dataclass(frozen=True)
class Pieces:
    """Items as they go into bins."""

    items: npt.NDArray[np.int64]
    """The item that each piece is of, ascending, (pieces,)."""
    starts: npt.NDArray[np.int32]
    """Where in the item each begins, (pieces,)."""
    lengths: npt.NDArray[np.int32]
    """(pieces,), each at most the capacity."""
    cut_items: npt.NDArray[np.int64]
    """Items that were cut short."""
    cut_lengths: npt.NDArray[np.int64]
    """How much of each is lost."""


def fit(
    lengths: npt.ArrayLike,
    capacity: int | npt.NDArray[np.int64],
    overlong: Overlong = "raise",
    *,
    first_item: int = 0,
) -> Pieces:
    """Make items fit: each piece is at most as long as a bin.

    Args:
        lengths: of the items, whole numbers of at least 1, (items,).
        capacity: of a bin; or the longest piece of each item, (items,).
        overlong: `raise`, `truncate` (the end is lost, and reported), or `split` (pieces of the
            capacity, then the rest).
        first_item: the number of the first item.

    Raises:
        InputError: a length is none, or an item is too long and shall raise (both name the item).
    """
    if overlong not in _CHOICES:
        raise InputError(
            "What becomes of overlong items is not known",
            expected=", ".join(_CHOICES),
            found=repr(overlong),
        )
    given = _checked(lengths, first_item)
    items = np.arange(first_item, first_item + len(given), dtype=np.int64)
    none = np.empty(0, np.int64)
    zeros = np.zeros(len(given), np.int32)
    too_long = given > capacity
    if not too_long.any():
        return Pieces(items, zeros, given.astype(np.int32), none, none)
    if overlong == "raise":
        place = int(np.argmax(too_long))
        limit = int(np.broadcast_to(capacity, given.shape)[place])
        raise InputError(
            f"Item {first_item + place} is longer than a bin",
            expected=f"at most {limit:,}",
            found=f"{int(given[place]):,}",
            fix="Raise the budget, or have overlong items truncated or split",
        )
    limits = np.broadcast_to(np.asarray(capacity, np.int64), given.shape)
    if overlong == "truncate":
        kept = np.minimum(given, limits)
        lost = (given - kept)[too_long]
        return Pieces(items, zeros, kept.astype(np.int32), items[too_long], lost)
    num_pieces = -(-given // limits)
    owner = np.repeat(np.arange(len(given)), num_pieces)
    ends = np.cumsum(num_pieces)
    number = np.arange(len(owner)) - np.repeat(ends - num_pieces, num_pieces)
    starts = number * limits[owner]
    sizes = np.minimum(given[owner] - starts, limits[owner])
    return Pieces(items[owner], starts.astype(np.int32), sizes.astype(np.int32), none, none)


def _checked(lengths: npt.ArrayLike, first_item: int) -> npt.NDArray[np.int64]:
    given = np.asarray(lengths)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise InputError(
            "Lengths are no list of whole numbers",
            expected="one dimension, integers",
            found=f"shape {given.shape}, {given.dtype}",
        )
    bad = (given < 1) | (given > _LONGEST)
    if bad.any():
        place = int(np.argmax(bad))
        raise InputError(
            f"Item {first_item + place} has an impossible length",
            expected=f"1 to {_LONGEST}",
            found=str(given[place]),
        )
    return given.astype(np.int64)
