"""What packing is measured against: simpler ways, and what no way can do better than."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Baselines", "LengthLaw", "fewest_bins", "next_fit", "pad_to_batch_max"]


@dataclass(frozen=True)
class LengthLaw:
    """How lengths are distributed."""

    num_items: int
    total: int
    least: int
    median: int
    p95: int
    most: int
    mean: float
    std: float

    @classmethod
    def of(cls, lengths: npt.NDArray[np.integer]) -> LengthLaw:
        """Of lengths, (items,); all zero if there are none. Quantiles are lengths that occur."""
        if not len(lengths):
            return cls(0, 0, 0, 0, 0, 0, 0.0, 0.0)
        cuts = (0, 0.5, 0.95, 1)
        least, median, p95, most = np.quantile(lengths, cuts, method="inverted_cdf").tolist()
        return cls(
            num_items=len(lengths),
            total=int(lengths.sum(dtype=np.int64)),
            least=int(least),
            median=int(median),
            p95=int(p95),
            most=int(most),
            mean=float(lengths.mean()),
            std=float(lengths.std()),
        )


@dataclass(frozen=True)
class Baselines:
    """The utilisation that other ways reach on the same lengths in the same order."""

    batch_size: int
    pad_to_batch_max: float
    next_fit: float
    bound: float
    """What no packing can be above: lengths over half a sequence need one each, for example."""

    @classmethod
    def of(
        cls, lengths: npt.NDArray[np.integer], capacity: int, *, batch_size: int = 32
    ) -> Baselines:
        """Of lengths that are at most the capacity, (items,)."""
        bins = fewest_bins(lengths, capacity)
        return cls(
            batch_size,
            pad_to_batch_max(lengths, batch_size),
            next_fit(lengths, capacity),
            float(lengths.sum(dtype=np.int64) / (bins * capacity)) if bins else 0.0,
        )


def pad_to_batch_max(lengths: npt.NDArray[np.integer], batch_size: int) -> float:
    """The share of tokens that is no padding if each batch is padded to its longest item."""
    if not len(lengths):
        return 0.0
    begins = np.arange(0, len(lengths), batch_size)
    sizes = np.diff(begins, append=len(lengths))
    padded = (np.maximum.reduceat(lengths, begins).astype(np.int64) * sizes).sum()
    return float(lengths.sum(dtype=np.int64) / padded)


def next_fit(lengths: npt.NDArray[np.integer], capacity: int) -> float:
    """The utilisation if an item that does not fit into the last bin begins a new one."""
    if not len(lengths):
        return 0.0
    ends = np.cumsum(lengths, dtype=np.int64)
    # The first item of the next bin, for a bin that begins with each item.
    following = np.searchsorted(ends, ends - lengths + capacity, side="right").tolist()
    num_bins = item = 0
    while item < len(following):
        item = following[item]
        num_bins += 1
    return float(ends[-1] / (num_bins * capacity))


def fewest_bins(lengths: npt.NDArray[np.integer], capacity: int) -> int:
    """A number of bins that no packing can do with less than.

    The bound L2 of Martello and Toth (Discrete Applied Mathematics 28, 1990): for each k up to half
    a bin, items over `capacity - k` leave no room for items of k or more, other items over half a
    bin need one each, and what of the items from k to half a bin does not go in there needs more.
    """
    sizes, counts = np.unique(lengths, return_counts=True)
    numbers = np.concatenate([[0], np.cumsum(counts)])
    sums = np.concatenate([[0], np.cumsum(sizes * counts)])
    half = np.searchsorted(sizes, capacity // 2, side="right")
    smallest = np.concatenate([np.arange(half), [half]])
    ks = np.concatenate([sizes[:half], [0]])
    over = np.searchsorted(sizes, capacity - ks, side="right")
    room = (numbers[over] - numbers[half]) * capacity - (sums[over] - sums[half])
    small = sums[half] - sums[smallest]
    return int(numbers[-1] - numbers[half] + np.max(np.maximum(0, -((room - small) // capacity))))
