"""As many bins as the data-parallel ranks can share out evenly.

The missing bins are made by splitting: the bin with most pieces deals them, the longest first, to
itself and a new bin, each to the emptier of the two. No item is dropped or repeated, and no rank
gets a step without data. Only where no bin has two pieces left are empty bins appended; they are
all padding.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from datalake.packing.bins import Bins

__all__ = ["rounded"]


def rounded(bins: Bins, missing: int) -> Bins:
    """The same pieces in `missing` more bins, the new ones last."""
    if not missing:
        return bins
    sizes = np.diff(bins.offsets)
    bin_of = np.repeat(np.arange(len(bins)), sizes)
    # Of bins with as many pieces the first is split; no more than `missing` of them can be.
    largest = np.argsort(-sizes, kind="stable")[:missing]
    heap = [
        (-int(sizes[number]), int(number), np.arange(*bins.offsets[[number, number + 1]]))
        for number in largest
        if sizes[number] > 1
    ]
    heapq.heapify(heap)
    num_bins = len(bins) + missing
    for new in range(len(bins), num_bins):
        if not heap:
            break
        _, number, pieces = heapq.heappop(heap)
        moved = _dealt(pieces, bins.lengths)
        bin_of[pieces[moved]] = new
        for changed, part in ((number, pieces[~moved]), (new, pieces[moved])):
            if len(part) > 1:
                heapq.heappush(heap, (-len(part), changed, part))
    order = np.argsort(bin_of, kind="stable")
    offsets = np.zeros(num_bins + 1, np.int64)
    np.cumsum(np.bincount(bin_of, minlength=num_bins), out=offsets[1:])
    return replace(
        bins,
        items=bins.items[order],
        starts=bins.starts[order],
        lengths=bins.lengths[order],
        offsets=offsets,
    )


def _dealt(pieces: npt.NDArray[np.int64], lengths: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Which of at least two pieces move to the new bin."""
    moves = np.zeros(len(pieces), np.bool_)
    stay = move = 0
    for place in np.argsort(-lengths[pieces], kind="stable"):
        length = int(lengths[pieces[place]])
        if stay <= move:
            stay += length
        else:
            moves[place] = True
            move += length
    return moves
