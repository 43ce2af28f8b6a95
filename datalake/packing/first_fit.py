"""First fit: each item into the oldest bin that takes it, by a segment tree over the open bins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["first_fit"]


def first_fit(lengths: npt.NDArray[np.integer], capacity: int) -> tuple[npt.NDArray[np.int64], int]:
    """Place items in the order given.

    A leaf of the tree is a bin's remainder and an inner node the larger of its two children's, so
    the first bin with room is found, and the tree mended, in steps of the tree's height.

    Args:
        lengths: of the items, each at most the capacity, (items,).
        capacity: of a bin.

    Returns:
        The bin of each item, (items,), and the number of bins.
    """
    leaves = 1 << max(0, len(lengths) - 1).bit_length()
    # Bins that are not open yet look as if they were: the first of them is opened when needed.
    tree = [capacity] * (2 * leaves)
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
    return np.array(placed, np.int64), max(placed, default=-1) + 1
