"""What goes first: Belady's choice where the next use is known, the least recently used else."""

from __future__ import annotations

import itertools
import math
import random
import time
from pathlib import Path

import pytest

from datalake.blocks.cache import BlockCache
from datalake.blocks.cache.places import Found
from datalake.blocks.cache.victims import Victims
from datalake.telemetry import Meter
from tests.blocks.cache.blocks import BLOCK_BYTES, get, key_of

ROOM = 6


def belady(trace: list[int], room: int) -> int:
    """Misses of the best possible eviction, the slow way; what is fetched must be kept a moment."""
    there: set[int] = set()
    misses = 0
    for at, block in enumerate(trace):
        if block in there:
            continue
        misses += 1
        if len(there) == room:
            rest = trace[at + 1 :]
            there.remove(max(there, key=lambda b: rest.index(b) if b in rest else math.inf))
        there.add(block)
    return misses


def lru(trace: list[int], room: int) -> int:
    there: list[int] = []
    misses = 0
    for block in trace:
        if block in there:
            there.remove(block)
        else:
            misses += 1
            if len(there) == room:
                del there[0]
        there.append(block)
    return misses


def misses(directory: Path, trace: list[int], is_known: bool) -> int:
    meter = Meter()
    cache = BlockCache(directory, budget_bytes=ROOM * BLOCK_BYTES)
    for at, number in enumerate(trace):
        get(cache, number, meter=meter)
        if is_known:
            rest = trace[at + 1 :]
            # Far apart against the time that the test takes.
            in_s = 1000.0 * (rest.index(number) + at) if number in rest else math.inf
            cache.expect(key_of(number), in_s)
    assert meter.counts().get("cache_bypassed") is None
    return meter.counts()["cache_misses"]


@pytest.mark.parametrize("seed", range(4))
def test_as_good_as_belady_and_better_than_lru(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    epoch = list(range(12))
    trace = [n for _ in range(5) for n in rng.sample(epoch, len(epoch))]
    known = misses(tmp_path / "known", trace, is_known=True)
    unknown = misses(tmp_path / "unknown", trace, is_known=False)
    assert known == belady(trace, ROOM)
    assert unknown == lru(trace, ROOM)
    assert known < unknown


def test_expectations_hold_for_other_jobs(tmp_path: Path) -> None:
    budget = 4 * BLOCK_BYTES
    first = BlockCache(tmp_path, budget_bytes=budget)
    for number in range(4):
        get(first, number)
    first.expect(key_of(1), math.inf)
    first.expect(key_of(3), 5000)
    del first
    second = BlockCache(tmp_path, budget_bytes=budget)
    get(second, 10)
    get(second, 11)
    assert [second.has(key_of(number)) for number in range(4)] == [True, False, True, False]


def test_the_farthest_is_at_one_of_the_ends() -> None:
    rng = random.Random(0)
    for _ in range(50):
        times = [rng.randrange(1000) for _ in range(12)]
        now = rng.randrange(1000)
        found = [Found(f"t/00/{i}", 4096, t) for i, t in enumerate(times)]
        victims = Victims(found[:6])
        for each in found[6:]:
            victims.note(each.relative, each.mtime_ns)
        taken = list(iter(lambda: victims.farthest(now), None))  # noqa: B023
        distances = [abs(at - now) for _, at in dict.fromkeys(taken)]
        assert distances == sorted(distances, reverse=True)
        assert {name for name, _ in taken} == {each.relative for each in found}


def test_a_hundred_thousand_blocks_are_not_listed_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = BlockCache(tmp_path, budget_bytes=20 * BLOCK_BYTES)
    for number in range(20):
        get(cache, number)
    opened = cache._opened
    assert opened is not None
    listings = itertools.count()
    real = type(opened.places).listing

    def slow(self, table=None):  # As if there were many.
        next(listings)
        time.sleep(0.05)
        return real(self, table)

    monkeypatch.setattr(type(opened.places), "listing", slow)
    for number in range(20, 120):
        get(cache, number)
    assert next(listings) <= 2
