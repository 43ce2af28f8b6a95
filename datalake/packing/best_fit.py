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

from math import isqrt

import numpy as np
import numpy.typing as npt

__all__ = ["best_fit"]


def best_fit(
    lengths: npt.NDArray[np.integer], counts: npt.NDArray[np.integer], capacity: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Place `counts[i]` items of each `lengths[i]`.

    Args:
        lengths: strictly descending, from at most the capacity to at least 1, (lengths,).
        counts: at least 1 each, (lengths,).
        capacity: of a bin.

    Returns:
        The bin of each item, longest items first, (counts.sum(),); and the number of bins.
    """
    # This loop is all that is not NumPy, so it keeps to local names and calls nothing of ours.
    # A word has about as many bits as there are words.
    shift = max(5, (isqrt(capacity) - 1).bit_length())
    mask = (1 << shift) - 1
    words = [0] * ((capacity >> shift) + 1)
    used = 0  # The words that have a bit.
    runs_of: dict[int, list[tuple[int, int]]] = {}  # By remainder: (first bin, number of bins).
    num_bins = 0
    firsts: list[int] = []
    nums: list[int] = []
    each_takes: list[int] = []
    for length, left in zip(lengths.tolist(), counts.tolist(), strict=True):
        word = length >> shift
        while left:
            # The least remainder of at least `length`: in its word, or in the next that has one.
            remainder = 0
            if bits := words[word] >> (length & mask):
                remainder = length + (bits & -bits).bit_length() - 1
            elif bits := used >> (word + 1):
                found = word + (bits & -bits).bit_length()
                bits = words[found]
                remainder = (found << shift) + (bits & -bits).bit_length() - 1
            if remainder:
                runs = runs_of[remainder]
                first, num = runs.pop()
                if not runs:
                    del runs_of[remainder]
                    at = remainder >> shift
                    words[at] ^= 1 << (remainder & mask)
                    if not words[at]:
                        used ^= 1 << at
                each = remainder // length
            else:
                remainder, each = capacity, capacity // length
                first, num = num_bins, -(-left // each)
                num_bins += num
            # Some bins take `each`, at most one takes fewer, and the others stay as they are.
            full = num if left >= num * each else left // each
            rest = left - full * each if full < num else 0
            left -= full * each + rest
            for bins, takes in ((full, each), (rest > 0, rest), (num - full - (rest > 0), 0)):
                if not bins:
                    continue
                if takes:
                    firsts.append(first)
                    nums.append(bins)
                    each_takes.append(takes)
                room = remainder - takes * length
                if room in runs_of:
                    runs_of[room].append((first, bins))
                elif room:
                    runs_of[room] = [(first, bins)]
                    words[room >> shift] |= 1 << (room & mask)
                    used |= 1 << (room >> shift)
                first += bins
    return _expanded(firsts, nums, each_takes), num_bins


def _expanded(firsts: list[int], nums: list[int], each_takes: list[int]) -> npt.NDArray[np.int64]:
    """`firsts[i]`, `firsts[i] + 1`, … (`nums[i]` of them), each repeated `each_takes[i]` times."""
    num = np.array(nums, np.int64)
    bins = np.repeat(np.array(firsts, np.int64) - np.cumsum(num) + num, num)
    bins += np.arange(len(bins))
    return np.repeat(bins, np.repeat(np.array(each_takes, np.int64), num))
