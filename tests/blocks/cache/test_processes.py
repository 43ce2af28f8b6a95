"""Many processes in one directory, one of them killed again and again."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from datalake.blocks.cache import BlockCache
from datalake.telemetry import Meter
from tests.blocks.cache.blocks import BLOCK_BYTES, block, disk_bytes, files, get, key_of, refuse
from tests.patience import PATIENCE_S

ROOM = 24
NUM_KILLED = 12
SPAWN = multiprocessing.get_context("spawn")


def hammer(directory: Path, seed: int, go_on: Callable[[], bool]) -> Mapping[str, int]:
    """Get random blocks, holding some for a while."""
    rng = random.Random(seed)
    cache = BlockCache(directory, budget_bytes=ROOM * BLOCK_BYTES)
    meter = Meter()
    kept: list[tuple[int, pa.RecordBatch]] = []
    while go_on():
        number = rng.randrange(60)
        kept.append((number, get(cache, number, meter=meter)))
        if rng.random() < 0.2:
            cache.expect(key_of(number), rng.choice([0.01, 5.0, float("inf")]))
        if len(kept) > 4:
            number, batch = kept.pop(rng.randrange(4))
            assert batch.equals(block(key_of(number)))
    return meter.counts()


def work(directory: Path, seed: int, ready, stop, results) -> None:
    block(key_of(0))  # The first array takes pyarrow a second.
    ready.release()
    results.put(dict(hammer(directory, seed, lambda: not stop.is_set())))


def kill_children(directory: Path, ready, stop, results) -> None:
    """Start children that work, and kill them at moments that are as good as random."""
    block(key_of(0))
    ready.release()
    rng = random.Random(0)
    for seed in range(NUM_KILLED):
        child = os.fork()
        if not child:
            hammer(directory, 100 + seed, lambda: True)
        time.sleep(0.05 + rng.random() / 5)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    stop.set()
    results.put({})


def test_killed_again_and_again(tmp_path: Path) -> None:
    results, ready, stop = SPAWN.Queue(), SPAWN.Semaphore(0), SPAWN.Event()
    targets = [(work, (tmp_path, 0)), (work, (tmp_path, 1)), (kill_children, (tmp_path,))]
    processes = [
        SPAWN.Process(target=target, args=(*args, ready, stop, results)) for target, args in targets
    ]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    most = 0
    while not stop.wait(0.002) and all(process.is_alive() for process in processes):
        most = max(most, disk_bytes(tmp_path))
    counts = [count for count in (results.get(timeout=PATIENCE_S) for _ in processes) if count]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert BLOCK_BYTES < most <= ROOM * BLOCK_BYTES
    assert all(count["cache_misses"] and count["cache_evictions"] for count in counts)
    assert all("cache_corrupt" not in count for count in counts)

    # Nothing is left of the dead: no files, no locks, no bytes counted that are not there.
    cache = BlockCache(tmp_path, budget_bytes=ROOM * BLOCK_BYTES)
    get(cache, 0)
    assert files(tmp_path, "new") == []
    for number in range(100, 100 + ROOM):
        get(cache, number)
    assert cache.stats().num_blocks == ROOM
    assert cache.clear() == (ROOM, 0)


def make_slowly(directory: Path, begun, go_on) -> None:
    def make() -> pa.RecordBatch:
        begun.set()
        go_on.wait()
        return block(key_of(0))

    BlockCache(directory, budget_bytes=1 << 20).get(key_of(0), make)


def test_one_waits_for_the_other_and_says_for_whom(tmp_path: Path) -> None:
    begun, go_on = SPAWN.Event(), SPAWN.Event()
    maker = SPAWN.Process(target=make_slowly, args=(tmp_path, begun, go_on))
    maker.start()
    begun.wait()
    meter = Meter()
    cache = BlockCache(tmp_path, budget_bytes=1 << 20)
    waiter = threading.Thread(target=lambda: cache.get(key_of(0), refuse, meter=meter))
    waiter.start()
    expected = f"which process {maker.pid} makes"
    while not any(expected in doing.what for doing in meter.doing()):
        time.sleep(0.001)
    go_on.set()
    waiter.join()
    maker.join()
    assert meter.counts() == {"cache_waits": 1, "cache_hits": 1}
    assert meter.seconds()["cache"] > 0


def test_who_waits_for_a_maker_that_dies_makes_it(tmp_path: Path) -> None:
    begun, go_on = SPAWN.Event(), SPAWN.Event()
    maker = SPAWN.Process(target=make_slowly, args=(tmp_path, begun, go_on))
    maker.start()
    begun.wait()
    os.kill(maker.pid or 0, signal.SIGKILL)
    maker.join()
    cache = BlockCache(tmp_path, budget_bytes=1 << 20)
    assert files(tmp_path, "new") != []
    meter = Meter()
    get(cache, 0, meter=meter)
    assert meter.counts()["cache_misses"] == 1
    assert files(tmp_path, "new") == []
