"""Sources hear of every block once it is done with, and a cache that heeds it evicts as Belady."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.loader.engine import next_use
from datalake.loader.engine.blocks_ahead import BlocksAhead
from datalake.loader.engine.next_use import NextUse
from datalake.loader.sampling import Mixture, Sampler, Selected, sampler_of

BLOCK_ROWS = 16
PER_S = 1000.0


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(next_use, "time", made)
    return made


class Nothing:
    num_bytes = 0

    def wait(self) -> None:
        pass


class Source:
    """Keeps what it is told: the block, when, and when it is wanted next."""

    block_rows = BLOCK_ROWS
    tables = ()

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows
        self.told: list[tuple[int, float]] = []
        self.asked: list[int] = []

    def read(self, *_: Any) -> Any:
        raise NotImplementedError

    def identity(self) -> dict[str, int]:
        return {"rows": self.num_rows}

    def expect(self, rows: np.ndarray, in_s: float) -> None:
        (block,) = np.unique(rows // BLOCK_ROWS)
        stop = min((block + 1) * BLOCK_ROWS, self.num_rows)
        assert rows.tolist() == list(range(block * BLOCK_ROWS, stop))
        assert in_s > 0
        self.told.append((int(block), in_s))

    def prefetch(self, rows: np.ndarray) -> Nothing:
        self.asked += np.unique(rows // BLOCK_ROWS).tolist()
        return Nothing()


def passes(
    sampler: Sampler, clock: Clock, num_epochs: int, batch: int = 24
) -> list[tuple[int, int, list[int], list[tuple[int, float]]]]:
    """By batch: epoch, position, the blocks used, and what the source was told after it."""
    (source,) = sampler.sources
    assert isinstance(source, Source)
    found = []
    size = sampler.num_examples
    for epoch in range(num_epochs):
        told = NextUse(sampler, epoch, 0)
        for begin, end in pairwise([*range(0, size, batch), size]):
            rows = sampler.picks(epoch, np.arange(begin, end)).rows
            clock.now = (epoch * size + end) / PER_S
            source.told = []
            told.passed(end)
            found.append((epoch, end, list(dict.fromkeys(rows // BLOCK_ROWS)), source.told))
    return found


@pytest.mark.parametrize("chosen", [None, "every", "some"])
@settings(max_examples=40, deadline=None)
@given(
    num_rows=st.integers(1, 900),
    order=st.sampled_from(["blocks", "sequential"]),
    working_set=st.integers(1, 40),
    batch=st.integers(1, 60),
)
def test_each_block_is_done_with_after_its_last_row(
    chosen: str | None, num_rows: int, order: Any, working_set: int, batch: int
) -> None:
    source = Source(num_rows)
    data: Any = source
    if chosen is not None:
        step = 1 if chosen == "every" else 3
        data = Selected(source, np.arange(0, num_rows, step))  # type: ignore[arg-type]
    sampler = sampler_of(data, order=order, working_set=working_set, seed=3)
    size, clock = sampler.num_examples, Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(next_use, "time", clock)
        steps = passes(sampler, clock, 2, batch)
    last_use: dict[tuple[int, int], int] = {}
    first_use: dict[tuple[int, int], int] = {}
    for epoch in range(3):
        rows = sampler.picks(epoch, np.arange(size)).rows
        for position, block in enumerate((rows // BLOCK_ROWS).tolist()):
            last_use[epoch, block] = position
            first_use.setdefault((epoch, block), position)
    told = [(epoch, end, block, in_s) for epoch, end, _, all_ in steps for block, in_s in all_]
    assert len({(epoch, block) for epoch, _, block, _ in told}) == len(told)
    # All of them by the end of each epoch, but those that the next one begins with.
    missing = {use for use in last_use if use[0] < 2} - {(e, block) for e, _, block, _ in told}
    for epoch, block in missing:
        assert size - last_use[epoch, block] + first_use[epoch + 1, block] <= (
            working_set * BLOCK_ROWS + batch
        )
    for epoch, end, block, in_s in told:
        assert last_use[epoch, block] < end
        away = size - end + first_use[epoch + 1, block]
        # A group begins with its tick, of which another block may be the first.
        assert away - working_set * BLOCK_ROWS <= in_s * PER_S <= away + 1e-6


def hits(
    steps: list[tuple[int, int, list[int], list[tuple[int, float]]]],
    size: int,
    capacity: int,
    how: str,
) -> float:
    """The share of blocks of the last epoch that a cache had when they were wanted first."""
    uses: dict[int, list[int]] = {}
    for index, (_, _, blocks, _) in enumerate(steps):
        for block in blocks:
            uses.setdefault(block, []).append(index)
    held: dict[int, float] = {}
    num_hits = num_fetches = 0
    last = steps[-1][0]
    seen: set[tuple[int, int]] = set()
    for index, (epoch, end, blocks, told) in enumerate(steps):
        now = (epoch * size + end) / PER_S
        for block in blocks:
            if epoch == last and (epoch, block) not in seen:
                num_fetches += 1
                num_hits += block in held
            seen.add((epoch, block))
            if block not in held and len(held) >= capacity:
                others = [one for one in held if one not in blocks]
                if how == "belady":
                    victim = max(others, key=lambda one: _next(uses[one], index))
                else:
                    victim = max(others, key=lambda one: abs(held[one] - now))
                del held[victim]
            held[block] = now
        if how == "told":
            held.update((block, now + in_s) for block, in_s in told if block in held)
    return num_hits / num_fetches


def _next(uses: list[int], index: int) -> float:
    return next((use for use in uses if use >= index), float("inf"))


@pytest.mark.parametrize(("order", "least"), [("blocks", 0.25), ("sequential", 0.2)])
def test_a_cache_of_a_quarter(clock: Clock, order: Any, least: float) -> None:
    source = Source(BLOCK_ROWS * 400)
    sampler = sampler_of(source, order=order, working_set=32, seed=1)  # type: ignore[arg-type]
    steps = passes(sampler, clock, 3)
    size = sampler.num_examples
    lru, told, best = (hits(steps, size, 100, how) for how in ("lru", "told", "belady"))
    # By age, as told, and the best there is: .035, .25, .25 in blocks; 0, .25, .25 in turn.
    assert lru <= 0.1
    assert told >= least
    assert told >= 0.9 * best


def test_parts_of_a_mixture_go_through_their_own_epochs(clock: Clock) -> None:
    small, large = Source(BLOCK_ROWS * 10), Source(BLOCK_ROWS * 50)
    mixed = Mixture({"small": small, "large": large}, {"small": 1, "large": 1})  # type: ignore[dict-item]
    sampler = sampler_of(mixed, order="blocks", working_set=4)
    size = sampler.num_examples
    told = NextUse(sampler, 0, 0)
    for end in range(10, size + 1, 10):
        clock.now = end / PER_S
        told.passed(end)
    # Half of 960 examples each.
    assert len(small.told) == pytest.approx(30, abs=5)
    assert 20 <= len(large.told) <= 30
    assert len({block for block, _ in large.told}) == len(large.told)


def test_blocks_of_coming_groups_are_asked_for_evenly() -> None:
    source = Source(BLOCK_ROWS * 600)
    sampler = sampler_of(source, order="blocks", working_set=128, seed=1)  # type: ignore[arg-type]
    size = sampler.num_examples
    ahead, late, most = BlocksAhead(sampler, 0, 0), 0, 0
    used: set[int] = set()
    for end in range(64, size + 1, 64):
        before = len(source.asked)
        ahead.prefetch(end)
        rows = sampler.picks(0, np.arange(end - 64, end)).rows
        new = set((rows // BLOCK_ROWS).tolist()) - used
        used |= new
        if end > size / 8:
            late += len(new - set(source.asked))
            most = max(most, len(source.asked) - before)
    assert len(set(source.asked)) == len(source.asked)
    assert late == 0
    assert most <= 12  # Of 5 a step.
