"""Best fit over counts: items of one length, and bins with one remainder, are placed together.

Best fit puts an item into the open bin that leaves least room. If the fullest bin that still takes
length L has room r, it is the fullest for the next item of that length too, until r // L of them
are in it. So n items of one length and m bins of one remainder are one step of arithmetic, and the
multiset of remainders that comes out is that of best fit item by item. Bins are numbered so that
those of a group are runs of numbers; who lies where is written down as runs and expanded by NumPy.

The remainders in use are a set of bits in two levels, a tree of a high branching factor: the least
remainder of at least L is found by two shifts, whatever the number of bins.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isqrt

import numpy as np
import numpy.typing as npt

__all__ = ["OpenBins"]


class OpenBins:
    """Bins that take more, by their remainders. Numbers are given to bins from 0."""

    def __init__(self, capacity: int, remainders: Iterable[int] = ()) -> None:
        """Begin with a bin for each of `remainders`, numbered in that order."""
        self.num_bins = 0
        self._capacity = capacity
        # A word has about as many bits as there are words.
        self._shift = max(5, (isqrt(capacity) - 1).bit_length())
        self._words = [0] * ((capacity >> self._shift) + 1)
        self._used = 0
        self._runs: dict[int, list[tuple[int, int]]] = {}
        for remainder in remainders:
            self._put(remainder, self.num_bins, 1)
            self.num_bins += 1

    def _put(self, remainder: int, first: int, num: int) -> None:
        if runs := self._runs.get(remainder):
            runs.append((first, num))
        elif remainder:
            self._runs[remainder] = [(first, num)]
            word = remainder >> self._shift
            self._words[word] |= 1 << (remainder & ((1 << self._shift) - 1))
            self._used |= 1 << word

    def place(
        self, lengths: npt.NDArray[np.integer], counts: npt.NDArray[np.integer]
    ) -> npt.NDArray[np.int64]:
        """Place `counts[i]` items of each `lengths[i]`, lengths strictly descending.

        Returns:
            The bin of each item, longest items first, (counts.sum(),).
        """
        # This loop is all that is not NumPy, so it keeps to local names.
        runs_of, words, shift, put = self._runs, self._words, self._shift, self._put
        mask = (1 << shift) - 1
        capacity, next_bin = self._capacity, self.num_bins
        firsts: list[int] = []
        nums: list[int] = []
        each_takes: list[int] = []
        for length, left in zip(lengths.tolist(), counts.tolist(), strict=True):
            word = length >> shift
            while left:
                bits = words[word] >> (length & mask)
                if bits:
                    remainder = length + (bits & -bits).bit_length() - 1
                else:
                    bits = self._used >> (word + 1)
                    if bits:
                        found = word + (bits & -bits).bit_length()
                        bits = words[found]
                        remainder = (found << shift) + (bits & -bits).bit_length() - 1
                    else:
                        remainder = 0
                if remainder:
                    runs = runs_of[remainder]
                    first, num = runs.pop()
                    if not runs:
                        del runs_of[remainder]
                        at = remainder >> shift
                        words[at] ^= 1 << (remainder & mask)
                        if not words[at]:
                            self._used ^= 1 << at
                    each = remainder // length
                else:
                    remainder, each = capacity, capacity // length
                    first, num = next_bin, -(-left // each)
                    next_bin += num
                full = num if left >= num * each else left // each
                if full:
                    firsts.append(first)
                    nums.append(full)
                    each_takes.append(each)
                    left -= full * each
                    put(remainder - each * length, first, full)
                    first += full
                    num -= full
                if num and left:
                    firsts.append(first)
                    nums.append(1)
                    each_takes.append(left)
                    put(remainder - left * length, first, 1)
                    first += 1
                    num -= 1
                    left = 0
                if num:
                    put(remainder, first, num)
        self.num_bins = next_bin
        return _expanded(firsts, nums, each_takes)

    def emptiest(self, limit: int) -> tuple[npt.NDArray[np.int64], list[int]]:
        """At most `limit` bins that have most room left, the fullest of them first.

        Returns:
            Their numbers, and their remainders.
        """
        numbers: list[int] = []
        remainders: list[int] = []
        for remainder in sorted(self._runs, reverse=True):
            for first, num in self._runs[remainder]:
                num = min(num, limit - len(numbers))
                numbers += range(first, first + num)
                remainders += [remainder] * num
            if len(numbers) == limit:
                break
        return np.array(numbers[::-1], np.int64), remainders[::-1]


def _expanded(firsts: list[int], nums: list[int], each_takes: list[int]) -> npt.NDArray[np.int64]:
    """`firsts[i]`, `firsts[i] + 1`, … (`nums[i]` of them), each repeated `each_takes[i]` times."""
    num = np.array(nums, np.int64)
    bins = np.repeat(np.array(firsts, np.int64) - np.cumsum(num) + num, num)
    bins += np.arange(len(bins))
    return np.repeat(bins, np.repeat(np.array(each_takes, np.int64), num))
