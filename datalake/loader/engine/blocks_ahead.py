"""The blocks of coming groups, asked for one by one while the groups before them are in use.

A group's blocks are all wanted at once, when it begins. Asked for only then, or a few batches
before, the store would be idle for most of the time and the stream wait for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from datalake.loader.engine.next_use import Part, parts_of
from datalake.loader.order.blocks import Blocks
from datalake.loader.sampling.sampler import Sampler
from datalake.loader.sources.source import Prefetch, Source

__all__ = ["BlocksAhead"]


class BlocksAhead:
    """What to fetch besides a step's own rows. For one thread.

    When the stream is half through the time from one group's beginning to the next one's, half of
    the next group's blocks have been asked for.

    Args:
        sampler: of the stream.
        epoch, position: where the pass begins.
    """

    def __init__(self, sampler: Sampler, epoch: int, position: int) -> None:
        self._sampler = sampler
        self._epoch = epoch
        self._plans = [_plan(part) for part in parts_of(sampler, epoch, position)]
        self._is_needed = any(self._plans)

    def prefetch(self, position: int) -> list[Prefetch]:
        """Begin to fetch what is to be under way when the stream reaches a position."""
        if not self._is_needed:
            return []
        begun: list[Prefetch] = []
        for index, part in enumerate(parts_of(self._sampler, self._epoch, position)):
            plan = self._plans[index]
            if plan is not None and plan.epoch != part.epoch:
                plan = self._plans[index] = _plan(part)
            if plan is not None:
                begun += plan.prefetch(part.position)
        return begun


class _Groups:
    """The groups of one epoch of one source."""

    def __init__(self, part: Part, order: Blocks) -> None:
        self.epoch = part.epoch
        self._order, self._rows = order, part.sampler.rows
        self._source: Source = part.sampler.sources[0]
        # Groups begin nearly in the order of their numbers.
        firsts = order.span_of_groups(np.arange(order.num_groups)).first
        self._firsts = np.maximum.accumulate(firsts)
        # The group whose blocks are asked for, and how many of them were.
        self._group, self._num_asked = self._begun(part.position), 0

    def prefetch(self, position: int) -> Iterator[Prefetch]:
        """What is new at a position."""
        begun = self._begun(position)
        while self._group < min(begun + 1, self._order.num_groups):
            blocks = self._order.blocks_of_group(self._group)
            wanted = len(blocks)
            if self._group == begun:
                first, following = self._firsts[begun - 1 : begun + 1].tolist()
                wanted = -(-wanted * (position - first) // (following - first))
            for block in blocks[self._num_asked : wanted].tolist():
                yield self._source.prefetch(self._rows_of(block))
            self._num_asked = max(self._num_asked, wanted)
            if self._group == begun:
                return
            self._group, self._num_asked = self._group + 1, 0

    def _begun(self, position: int) -> int:
        """How many groups are in use or done with."""
        return int(np.searchsorted(self._firsts, max(position, 0), side="right"))

    def _rows_of(self, block: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        size = self._order.block_size
        begin, end = block * size, min((block + 1) * size, self._order.num_examples)
        return np.arange(begin, end) if self._rows is None else self._rows[begin:end]


def _plan(part: Part) -> _Groups | None:
    order = part.sampler.order(part.epoch)
    return _Groups(part, order) if isinstance(order, Blocks) else None
