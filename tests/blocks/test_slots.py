"""Decoded rows: each served only when whole, in place, filled by any number of processes."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.blocks.cache import BlockCache, Key
from datalake.blocks.slots import Slots, open_slots
from datalake.errors import InputError
from datalake.telemetry import Meter
from tests.blocks.cache.blocks import disk_bytes, files, get
from tests.patience import PATIENCE_S

MIB = 1 << 20
KEY = Key("file:///lake/tables/corpus.lance", 3, "image", 40, 70, "resize 10x10")
NUM_ROWS = KEY.stop - KEY.first
SPAWN = multiprocessing.get_context("spawn")


def row(number: int, size: int = 300) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, size, dtype=np.uint8)


def opened(directory: Path, sizes=300, **more) -> Slots:
    return open_slots(BlockCache(directory, budget_bytes=MIB), KEY, sizes, **more)


@given(
    st.one_of(
        st.integers(0, 300),
        st.lists(st.integers(0, 300), min_size=NUM_ROWS, max_size=NUM_ROWS),
    ),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, NUM_ROWS - 1)), max_size=50),
)
@settings(max_examples=40, deadline=None)
def test_against_a_dictionary(tmp_path_factory: pytest.TempPathFactory, sizes, steps) -> None:
    directory = tmp_path_factory.mktemp("slots")
    of = [sizes] * NUM_ROWS if isinstance(sizes, int) else sizes
    handles = [opened(directory, sizes) for _ in range(2)]
    twin: dict[int, np.ndarray] = {}
    for which, number in steps:
        if which == 2:
            handles[0] = opened(directory, sizes)
            continue
        assert handles[which].put(number, row(number, of[number]))
        twin[number] = row(number, of[number])
    rows = np.arange(NUM_ROWS)
    for handle in handles:
        assert handle.have(rows).tolist() == [number in twin for number in rows]
        for number in range(NUM_ROWS):
            found = handle.get(number)
            assert (found is None) == (number not in twin)
            if found is not None:
                assert not found.flags.writeable
                assert np.array_equal(found, twin[number])
    assert disk_bytes(directory) <= BlockCache(directory, budget_bytes=MIB).stats().num_bytes


def test_a_batch_is_gathered_in_place(tmp_path: Path) -> None:
    slots = opened(tmp_path)
    for number in (3, 5, 8):
        slots.put(number, row(number))
    again = opened(tmp_path)
    out = np.zeros((4, 300), np.uint8)
    rows = np.array([5, 3, 5, 8])
    assert again.take(rows, out).all()
    assert np.array_equal(out, [row(number) for number in rows])
    out[:] = 7
    assert again.take(np.array([5, 4, 3, 29]), out).tolist() == [True, False, True, False]
    assert np.array_equal(out[[0, 2]], [row(5), row(3)])
    assert (out[[1, 3]] == 7).all()
    assert again.rows is not None
    assert np.array_equal(again.rows[[3, 8]], [row(3), row(8)])
    assert not again.rows.flags.writeable


def test_a_damaged_row_is_not_served_and_written_again(tmp_path: Path) -> None:
    opened(tmp_path).put(4, row(4))
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    place = data.find(row(4).tobytes())
    data[place + 100] ^= 1
    path.write_bytes(data)
    meter = Meter()
    slots = opened(tmp_path, meter=meter)
    assert slots.get(4) is None
    assert not slots.have(np.array([4])).any()
    assert meter.counts()["cache_corrupt"] == 2
    assert slots.put(4, row(4))
    assert np.array_equal(slots.get(4), row(4))
    assert np.array_equal(opened(tmp_path).get(4), row(4))


def test_no_row_passes_for_another(tmp_path: Path) -> None:
    slots = opened(tmp_path)
    slots.put(4, row(4))
    (path,) = files(tmp_path)
    data = bytearray(path.read_bytes())
    place, begin = data.find(row(4).tobytes()), slots._layout.content_begin
    data[place + 300 : place + 600] = row(4).tobytes()
    data[begin + 40 : begin + 48] = data[begin + 32 : begin + 40]
    path.write_bytes(data)
    assert np.array_equal(opened(tmp_path).get(4), row(4))
    assert opened(tmp_path).get(5) is None


def test_sizes_that_differ_make_the_file_anew(tmp_path: Path) -> None:
    opened(tmp_path).put(0, row(0))
    gc.collect()
    meter = Meter()
    slots = opened(tmp_path, 200, meter=meter)
    assert meter.counts()["cache_corrupt"] == 1
    assert slots.get(0) is None
    with pytest.raises(InputError, match="Row 0 is of another size"):
        slots.put(0, row(0))
    with pytest.raises(InputError, match="a size for each row"):
        opened(tmp_path, [1, 2, 3])
    with pytest.raises(InputError, match="different sizes"):
        opened(tmp_path / "b", range(NUM_ROWS)).take(np.array([1]), np.empty((1, 1), np.uint8))


def test_the_budget_counts_slots_in_full_and_leaves_those_in_use(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=5 * 20_480)
    slots = open_slots(cache, KEY, 300)  # 4 pages.
    slots.put(1, row(1))
    view = slots.get(1)
    del slots
    for number in range(8):
        get(cache, number)
    assert np.array_equal(open_slots(cache, KEY, 300).get(1), row(1))
    assert disk_bytes(tmp_path) <= 5 * 20_480
    meter = Meter()
    none = open_slots(cache, KEY._replace(recipe="large"), 20_480, meter=meter)
    assert (none.is_cached, none.put(0, row(0, 20_480)), none.get(0)) == (False, False, None)
    assert not none.have(np.arange(NUM_ROWS)).any()
    assert meter.counts()["cache_bypassed"] == 1
    del view


def test_slots_removed_under_their_users(tmp_path: Path) -> None:
    slots = opened(tmp_path)
    slots.put(1, row(1))
    (path,) = files(tmp_path)
    path.unlink()
    assert not slots.put(2, row(2))
    other = opened(tmp_path)
    assert not slots.put(3, row(3))
    assert np.array_equal(slots.get(1), row(1))
    assert [other.get(number) for number in range(4)] == [None] * 4


def fill(directory: Path, ready, results, seed: int) -> None:
    rng = random.Random(seed)
    slots = open_slots(BlockCache(directory, budget_bytes=64 * MIB), KEY, 500_000)
    ready.release()
    rows = {number: row(number, 500_000) for number in range(NUM_ROWS)}
    if seed < 0:
        while True:
            number = rng.randrange(NUM_ROWS)
            slots._write(number, memoryview(rows[number]))
    for number in rng.sample(range(NUM_ROWS), NUM_ROWS):
        if slots.get(number) is None:
            slots.put(number, rows[number])
    results.put(all(np.array_equal(slots.get(n), rows[n]) for n in rows))


def test_torn_by_a_kill_and_filled_by_many(tmp_path: Path) -> None:
    ready, results = SPAWN.Semaphore(0), SPAWN.Queue()
    writers = [
        SPAWN.Process(target=fill, args=(tmp_path, ready, results, seed)) for seed in (-1, 0, 1)
    ]
    for writer in writers:
        writer.start()
    for _ in writers:
        ready.acquire()
    time.sleep(0.1)
    os.kill(writers[0].pid or 0, signal.SIGKILL)
    assert [results.get(timeout=PATIENCE_S) for _ in range(2)] == [True, True]
    for writer in writers:
        writer.join()
    slots = open_slots(BlockCache(tmp_path, budget_bytes=64 * MIB), KEY, 500_000)
    for number in range(NUM_ROWS):
        assert np.array_equal(slots.get(number), row(number, 500_000))
