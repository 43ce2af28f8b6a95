"""Cutting written out plainly: what the fast ways must agree with."""

from __future__ import annotations

from collections.abc import Sequence

from datalake.loader.order.hashing import keys

MASK = 2**64 - 1


def mixed(word: int, key: int) -> int:
    """SplitMix64's finaliser on whole numbers of Python."""
    word = (word + key) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def buckets(
    costs: Sequence[float], limit: float, most: int | None, *, padded: bool
) -> list[list[int]]:
    """Longest first; each example goes to the open batch if that stays within the limit."""
    batches: list[list[int]] = []
    for example in sorted(range(len(costs)), key=lambda index: (-costs[index], index)):
        grown = [*(batches[-1] if batches else []), example]
        total = 0.0
        for member in grown:
            total += costs[member]
        cost = costs[grown[0]] * len(grown) if padded else total
        if batches and cost <= limit and len(grown) <= (most or len(costs)):
            batches[-1] = grown
        else:
            batches.append([example])
    return batches


def dealt(
    groups: list[list[int]],
    world_size: int,
    batch_groups: int,
    epoch: int,
    first_position: int,
) -> list[list[list[int]]]:
    """Groups of a window to batches: split, put in order, shared out. A batch is a list of groups.

    For windows that hold enough examples for their steps.
    """
    num_examples = sum(map(len, groups))
    num_batches = -(-len(groups) // (world_size * batch_groups)) * world_size
    groups = list(groups)
    while len(groups) < min(num_batches * batch_groups, num_examples):
        # Where the largest is halved both halves stay in its place.
        index = max(range(len(groups)), key=lambda number: (len(groups[number]), -number))
        largest = groups[index]
        middle = -(-len(largest) // 2)
        groups[index : index + 1] = [largest[:middle], largest[middle:]]
    key = int(keys(1, "batches/1", epoch, first_position)[0])
    order = sorted(range(len(groups)), key=lambda number: mixed(number, key))
    batches = []
    for batch in range(num_batches):
        first = batch * len(groups) // num_batches
        last = (batch + 1) * len(groups) // num_batches
        batches.append([groups[number] for number in order[first:last]])
    return batches
