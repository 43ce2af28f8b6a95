"""Shards of about as many time steps each, drawn in strides from many episodes.

An episode is cut into strides: every k-th step from an offset below k. Shards are filled with
strides of episodes in a shuffled order, each to the shard that has least. A shard is what a loader
reads at once and shuffles within, so steps that follow each other should not share one, and many
episodes should. (Practice of public VLA training code; the rule and its bounds are ours.)
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError

__all__ = ["Shards", "balanced_shards"]


@dataclass(frozen=True)
class Shards:
    """Strides by shard, within a shard by episode and start."""

    shards: npt.NDArray[np.int64]
    """The shard of each stride, (strides,)."""
    episodes: npt.NDArray[np.int64]
    """The episode that it is of, (strides,)."""
    starts: npt.NDArray[np.int64]
    """Its first step, (strides,)."""
    strides: npt.NDArray[np.int64]
    """From a step to the next, (strides,)."""
    counts: npt.NDArray[np.int64]
    """Steps, (strides,)."""
    num_shards: int
    largest_stride: int
    """Most steps that one stride has; sizes of shards differ by no more."""

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Steps of each shard, (shards,)."""
        sizes = np.zeros(self.num_shards, np.int64)
        np.add.at(sizes, self.shards, self.counts)
        return sizes

    @property
    def num_episodes(self) -> npt.NDArray[np.int64]:
        """Distinct episodes of each shard, (shards,)."""
        first = np.ones(len(self.shards), np.bool_)
        first[1:] = (np.diff(self.shards) != 0) | (np.diff(self.episodes) != 0)
        return np.bincount(self.shards[first], minlength=self.num_shards)

    def steps(self, shard: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The episode and the step of each step of a shard, (steps,) each, as they are listed."""
        of_shard = np.flatnonzero(self.shards == shard)
        counts = self.counts[of_shard]
        owner = np.repeat(of_shard, counts)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        steps: npt.NDArray[np.int64] = self.starts[owner] + number * self.strides[owner]
        return self.episodes[owner], steps


def balanced_shards(
    lengths: npt.ArrayLike,
    shard_steps: int = 1024,
    *,
    episodes_per_shard: int = 16,
    num_ranks: int = 1,
    seed: int = 0,
) -> Shards:
    """Cut episodes into strides and deal them to shards; every step lies in exactly one.

    There are `ceil(steps / shard_steps)` shards, rounded up to a multiple of `num_ranks`. A stride
    has at most `shard_steps // episodes_per_shard` steps, and sizes of shards differ by no more
    than the largest stride: the fullest shard was the emptiest when it got its last one. Where
    there are as many episodes, a shard draws on `episodes_per_shard` of them or more, or nearly.

    Args:
        lengths: steps of each episode, 0 or more, (episodes,).
        shard_steps: most steps a shard has on average.
        episodes_per_shard: about how many episodes a shard shall draw on.
        num_ranks: the number of shards is made a multiple of it.
        seed: of the order of episodes.

    Raises:
        InputError: a parameter or a length is out of range.
    """
    steps = np.asarray(lengths)
    if steps.ndim != 1 or (steps.size and (steps.dtype.kind not in "iu" or steps.min() < 0)):
        raise InputError(
            "Lengths are no list of whole numbers", expected="one dimension, integers of 0 or more"
        )
    if not (1 <= episodes_per_shard <= shard_steps and num_ranks >= 1 and seed >= 0):
        raise InputError(
            "A parameter of the shards is out of range",
            expected="1 <= episodes_per_shard <= shard_steps, num_ranks >= 1, seed >= 0",
            found=f"{episodes_per_shard}, {shard_steps}, {num_ranks}, {seed}",
        )
    steps = steps.astype(np.int64)
    longest = shard_steps // episodes_per_shard
    order = np.random.default_rng(seed).permutation(len(steps))
    num_strides = -(-steps[order] // longest)
    episodes = np.repeat(order, num_strides)
    strides = np.repeat(num_strides, num_strides)
    starts = np.arange(len(episodes)) - np.repeat(np.cumsum(num_strides) - num_strides, num_strides)
    counts = -(-(steps[episodes] - starts) // strides)
    num_shards = -(-int(steps.sum()) // shard_steps)
    num_shards += -num_shards % num_ranks
    # The strides of an episode come one after the other, so they go to different shards.
    emptiest = [(0, shard) for shard in range(num_shards)]
    shards = np.empty(len(episodes), np.int64)
    for place, count in enumerate(counts.tolist()):
        size, shard = emptiest[0]
        shards[place] = shard
        heapq.heapreplace(emptiest, (size + count, shard))
    sort = np.lexsort((starts, episodes, shards))
    return Shards(
        shards[sort],
        episodes[sort],
        starts[sort],
        strides[sort],
        counts[sort],
        num_shards,
        int(counts.max(initial=0)),
    )
