"""A window of positions, cut into batches for all steps of all ranks.

Groups (batches by cost, or sequences of which several make a batch) come in an order drawn by a
hash, so that lengths do not come sorted; step k gives rank r the batch k * world_size + r. The
number of batches is made a multiple of the ranks by splitting the groups of most examples. A window
in the midst of an epoch holds enough examples for that; the last one of an epoch may hold fewer
examples than the steps' ranks, and then the tail policy says what becomes of them:

    drop         the last of the window's examples, fewer than ranks, are left out
    pad, short   the last ranks of the last step get one repeat each from the epoch's beginning
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.loader.batching.batching import Place, Share
from datalake.loader.batching.costs import Costs
from datalake.loader.batching.cutter import Cutter, Groups
from datalake.loader.order.hashing import keys, mix
from datalake.loader.order.order import Indices
from datalake.packing import cu_seqlens

__all__ = ["Plan", "Weigh", "packed_extra", "plan", "whole_steps"]

Weigh: TypeAlias = Callable[[Indices], Costs]
"""What each position costs."""

_TRIES: Final = 8
_MORE_TRIES: Final = 2


@dataclass(frozen=True)
class Plan:
    """Batches of a window: arrays over all examples, batch after batch."""

    world_size: int
    positions: Indices
    """(examples,)."""
    is_pad: npt.NDArray[np.bool_]
    """(examples,)."""
    offsets: Indices
    """Batch b is `offsets[b]` to `offsets[b + 1]`; a multiple of `world_size` batches."""
    sequences: Indices
    """Which group of its batch an example is in, (examples,)."""
    lengths: npt.NDArray[np.int32] | None
    """Of examples in sequences, (examples,)."""
    dropped: Indices
    """Positions that come in no batch; only at the epoch's end."""
    capacity: int
    """What the sequences of one batch can hold together; 0 where groups are no sequences."""

    @property
    def num_steps(self) -> int:
        """Steps of every rank."""
        return (len(self.offsets) - 1) // self.world_size

    def left_after(self, num_steps: int) -> Indices:
        """Positions that so many steps of all ranks leave, ascending."""
        begin = self.offsets[num_steps * self.world_size]
        rest = self.positions[begin:][~self.is_pad[begin:]]
        return np.sort(np.concatenate([rest, self.dropped]))

    def share(self, step: int, rank: int, after: Place) -> Share:
        """The batch of a rank at a step."""
        batch = step * self.world_size + rank
        own = slice(self.offsets[batch], self.offsets[batch + 1])
        if self.lengths is None:
            return Share(self.positions[own], self.is_pad[own], after)
        return Share(
            self.positions[own],
            self.is_pad[own],
            after,
            self.sequences[own],
            packed_extra(self.lengths[own], self.capacity),
            self.capacity,
        )


def packed_extra(lengths: npt.NDArray[np.int32], capacity: int) -> dict[str, Any]:
    """What a batch of packed sequences says of its examples' lengths, (examples,); see `Packed`.

    Args:
        lengths: of the examples, one after the other.
        capacity: of all the batch's sequences together.
    """
    bounds = cu_seqlens(lengths)
    return {
        "lengths": lengths,
        "cu_seqlens": bounds,
        "max_seqlen": int(lengths.max(initial=0)),
        "fill": int(bounds[-1]) / capacity,
    }


