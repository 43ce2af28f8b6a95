"""How many blocks a cache keeps from one epoch to the next, where each is wanted once an epoch."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.loader.order.hashing import keys

__all__ = ["kept_in_turn", "kept_shuffled"]

# Shares hardly change with the number of blocks; so many are simulated at most.
_MOST_SIMULATED: Final = 4096
_EPOCHS: Final = 4


def kept_in_turn(num_blocks: int, spare_blocks: float) -> float:
    """Which share of the blocks is found again if they come in the same order in every epoch.

    Belady's rule keeps as many as there is room for, but for the one that is coming in.
    """
    if spare_blocks >= num_blocks:
        return 1.0
    return max(0.0, (spare_blocks - 1) / max(num_blocks - 1, 1))


def kept_shuffled(num_blocks: int, room: float, in_use: float = 1.0) -> float:
    """The same if each epoch has an order of its own, by simulating Belady's rule.

    Args:
        num_blocks: of an epoch.
        room: blocks that the cache holds.
        in_use: of these, that are in use together. None is at the end of an epoch.
    """
    if room >= num_blocks:
        return 1.0
    size = min(num_blocks, _MOST_SIMULATED)
    most = round(room * size / num_blocks)
    width = max(1, round(in_use * size / num_blocks))
    rng = np.random.default_rng(int(keys(1, "retention")[0]))
    orders = [rng.permutation(size) for _ in range(_EPOCHS + 1)]
    places = [np.argsort(order) for order in orders]
    live: deque[int] = deque()
    done: set[int] = set()
    # What is done with, the farthest next use first; an entry of an earlier epoch
    # comes up after all others, as it is due sooner.
    farthest: list[tuple[int, int]] = []
    hits = 0
    for epoch in range(_EPOCHS):
        for block in orders[epoch].tolist():
            if block in done:
                done.discard(block)
                hits += epoch == _EPOCHS - 1
            live.append(block)
            if len(live) > width:
                _release(live.popleft(), epoch, places, done, farthest)
            while len(live) + len(done) > most and done:
                _, gone = heapq.heappop(farthest)
                done.discard(gone)
        while live:
            _release(live.popleft(), epoch, places, done, farthest)
    return hits / size


def _release(
    block: int,
    epoch: int,
    places: list[npt.NDArray[np.int64]],
    done: set[int],
    farthest: list[tuple[int, int]],
) -> None:
    done.add(block)
    due = (epoch + 1) * len(places[0]) + int(places[epoch + 1][block])
    heapq.heappush(farthest, (-due, block))
