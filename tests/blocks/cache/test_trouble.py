"""Damaged files, full and read-only disks, and folders that vanish: never a wrong byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.blocks.cache import BlockCache
from datalake.blocks.cache.entry import CorruptEntryError, read_key
from datalake.telemetry import Meter
from tests.blocks.cache.blocks import BLOCK_BYTES, block, disk_bytes, files, get, key_of, refuse

MIB = 1 << 20


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 255), st.sampled_from(["flip", "cut"]))
@settings(max_examples=80, deadline=None)
def test_a_damaged_file_is_dropped_and_made_again(
    tmp_path_factory: pytest.TempPathFactory, at: float, flip: int, how: str
) -> None:
    directory = tmp_path_factory.mktemp("damage")
    get(BlockCache(directory, budget_bytes=MIB), 0)
    (path,) = files(directory)
    data = bytearray(path.read_bytes())
    place = int(at * len(data))
    if how == "flip":
        data[place] ^= flip
        path.write_bytes(data)
    else:
        path.write_bytes(data[:place])
    meter = Meter()
    cache = BlockCache(directory, budget_bytes=MIB)
    get(cache, 0, meter=meter)
    assert (meter.counts()["cache_corrupt"], meter.counts()["cache_misses"]) == (1, 1)
    assert cache.stats().num_bytes == disk_bytes(directory) == BLOCK_BYTES
    assert BlockCache(directory, budget_bytes=MIB).get(key_of(0), refuse) is not None
    assert files(directory, "new") == []


def test_each_byte_of_a_head_matters(tmp_path: Path) -> None:
    get(BlockCache(tmp_path, budget_bytes=MIB), 0)
    (path,) = files(tmp_path)
    data = path.read_bytes()
    assert read_key(path) == key_of(0)
    for place in range(64 + len(key_of(0).about())):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(CorruptEntryError):
            read_key(path)


def test_a_file_of_something_else(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=MIB)
    path = tmp_path / "blocks" / key_of(0).relative()
    path.parent.mkdir(parents=True)
    for content in (b"", b"x" * 10_000):
        path.write_bytes(content)
        meter = Meter()
        get(cache, 0, meter=meter)
        assert meter.counts()["cache_corrupt"] == 1
        cache.clear()


def test_leftovers_of_the_dead_are_removed(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=MIB)
    get(cache, 0)
    (tmp_path / "new" / f"{key_of(1).digest()}.999999.4096").write_bytes(b"cut")
    living = threading.Event()
    entered = threading.Event()

    def make() -> pa.RecordBatch:
        entered.set()
        living.wait()
        return block(key_of(2))

    maker = threading.Thread(target=lambda: cache.get(key_of(2), make))
    maker.start()
    entered.wait()
    other = BlockCache(tmp_path, budget_bytes=MIB)
    get(other, 3)
    (left,) = files(tmp_path, "new")
    assert left.name.startswith(key_of(2).digest())
    living.set()
    maker.join()
    assert files(tmp_path, "new") == []
    assert other.has(key_of(2))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_warned_of_once(small_disk: Path) -> None:
    meter = Meter()
    cache = BlockCache(small_disk / "cache", budget_bytes=64 * MIB)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(80):
            get(cache, number, meter=meter)
    (warning,) = caught
    assert "served from memory" in str(warning.message)
    assert str(small_disk) in str(warning.message)
    assert 20 < meter.counts()["cache_bypassed"] < 60
    assert files(cache.directory, "new") == []
    assert cache.stats().num_bytes == disk_bytes(cache.directory)
    # With a budget that fits, what is there goes.
    fitting = BlockCache(cache.directory, budget_bytes=10 * BLOCK_BYTES)
    del cache
    get(fitting, 100)
    assert fitting.has(key_of(100))


def test_a_read_only_disk(small_disk: Path) -> None:
    get(BlockCache(small_disk, budget_bytes=MIB), 0)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    meter = Meter()
    cache = BlockCache(small_disk, budget_bytes=MIB)
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        get(cache, 0, meter=meter)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        get(cache, 1, meter=meter)
        get(cache, 2, meter=meter)
    assert meter.counts()["cache_bypassed"] == 3


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    meter = Meter()
    cache = BlockCache(tmp_path / "file" / "cache", budget_bytes=MIB)
    with pytest.warns(RuntimeWarning, match="served from memory"):
        get(cache, 0, meter=meter)
    assert meter.counts()["cache_bypassed"] == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_the_directory_removed_under_readers(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    stop = threading.Event()
    failures: list[BaseException] = []

    def read(seed: int) -> None:
        cache = BlockCache(directory, budget_bytes=12 * BLOCK_BYTES)
        number = seed
        try:
            while not stop.is_set():
                number = (number * 7 + 3) % 31
                kept = get(cache, number)
                get(cache, number + 1)
                assert kept.equals(block(key_of(number)))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for _ in range(25):
            shutil.rmtree(directory, ignore_errors=True)
            stop.wait(0.02)
        stop.set()
        for thread in threads:
            thread.join()
    assert failures == []
    shutil.rmtree(directory)
    cache = BlockCache(directory, budget_bytes=12 * BLOCK_BYTES)
    get(cache, 0)
    assert cache.stats().num_blocks == 1


def test_no_handles_are_left_when_the_directory_goes(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path / "cache", budget_bytes=MIB)
    get(cache, 0)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5):
        shutil.rmtree(tmp_path / "cache")
        get(cache, 10 + number)
    assert len(os.listdir("/proc/self/fd")) == before


def test_clear(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=MIB)
    for number in range(3):
        get(cache, number)
        cache.get(key_of(number, "other"), lambda: block(key_of(0)))
    kept = get(cache, 1)
    assert cache.clear("other") == (3, 0)
    assert set(cache.stats().tables) == {key_of(0).table}
    assert cache.clear() == (2, 1)
    assert kept.equals(block(key_of(1)))
    del kept
    assert cache.clear() == (1, 0)
    assert cache.stats().num_bytes == disk_bytes(tmp_path) == 0
