"""Which rows to drop, given the pairs that are duplicates of each other.

Rows are numbered in the order in which they are visited (by quality, or by a hash of their id).

- `cover` (ours): a row is dropped if a row KEPT before it is its duplicate. So every dropped row
  has a kept one within the threshold, and no two kept rows are duplicates.
- `semdedup` (Abbas et al., arXiv 2303.09540): a row is dropped if any row before it is, dropped or
  not. On chains, each a little further from the first, it drops rows that no kept row stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["CutOff", "Dropped", "Pairs", "Rule", "drop_duplicates"]

Rule = Literal["cover", "semdedup"]


@dataclass(frozen=True)
class Pairs:
    """Pairs of duplicates, each once or more often, in any order and either way round."""

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    similarity: npt.NDArray[np.float64]
    """(pairs,) each."""


@dataclass(frozen=True)
class Dropped:
    """Rows dropped, ascending; (rows dropped,) each."""

    rows: npt.NDArray[np.int64]
    kept_by: npt.NDArray[np.int64]
    """The first kept row that is its duplicate; -1 where none is (`semdedup` only)."""
    similarity: npt.NDArray[np.float64]
    """To the row in `kept_by`; NaN where none is."""

    @property
    def num_uncovered(self) -> int:
        """Dropped rows that no kept row stands for."""
        return int((self.kept_by < 0).sum())


@dataclass(frozen=True)
class CutOff:
    """Rows whose earlier duplicates are not all among the pairs."""

    rows: npt.NDArray[np.bool_]
    """(rows,); each of them has a pair at least."""
    first_kept: Callable[[int, npt.NDArray[np.bool_]], tuple[int, float] | None]
    """From a row, and which rows before it are kept, to the first kept duplicate and how like it
    is; None if no kept row is one."""


def drop_duplicates(
    pairs: Pairs, num_rows: int, *, rule: Rule = "cover", cut_off: CutOff | None = None
) -> Dropped:
    """Decide on each row in order. Memory: some 60 bytes a pair and 17 a row.

    Args:
        pairs: the first duplicates of each row, or all of them.
        num_rows: how many rows there are.
        rule: which rows go.
        cut_off: rows of which more duplicates are to be asked for, if none of those listed is kept.

    Raises:
        InputError: a pair names a row that is not there, or the rule is not known.
    """
    if rule not in ("cover", "semdedup"):
        raise InputError(f"There is no rule {rule}", expected="cover or semdedup")
    earlier = np.minimum(pairs.left, pairs.right)
    later = np.maximum(pairs.left, pairs.right)
    if len(later) and (earlier.min() < 0 or later.max() >= num_rows):
        raise InputError(
            "A pair names a row that is not there",
            expected=f"0 to {num_rows - 1}",
            found=f"{earlier.min()} and {later.max()}",
        )
    order = np.lexsort((-pairs.similarity, earlier, later))
    order = order[earlier[order] != later[order]]
    earlier, later, similarity = earlier[order], later[order], pairs.similarity[order]
    keeps = np.ones(num_rows, np.bool_)
    if rule == "semdedup":
        keeps[later] = False
    kept_by = np.full(num_rows, -1, np.int64)
    likeness = np.full(num_rows, np.nan)
    last = np.ones(len(later), np.bool_)
    last[:-1] = later[1:] != later[:-1]
    asks = last & cut_off.rows[later] if cut_off is not None else np.zeros(len(later), np.bool_)
    for one, other, value, ask in zip(
        earlier.tolist(), later.tolist(), similarity.tolist(), asks.tolist(), strict=True
    ):
        # Pairs come by their later row, and all that decides on the earlier one is behind us.
        if keeps[one] and kept_by[other] < 0:
            keeps[other] = False
            kept_by[other], likeness[other] = one, value
        if ask and kept_by[other] < 0 and cut_off is not None:
            more = cut_off.first_kept(other, keeps)
            if more is not None:
                keeps[other] = False
                kept_by[other], likeness[other] = more
    rows = np.flatnonzero(~keeps)
    return Dropped(rows, kept_by[rows], likeness[rows])