def plan(
    cutter: Cutter,
    positions: Indices,
    costs: Costs,
    world_size: int,
    *,
    epoch: int,
    weigh: Weigh,
) -> Plan:
    """Cut positions into batches for all steps of all ranks.

    Args:
        cutter: makes groups.
        positions: ascending, distinct, (n,). At the epoch's end any; elsewhere a multiple of
            `world_size`, or what `whole_steps` says.
        costs: of the positions, (n,).
        world_size: the number of ranks.
        epoch: for the order of batches.
        weigh: what repeats cost.
    """
    groups = cutter.groups(costs)
    pads = dropped = positions[:0]
    num_steps = _num_steps(groups, cutter, world_size)
    if len(positions) < num_steps * world_size:
        if cutter.tail == "drop":
            kept = len(positions) // world_size * world_size
            positions, dropped = positions[:kept], positions[kept:]
            costs = costs[:kept]
            groups = cutter.groups(costs)
            num_steps = _num_steps(groups, cutter, world_size)
        else:
            pads = np.arange(num_steps * world_size - len(positions)) % (positions[-1] + 1)
    num_batches = num_steps * world_size
    groups = _split(groups, min(num_batches * cutter.batch_groups, len(positions)))
    key = keys(1, "batches/1", epoch, *positions[:1].tolist())[0]
    groups = _in_order(groups, np.argsort(mix(np.arange(len(groups), dtype=np.uint64), key)))
    order = np.concatenate([groups.order, np.arange(len(pads)) + len(positions)])
    sizes = np.concatenate([np.diff(groups.offsets), np.ones(len(pads), np.int64)])
    # The groups of a batch: as many in each as goes, `batch_groups` wherever there are enough.
    firsts = np.arange(num_batches + 1) * len(sizes) // max(num_batches, 1)
    numbers = np.arange(len(sizes)) - np.repeat(firsts[:-1], np.diff(firsts))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    lengths = cutter.lengths(np.concatenate([costs, weigh(pads)]) if len(pads) else costs)
    return Plan(
        world_size=world_size,
        positions=np.concatenate([positions, pads])[order],
        is_pad=order >= len(positions),
        offsets=offsets[firsts],
        sequences=np.repeat(numbers, sizes),
        lengths=None if lengths is None else lengths[order],
        dropped=dropped,
        capacity=cutter.capacity * cutter.batch_groups,
    )


def whole_steps(cutter: Cutter, costs: Costs, world_size: int) -> int:
    """How many examples from the first on fill whole steps of all ranks; 0 if less than one.

    So that no step in the midst of an epoch has small batches, a window ends where its batches are
    a multiple of the ranks: the furthest such place, as far as a few tries show it. `plan` splits
    where a batch is missing.
    """
    step = world_size * cutter.batch_groups
    most, num_groups = len(costs), len(cutter.groups(costs))
    wanted = num_groups // step * step
    if wanted in (0, num_groups):
        return most if wanted else 0
    # Between `least` with few enough groups and `most` with too many, by interpolation.
    least, num_least, num_most, more = 0, 0, num_groups, _MORE_TRIES
    for _ in range(_TRIES):
        if most - least < 2 or not more:
            break
        ahead = (most - least) * (2 * (wanted - num_least) + 1) // (2 * (num_most - num_least))
        if num_least == wanted:
            # It is enough; see whether more fits.
            ahead, more = (most - least) // 2, more - 1
        middle = least + min(max(ahead, 1), most - least - 1)
        found = len(cutter.groups(costs[:middle]))
        if found <= wanted:
            least, num_least = middle, found
        else:
            most, num_most = middle, found
    # Too few examples for the ranks of that many groups: any multiple of the ranks will do.
    return least if least >= -(-num_least // step) * step > 0 else len(costs) // step * step


def _num_steps(groups: Groups, cutter: Cutter, world_size: int) -> int:
    return -(-len(groups) // (world_size * cutter.batch_groups))


def _split(groups: Groups, num_groups: int) -> Groups:
    """The same examples in at least so many groups: the largest halved, time and again."""
    missing = num_groups - len(groups)
    if missing <= 0:
        return groups
    offsets = groups.offsets.tolist()
    heap = [(begin - end, begin) for begin, end in pairwise(offsets)]
    heapq.heapify(heap)
    for _ in range(missing):
        minus_size, begin = heapq.heappop(heap)
        middle = begin - minus_size // 2
        offsets.append(middle)
        heapq.heappush(heap, (begin - middle, begin))
        heapq.heappush(heap, (middle - (begin - minus_size), middle))
    return Groups(groups.order, np.array(sorted(offsets), np.int64))


def _in_order(groups: Groups, which: Indices) -> Groups:
    """The groups in another order."""
    begins, sizes = groups.offsets[:-1][which], np.diff(groups.offsets)[which]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Groups(groups.order[places], offsets)
