"""Mixing: items of several sources in one order, each source with its share of the tokens.

The order is that of worst-case fair weighted fair queueing, WF²Q (Bennett and Zhang, INFOCOM 1996):
a source with share w that has given t tokens of T so far may go on if t <= w T, and of those that
may, the one goes on that would be first to be done if the shares were kept to the token. WF²Q's
theorem is then that at each prefix every source is within one item (the longest) of its share.
The plain largest-deficit rule keeps that bound for two sources only. Nothing is drawn by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError, nearest

__all__ = ["EXHAUSTED", "Exhausted", "Mix", "mix"]

Exhausted: TypeAlias = Literal["stop", "repeat", "go_on"]

EXHAUSTED: Final = ("stop", "repeat", "go_on")


@dataclass(frozen=True)
class Mix:
    """An order of items of several sources, and what it amounts to."""

    names: tuple[str, ...]
    """The sources."""
    sources: npt.NDArray[np.int32]
    """The source of each item, a position in `names`, (items,)."""
    items: npt.NDArray[np.int64]
    """Its number in its source, (items,)."""
    asked: tuple[float, ...]
    """The share of each source, of 1."""
    realised: tuple[float, ...]
    """The share of the tokens that each source has."""
    num_passes: tuple[float, ...]
    """How often each source was gone through: below 1 where items were left over."""
    largest_error: int
    """The most tokens by which a source was off its share after any item, while all were there."""

    def __len__(self) -> int:
        return len(self.items)


def mix(
    lengths: Mapping[str, npt.NDArray[np.integer]],
    weights: Mapping[str, float],
    *,
    exhausted: Exhausted = "stop",
) -> Mix:
    """Bring items of several sources in one order, so that the tokens keep to the weights.

    Items of a source keep their order. Sources without a weight, or with weight 0, are left out.

    Args:
        lengths: tokens of each source's items, at least 1 each, (items of the source,).
        weights: the share of each source in the tokens; they are divided by their sum.
        exhausted: when a source has no item left at its turn: `stop`; `repeat` it from its first
            item until each source was gone through once; or `go_on` with the other sources, their
            shares in proportion.

    Raises:
        InputError: a weight is negative or not finite, all are zero, names no source, or is of a
            source without items.
    """
    shares = _shares(lengths, weights, exhausted)
    names = tuple(shares)
    queues = [_Queue(lengths[name].tolist(), shares[name]) for name in names]
    order: list[tuple[int, int]] = []
    largest_error = 0.0
    active = list(range(len(names)))
    total = 0
    complete = True
    while active:
        turn = _turn([queues[source] for source in active], total)
        source = active[turn]
        queue = queues[source]
        if queue.next == len(queue.lengths):
            if exhausted == "stop":
                break
            queue.passes += 1
            if exhausted == "repeat":
                if all(other.passes or other.next == len(other.lengths) for other in queues):
                    break
                queue.next = 0
                continue
            # The others share what it had; accounts are opened anew.
            del active[turn]
            complete = False
            left = sum(queues[other].share for other in active)
            total = 0
            for other in active:
                queues[other].restart(queues[other].share / left)
            continue
        order.append((source, queue.next))
        total += queue.take()
        if complete:
            errors = (abs(other.given - other.share * total) for other in queues)
            largest_error = max(largest_error, *errors)
    tokens = np.array([queue.all_given for queue in queues], np.float64)
    pairs = np.array(order, np.int64).reshape(-1, 2)
    return Mix(
        names,
        pairs[:, 0].astype(np.int32),
        pairs[:, 1],
        tuple(shares.values()),
        tuple((tokens / max(1.0, tokens.sum())).tolist()),
        tuple(queue.num_taken / len(queue.lengths) for queue in queues),
        int(np.ceil(largest_error)),
    )


class _Queue:
    """A source: its items, its share, and what it has given."""

    def __init__(self, lengths: list[int], share: float) -> None:
        self.lengths = lengths
        self.share = share
        self.next = 0
        self.passes = 0
        self.given = 0
        """Tokens since accounts were opened."""
        self.all_given = 0
        self.num_taken = 0

    def take(self) -> int:
        length = self.lengths[self.next]
        self.next += 1
        self.num_taken += 1
        self.given += length
        self.all_given += length
        return length

    def restart(self, share: float) -> None:
        self.share = share
        self.given = 0


def _turn(queues: list[_Queue], total: int) -> int:
    """The position of the source whose turn it is after `total` tokens."""
    chosen, first_end = 0, np.inf
    # Rounding must not leave nobody: the source that is furthest behind may always go on.
    least = min(queue.given / queue.share for queue in queues)
    for position, queue in enumerate(queues):
        begin = queue.given / queue.share
        if begin > max(total, least):
            continue
        length = queue.lengths[queue.next % len(queue.lengths)]
        end = (queue.given + length) / queue.share
        if end < first_end:
            chosen, first_end = position, end
    return chosen


def _shares(
    lengths: Mapping[str, npt.NDArray[np.integer]],
    weights: Mapping[str, float],
    exhausted: Exhausted,
) -> dict[str, float]:
    if exhausted not in EXHAUSTED:
        raise InputError(
            "What becomes of a source that runs out is not known",
            expected=", ".join(EXHAUSTED),
            found=repr(exhausted),
        )
    for name, weight in weights.items():
        if name not in lengths:
            raise InputError(
                f"A weight names no source: {name!r}", fix=nearest(name, list(lengths))
            )
        if not (np.isfinite(weight) and weight >= 0):
            raise InputError(
                f"The weight of {name} is out of range",
                expected="a finite number of 0 or more",
                found=str(weight),
            )
        if weight and not len(lengths[name]):
            raise InputError(f"The source {name} has a weight and no items")
    total = sum(weights.values())
    if not total > 0:
        raise InputError("No source has a weight", expected="a weight above 0")
    return {name: weight / total for name, weight in weights.items() if weight}
