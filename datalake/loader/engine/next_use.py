"""Which blocks the stream is done with and when they come back: what a cache evicts by (Belady).

Without this word a cache that holds a part of the data evicts what was used longest ago, which in
one pass after the other is what comes next.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from datalake.loader.order.blocks import Blocks
from datalake.loader.order.order import Indices
from datalake.loader.order.sequential import Sequential
from datalake.loader.sampling.mixture import MixtureSampler
from datalake.loader.sampling.rows import RowSampler
from datalake.loader.sampling.sampler import Sampler

__all__ = ["NextUse", "Part", "parts_of"]

# A source is told about so many blocks at a time.
_BLOCKS_AT_ONCE = 64


class Part(NamedTuple):
    """A sampler of one source within a sampler, and where it stands."""

    sampler: RowSampler
    epoch: int
    position: int

    @property
    def total(self) -> int:
        """Examples since the beginning of its first epoch."""
        return self.epoch * self.sampler.num_examples + self.position


def parts_of(sampler: Sampler, epoch: int, position: int) -> Iterator[Part]:
    """The samplers of one source within a sampler that have an order, always the same ones."""
    if isinstance(sampler, RowSampler):
        yield Part(sampler, epoch, position)
    elif isinstance(sampler, MixtureSampler):
        drawn = sampler.drawn(epoch, position)
        for name, part in sampler.parts.items():
            yield from parts_of(part, *divmod(drawn[name], part.num_examples))


class _Done(NamedTuple):
    """Blocks of a table that are done with."""

    blocks: Indices
    next_use: Indices
    """The position of the next epoch from which on each is wanted."""


class _Plan(Protocol):
    """When the blocks of one epoch of one source are done with."""

    epoch: int

    def next_stop(self, position: int) -> int:
        """Before which position nothing more will be done with."""
        ...

    def done(self, begin: int, end: int) -> Iterator[_Done]:
        """What is done with at `end` and was not yet at `begin`."""
        ...


class NextUse:
    """Tells the sources of a pass what is done with. For one thread.

    A few microseconds a batch, and some 20 a block when it is done with.

    Args:
        sampler: of the stream.
        epoch, position: where the pass begins.
    """

    def __init__(self, sampler: Sampler, epoch: int, position: int) -> None:
        self._sampler = sampler
        self._epoch = epoch
        self._begin_s = time.monotonic()
        self._parts = list(parts_of(sampler, epoch, position))
        self._firsts = [part.total for part in self._parts]
        self._plans = [_plan(part) for part in self._parts]
        self._look_at = self._next_look(position)

    def passed(self, position: int) -> None:
        """The stream has delivered all before a position of its epoch."""
        if position < self._look_at:
            return
        elapsed_s = max(time.monotonic() - self._begin_s, 1e-3)
        now = list(parts_of(self._sampler, self._epoch, position))
        for index, (part, first) in enumerate(zip(now, self._firsts, strict=True)):
            if self._plans[index] is None:
                continue
            example_s = elapsed_s / max(part.total - first, 1)
            self._pass(index, part, example_s)
        self._parts = now
        self._look_at = self._next_look(position)

    def _pass(self, index: int, part: Part, example_s: float) -> None:
        plan, before = self._plans[index], self._parts[index]
        assert plan is not None
        size, source = part.sampler.num_examples, part.sampler.sources[0]
        begin = before.position
        for epoch in range(plan.epoch, part.epoch + 1):
            if epoch > plan.epoch:
                plan, begin = _plan(Part(part.sampler, epoch, 0)), 0
                assert plan is not None
            for done in plan.done(begin, size if epoch < part.epoch else part.position):
                # From where the part stands now; what is in use again by now is not done with.
                away = (epoch + 1) * size + done.next_use - part.total
                for block, in_examples in zip(done.blocks.tolist(), away.tolist(), strict=True):
                    if in_examples > 0:
                        rows = _rows_of(block, source.block_rows, source.num_rows)
                        source.expect(rows, in_examples * example_s)
        self._plans[index] = plan

    def _next_look(self, position: int) -> int:
        """The first position at which a part may be done with something: none of them moves on
        faster than the stream."""
        steps = [
            plan.next_stop(part.position) - part.position
            for part, plan in zip(self._parts, self._plans, strict=True)
            if plan is not None
        ]
        return position + max(min(steps), 1) if steps else np.iinfo(np.int64).max


def _plan(part: Part) -> _Plan | None:
    order = part.sampler.order(part.epoch)
    if isinstance(order, Blocks):
        return _InGroups(part, order)
    if isinstance(order, Sequential) and part.sampler.is_ascending:
        return _InTurn(part)
    return None


class _InGroups:
    """Of an order that works in groups of blocks, which end one after another."""

    def __init__(self, part: Part, order: Blocks) -> None:
        self.epoch = part.epoch
        self._sampler, self._order = part.sampler, order
        stops = order.span_of_groups(np.arange(order.num_groups)).stop
        self._groups = np.argsort(stops, kind="stable")
        self._stops = stops[self._groups]
        # Of a selection, whose blocks of examples share blocks of the table. What ended before the
        # pass began is not known, so that after a resume a few blocks are left to their age.
        self._ended: set[int] = set()

    def next_stop(self, position: int) -> int:
        """The end of the next group."""
        index = int(np.searchsorted(self._stops, position, side="right"))
        return int(self._stops[index]) if index < len(self._stops) else self._order.num_examples

    def done(self, begin: int, end: int) -> Iterator[_Done]:
        """The blocks of the groups that end in between."""
        first, stop = np.searchsorted(self._stops, [begin, end], side="right").tolist()
        following = self._sampler.order(self.epoch + 1)
        assert isinstance(following, Blocks)
        for group in self._groups[first:stop].tolist():
            blocks = self._order.blocks_of_group(group)
            if self._sampler.rows is None:
                yield _Done(blocks, following.next_use(blocks))
                continue
            self._ended.update(blocks.tolist())
            own, low, high = self._of_table(blocks)
            ended = [
                index
                for index, pair in enumerate(zip(low.tolist(), high.tolist(), strict=True))
                if self._ended.issuperset(range(pair[0], pair[1] + 1))
            ]
            next_use = np.minimum(following.next_use(low[ended]), following.next_use(high[ended]))
            yield _Done(own[ended], next_use)

    def _of_table(self, blocks: Indices) -> tuple[Indices, Indices, Indices]:
        """The blocks of the table in which blocks of selected rows lie, and for each of them the
        first and the last block of selected rows that lies in it."""
        rows = self._sampler.rows
        assert rows is not None
        size, block_rows = self._order.block_size, self._sampler.sources[0].block_rows
        own = [np.unique(rows[block * size : (block + 1) * size] // block_rows) for block in blocks]
        found = np.unique(np.concatenate(own))
        low = np.searchsorted(rows, found * block_rows) // size
        high = (np.searchsorted(rows, (found + 1) * block_rows) - 1) // size
        return found, low, high


class _InTurn:
    """Of rows in ascending order."""

    def __init__(self, part: Part) -> None:
        self.epoch = part.epoch
        self._rows, self._size = part.sampler.rows, part.sampler.num_examples
        self._block_rows = part.sampler.sources[0].block_rows

    def next_stop(self, position: int) -> int:
        """The end of the block in which the position lies."""
        if position >= self._size:
            return self._size
        return min(int(self._firsts(self._block(position) + np.array([1]))[0]), self._size)

    def done(self, begin: int, end: int) -> Iterator[_Done]:
        """The blocks in between."""
        if begin >= end:
            return
        first = self._block(begin)
        stop = self._block(end) if end < self._size else self._block(self._size - 1) + 1
        for block in range(first, stop, _BLOCKS_AT_ONCE):
            blocks = np.arange(block, min(block + _BLOCKS_AT_ONCE, stop))
            if self._rows is not None:
                # Blocks without a selected row were never fetched.
                blocks = blocks[self._firsts(blocks) < self._firsts(blocks + 1)]
            yield _Done(blocks, self._firsts(blocks))

    def _block(self, position: int) -> int:
        return (position if self._rows is None else int(self._rows[position])) // self._block_rows

    def _firsts(self, blocks: Indices) -> Indices:
        """The position at which each block begins."""
        firsts = blocks * self._block_rows
        return firsts if self._rows is None else np.searchsorted(self._rows, firsts)


def _rows_of(block: int, block_rows: int, num_rows: int) -> Indices:
    return np.arange(block * block_rows, min((block + 1) * block_rows, num_rows))
