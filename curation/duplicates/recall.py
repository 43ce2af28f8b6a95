"""How much of what there is to find a search has found, measured on a sample against all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.duplicates.cells import Cells
from curation.duplicates.near_pairs import SLACK, cosines
from curation.duplicates.vectors import VectorFile

__all__ = ["Recall", "measure_recall"]

_ROWS: Final = 2048

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Recall:
    """Of a sample of rows."""

    num_sampled: int
    num_pairs: int
    """Pairs that the sampled rows make with all rows, by exact comparison."""
    num_met: int
    """Those of them that the search compares."""
    num_kept: int
    """Sampled rows that are kept."""
    num_kept_near_kept: int
    """Those of them that have a kept duplicate still: what the search missed."""

    @property
    def pairs(self) -> float:
        """The share of pairs that the search compares; 1 if there are none."""
        return self.num_met / self.num_pairs if self.num_pairs else 1.0

    @property
    def still_duplicates(self) -> float:
        """The share of kept rows that have a kept duplicate still."""
        return self.num_kept_near_kept / self.num_kept if self.num_kept else 0.0


def measure_recall(
    vectors: VectorFile, cells: Cells, threshold: float, kept: BoolArray, num_sampled: int
) -> Recall:
    """Compare the last rows with all rows: in the order of a hash they are a random sample.

    Not the first rows, which cells were fitted on. Memory: the sample, and tiles of some 50 MB.

    Args:
        vectors: in the order of a hash.
        cells: of the search.
        threshold: least cosine of a pair.
        kept: which vectors are kept, (vectors,).
        num_sampled: how many rows are sampled; fewer if there are fewer.
    """
    start = max(vectors.num_rows - num_sampled, 0)
    sample = np.array(vectors.open()[start:])
    num_pairs = num_met = 0
    is_near_kept = np.zeros(len(sample), np.bool_)
    for first in range(0, vectors.num_rows, _ROWS):
        products = sample @ vectors.open()[first : first + _ROWS].T
        one, other = np.nonzero(products >= threshold - SLACK)
        unsure = products[one, other] < threshold + SLACK
        left, right = one + start, other + first
        is_pair = left != right
        is_pair[unsure] &= cosines(vectors, left[unsure], right[unsure]) >= threshold
        left, right = left[is_pair], right[is_pair]
        num_pairs += len(left)
        num_met += int(cells.meets(left, right).sum())
        is_near_kept[left[kept[right]] - start] = True
    sampled_kept = kept[start:]
    return Recall(
        num_sampled=len(sample),
        num_pairs=num_pairs,
        num_met=num_met,
        num_kept=int(sampled_kept.sum()),
        num_kept_near_kept=int((is_near_kept & sampled_kept).sum()),
    )
