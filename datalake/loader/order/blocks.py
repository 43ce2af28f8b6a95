"""A shuffle that works in a few blocks at a time, for tables larger than the cache.

Blocks are runs of consecutive examples, and they stand in a random order. Consecutive ones of that
order form groups; a few groups are live at a time and all blocks of them give examples in turn.
Groups end one after another and not together, so that a cache needs room for the live blocks and
for one group that is read ahead.

    lanes    the live groups: lane w has the groups w, w + lanes, w + 2 lanes, ... one after another
    ticks    at a tick every lane takes one example of each block of its group that still has one,
             all lanes' visits in an order drawn anew for the tick

So that groups end one after another, lane w must be `lead[w]` ticks ahead. It gets there in the
opening, in which all lanes begin a group together and lane w takes part in `lead[w]` of the ticks,
evenly; and in the closing, the last groups of all lanes end together in the same way. In between
all lanes take part in every tick. From the first position to the last, all lanes have blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.loader.order.exact import Exact
from datalake.loader.order.feistel import permute
from datalake.loader.order.hashing import Words, keys, mix
from datalake.loader.order.memo import Memo
from datalake.loader.order.order import Indices, inside

__all__ = ["MAX_LANES", "Blocks", "Span"]

MAX_LANES: Final = 16
"""A cache needs room for `blocks_at_once` and a sixteenth of that to read ahead."""

# Block orders of so many blocks are written down (512 KB) instead of computed.
_MAX_LISTED: Final = 65536


class Span(NamedTuple):
    """Positions for which something is needed."""

    first: Indices
    stop: Indices


@dataclass(frozen=True)
class Blocks:
    """A shuffle with at most `blocks_at_once` blocks in use at any position.

    Args:
        num_examples: examples an epoch.
        block_size: consecutive examples that come from the store together.
        blocks_at_once: blocks in use together: at least twice a batch for a shuffle that is as
            good as a uniform one (see `quality`).
        seed, epoch: of the shuffle.

    Raises:
        InputError: a number is out of range.

    Memory: some numbers a group and a few a block's example, whatever the table's size.
    """

    num_examples: int
    block_size: int
    blocks_at_once: int
    seed: int
    epoch: int
    _memo: Memo = field(init=False, repr=False, compare=False, default_factory=Memo)

    def __post_init__(self) -> None:
        for name in ("block_size", "blocks_at_once"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"The {name} of a shuffle in blocks is out of range",
                    expected="1 or more",
                    found=str(getattr(self, name)),
                )

    def __reduce__(self) -> tuple[Any, ...]:
        # What was worked out stays at home.
        return Blocks, (
            self.num_examples,
            self.block_size,
            self.blocks_at_once,
            self.seed,
            self.epoch,
        )

    @property
    def name(self) -> str:
        """The strategy, its revision and its parameters."""
        return f"blocks/1:{self.block_size}x{self.blocks_at_once}"

    @property
    def num_blocks(self) -> int:
        """Blocks of the epoch; only the last one may be shorter."""
        return -(-self.num_examples // self.block_size)

    @property
    def num_groups(self) -> int:
        """Groups of blocks that begin and end together."""
        return self._plan.num_groups

    def examples(self, positions: Indices) -> Indices:
        """The example at each position; about half a microsecond each."""
        return self._memo(inside(positions, self.num_examples), self.num_examples, self._examples)

    def positions(self, examples: Indices) -> Indices:
        """Where each example stands."""
        array = inside(examples, self.num_examples, "example")
        blocks, numbers = np.divmod(array.ravel(), self.block_size)
        slots = self._slots_of(blocks)
        rounds = self._own(numbers, blocks, inverse=True)
        return self._plan.positions(slots, rounds).reshape(array.shape)

    def group_of(self, positions: Indices) -> Indices:
        """The group from which each position takes its example."""
        plan = self._plan
        slots, _ = plan.visits(inside(positions, self.num_examples).ravel())
        return plan.group_of_slot(slots).reshape(np.shape(positions))

    def blocks_of_group(self, group: int) -> Indices:
        """The blocks of a group."""
        first, stop = self._plan.bounds(np.array([group, group + 1]))
        return self._blocks_at(np.arange(first, stop))

    def span_of_groups(self, groups: Indices) -> Span:
        """From which position on, and before which one, each group is needed. Groups begin nearly
        in the order of their numbers."""
        return self._plan.spans(inside(groups, self.num_groups, "group"))

    def next_use(self, blocks: Indices) -> Indices:
        """The first position of this epoch that may need each block: ask the order of the next
        epoch for when a block that is done with comes back."""
        slots = self._slots_of(inside(blocks, self.num_blocks, "block"))
        return self.span_of_groups(self._plan.group_of_slot(slots)).first

    def _examples(self, positions: Indices) -> Indices:
        slots, rounds = self._plan.visits(positions)
        blocks = self._blocks_at(slots)
        return blocks * self.block_size + self._own(rounds, blocks, inverse=False)

    def _own(self, numbers: Indices, blocks: Indices, *, inverse: bool) -> Indices:
        """A block's own order: the example of each round, or the round of each example."""
        sizes = np.full(len(blocks), self.block_size, np.uint64)
        sizes[blocks == self.num_blocks - 1] = self._plan.short_size
        words = permute(
            numbers.astype(np.uint64),
            sizes,
            mix(blocks.astype(np.uint64), self._own_key),
            inverse=inverse,
        )
        return words.astype(np.int64)

    @cached_property
    def _own_key(self) -> np.uint64:
        return np.uint64(keys(1, "blocks/1 own", self.seed, self.epoch)[0])

    @cached_property
    def _block_order(self) -> Exact:
        (seed,) = keys(1, "blocks/1 blocks", self.seed, self.epoch)
        return Exact(self.num_blocks, int(seed), self.epoch)

    @cached_property
    def _listed(self) -> tuple[Indices, Indices] | None:
        if self.num_blocks > _MAX_LISTED:
            return None
        blocks = self._block_order.examples(np.arange(self.num_blocks))
        return blocks, np.argsort(blocks)

    def _blocks_at(self, slots: Indices) -> Indices:
        return self._listed[0][slots] if self._listed else self._block_order.examples(slots)

    def _slots_of(self, blocks: Indices) -> Indices:
        return self._listed[1][blocks] if self._listed else self._block_order.positions(blocks)

    @cached_property
    def _plan(self) -> _Plan:
        num_blocks = self.num_blocks
        short_block = np.array([max(num_blocks - 1, 0)])
        return _Plan(
            num_blocks=num_blocks,
            block_size=self.block_size,
            short_size=self.num_examples - max(num_blocks - 1, 0) * self.block_size,
            short_slot=int(self._slots_of(short_block)[0]) if num_blocks else 0,
            blocks_at_once=self.blocks_at_once,
            tick_key=np.uint64(keys(1, "blocks/1 ticks", self.seed, self.epoch)[0]),
        )


