"""First fit: each item into the oldest bin that takes it, by a segment tree over the open bins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["first_fit"]


def first_fit(
    lengths: npt.NDArray[np.integer], capacity: int, remainders: list[int]
) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Place items in the order given.

    A leaf of the tree is a bin's remainder and an inner node the larger of its two children's, so
    the first bin with room is found, and the tree mended, in steps of the tree's height.

    Args:
        lengths: of the items, each at most the capacity, (items,).
        capacity: of a bin.
        remainders: room in the bins that are open already, numbered in this order; new bins follow.

    Returns:
        The bin of each item, (items,), and the remainders of all bins.
    """
    leaves = 1
    while leaves < len(remainders) + len(lengths):
        leaves *= 2
    # Bins that are not open yet look as if they were: the first of them is opened when needed.
    tree = [capacity] * (2 * leaves)
    tree[leaves : leaves + len(remainders)] = remainders
    for node in range(leaves - 1, 0, -1):
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = left if left >= right else right
    placed: list[int] = []
    for length in lengths.tolist():
        node = 1
        while node < leaves:
            node *= 2
            if tree[node] < length:
                node += 1
        placed.append(node - leaves)
        room = tree[node] - length
        tree[node] = room
        while node > 1:
            beside = tree[node ^ 1]
            node >>= 1
            largest = room if room >= beside else beside
            if tree[node] == largest:
                break
            tree[node] = room = largest
    bins = np.array(placed, np.int64)
    num_bins = max(len(remainders), int(bins.max()) + 1 if len(bins) else 0)
    return bins, tree[leaves : leaves + num_bins]