class _Plan:
    """Positions to (slot in the order of blocks, round of that block), and back."""

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        short_size: int,
        short_slot: int,
        blocks_at_once: int,
        tick_key: np.uint64,
    ) -> None:
        at_once = max(min(blocks_at_once, num_blocks), 1)
        num_examples = max(num_blocks - 1, 0) * block_size + short_size
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.short_size = short_size
        self.short_slot = short_slot
        self.num_lanes = min(MAX_LANES, at_once)
        # So many groups that all lanes together never have more than `at_once` blocks.
        self.num_groups = max(self.num_lanes, -(-num_blocks * self.num_lanes // at_once))
        self._tick_key = tick_key
        self._lanes = np.arange(self.num_lanes)
        self._short_group = int(self.group_of_slot(np.array([short_slot]))[0])

        num_rounds = (self.num_groups - self._lanes + self.num_lanes - 1) // self.num_lanes
        num_rounds *= block_size
        if self.num_groups == self.num_lanes:
            # One group a lane: all begin and end together.
            self._lead = np.zeros_like(num_rounds)
        else:
            self._lead = block_size * (self.num_lanes - 1 - self._lanes) // self.num_lanes
        self._opening = int(self._lead.max())
        left = num_rounds - self._lead
        self._middle = int(left.max()) - block_size
        self._rest = left - self._middle
        self._closing = int(self._rest.max())
        self._num_ticks = self._opening + self._middle + self._closing
        self._lane_starts = self._starts_of_groups()
        self._ticks = self._anchors()
        self._before = self.before(self._ticks)
        ends = np.append(self._before[1:], num_examples)
        lasts = np.append(self._ticks[1:], self._num_ticks)
        self._each: Indices = np.floor_divide(ends - self._before, lasts - self._ticks)

    def bounds(self, groups: Indices) -> Indices:
        """The slot at which each group begins."""
        return groups * self.num_blocks // self.num_groups

    def group_of_slot(self, slots: Indices) -> Indices:
        """The group in which each slot lies."""
        return ((slots + 1) * self.num_groups - 1) // max(self.num_blocks, 1)

    def _starts_of_groups(self) -> Indices:
        """For each group, the examples of earlier groups of its lane."""
        bounds = self.bounds(np.arange(self.num_groups + 1))
        sizes = np.diff(bounds) * self.block_size
        sizes[self._short_group] -= self.block_size - self.short_size
        num_rows = -(-self.num_groups // self.num_lanes)
        grid = np.zeros((num_rows, self.num_lanes), np.int64)
        grid.ravel()[: self.num_groups] = sizes
        return (np.cumsum(grid, axis=0) - grid).ravel()

    def _anchors(self) -> Indices:
        """Ticks from each of which to the next one all ticks have equally many visits: all of the
        opening and closing, and those at which a lane goes on to its next group or a short block
        ends."""
        groups = np.arange(self.num_groups)
        switches = self._tick_of(
            groups % self.num_lanes, groups // self.num_lanes * self.block_size
        )
        row, lane = divmod(self._short_group, self.num_lanes)
        ends = [row * self.block_size + self.short_size] * (self.short_size < self.block_size)
        closing = np.arange(self._opening + self._middle, self._num_ticks)
        return np.unique(
            np.concatenate(
                [
                    np.arange(self._opening + 1),
                    switches,
                    self._tick_of(np.full(len(ends), lane), np.array(ends, np.int64)),
                    closing,
                ]
            )
        )

    # Ticks and a lane's own rounds ---------------------------------------------------------------

    def _rounds(self, ticks: Indices) -> Indices:
        """In how many ticks before each each lane took part, (ticks, lanes)."""
        ticks = ticks[:, np.newaxis]
        opening = np.minimum(ticks, self._opening)
        middle = np.clip(ticks - self._opening, 0, self._middle)
        closing = np.maximum(ticks - self._opening - self._middle, 0)
        return (
            _share(opening, self._lead, self._opening, self._lanes, self.num_lanes)
            + middle
            + _share(closing, self._rest, self._closing, self._lanes, self.num_lanes)
        )

    def _tick_of(self, lanes: Indices, rounds: Indices) -> Indices:
        """The tick at which each lane has its round of that number."""
        lead, rest = self._lead[lanes], self._rest[lanes]
        opening = _when(rounds, lead, self._opening, lanes, self.num_lanes)
        middle = self._opening + rounds - lead
        late = rounds - lead - self._middle
        closing = _when(late, rest, self._closing, lanes, self.num_lanes)
        closing += self._opening + self._middle
        return np.where(rounds < lead, opening, np.where(late < 0, middle, closing))

    def before(self, ticks: Indices) -> Indices:
        """Positions before each tick."""
        rounds = self._rounds(ticks)
        rows, numbers = np.divmod(rounds, self.block_size)
        groups = rows * self.num_lanes + self._lanes
        over = groups >= self.num_groups
        groups = np.where(over, 0, groups)
        begins, ends = self.bounds(groups), self.bounds(groups + 1)
        inner = (ends - begins) * numbers
        inner -= np.where(groups == self._short_group, np.maximum(numbers - self.short_size, 0), 0)
        before = self._lane_starts[groups] + inner
        # A lane after its last group has given all it had.
        last = (self.num_groups - 1 - self._lanes) // self.num_lanes * self.num_lanes + self._lanes
        whole = (self.bounds(last + 1) - self.bounds(last)) * self.block_size
        whole -= np.where(last == self._short_group, self.block_size - self.short_size, 0)
        total: Indices = np.where(over, self._lane_starts[last] + whole, before).sum(axis=1)
        return total

    def _turns(self, ticks: Indices) -> _Turns:
        """What happens at each tick."""
        rounds = self._rounds(ticks)
        takes_part = self._rounds(ticks + 1) > rounds
        rows, numbers = np.divmod(rounds, self.block_size)
        groups = np.where(takes_part, rows * self.num_lanes + self._lanes, 0)
        begins = self.bounds(groups)
        short = (groups == self._short_group) & (numbers >= self.short_size)
        counts = np.where(takes_part, self.bounds(groups + 1) - begins - short, 0)
        return _Turns(numbers, begins, short, np.cumsum(counts, axis=1), counts)

    # Positions -----------------------------------------------------------------------------------

    def visits(self, positions: Indices) -> tuple[Indices, Indices]:
        """The slot and its round at each position, (n,) each."""
        anchors = np.searchsorted(self._before, positions, side="right") - 1
        steps = (positions - self._before[anchors]) // self._each[anchors]
        ticks, which = _unique(self._ticks[anchors] + steps)
        turns = self._turns(ticks)
        places = positions - self.before(ticks)[which]
        visits = self._permute(places, ticks, turns, which, inverse=False)
        lanes = (turns.ends[which] <= visits[:, np.newaxis]).sum(axis=1)
        ranks = visits - (turns.ends - turns.counts)[which, lanes]
        slots = turns.begins[which, lanes] + ranks
        slots += turns.short[which, lanes] & (slots >= self.short_slot)
        return slots, turns.numbers[which, lanes]

    def positions(self, slots: Indices, numbers: Indices) -> Indices:
        """The position at which each slot has its round of that number, (n,)."""
        groups = self.group_of_slot(slots)
        rows, lanes = np.divmod(groups, self.num_lanes)
        at = self._tick_of(lanes, rows * self.block_size + numbers)
        ticks, which = _unique(at)
        turns = self._turns(ticks)
        ranks = slots - turns.begins[which, lanes]
        ranks -= turns.short[which, lanes] & (slots > self.short_slot)
        visits = (turns.ends - turns.counts)[which, lanes] + ranks
        places = self._permute(visits, ticks, turns, which, inverse=True)
        return self.before(ticks)[which] + places

    def spans(self, groups: Indices) -> Span:
        """The positions of the ticks in which each group takes part."""
        rows, lanes = np.divmod(groups, self.num_lanes)
        first = self._tick_of(lanes, rows * self.block_size)
        last = self._tick_of(lanes, (rows + 1) * self.block_size - 1)
        return Span(self.before(first), self.before(last + 1))

    def _permute(
        self, numbers: Indices, ticks: Indices, turns: _Turns, which: Indices, *, inverse: bool
    ) -> Indices:
        tick_keys = mix(ticks.astype(np.uint64), self._tick_key)
        sizes = turns.ends[:, -1].astype(np.uint64)
        words: Words = numbers.astype(np.uint64)
        found = permute(words, sizes[which], tick_keys[which], inverse=inverse)
        return found.astype(np.int64)


def _unique(ticks: Indices) -> tuple[Indices, Indices]:
    unique, which = np.unique(ticks, return_inverse=True)
    return unique, which


class _Turns(NamedTuple):
    """What lanes do at ticks; all (ticks, lanes)."""

    numbers: Indices
    """The round of the lane's group."""
    begins: Indices
    """The first slot of the group."""
    short: npt.NDArray[np.bool_]
    """Whether the short block has no example left."""
    ends: Indices
    """Visits of this lane and the earlier ones."""
    counts: Indices
    """Visits of this lane."""


def _share(ticks: Indices, counts: Indices, of: int, lanes: Indices, num_lanes: int) -> Indices:
    """How many of a lane's `counts` turns, spread evenly over `of` ticks, come before each tick.
    Lanes begin at different fractions of a turn, so that they do not take turns together."""
    return (ticks * counts + lanes * of // num_lanes) // of if of else np.zeros_like(ticks + counts)


def _when(numbers: Indices, counts: Indices, of: int, lanes: Indices, num_lanes: int) -> Indices:
    """The tick at which a lane has its turn of that number: the inverse of `_share`."""
    turns = (numbers + 1) * of - lanes * of // num_lanes
    return -(-turns // np.maximum(counts, 1)) - 1
