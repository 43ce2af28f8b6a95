"""Blocks come out as they went in, are made once, and lie where Arrow reads them in place."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.blocks.cache import BlockCache, Key, default_directory
from datalake.errors import InputError
from datalake.telemetry import Meter
from tests.blocks.cache.blocks import BLOCK_BYTES, block, disk_bytes, files, get, key_of, refuse

MIB = 1 << 20

TYPES = [
    pa.int8(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_binary(),
    pa.string_view(),
    pa.decimal128(20, 2),
    pa.timestamp("us", "UTC"),
    pa.list_(pa.float32(), 3),
    pa.list_(pa.struct({"a": pa.string(), "b": pa.list_(pa.int16())})),
    pa.map_(pa.string(), pa.int64()),
    pa.dictionary(pa.int32(), pa.string()),
    pa.null(),
]


def value(kind: pa.DataType, number: int) -> object:
    if number % 5 == 4 or pa.types.is_null(kind):
        return None
    if pa.types.is_dictionary(kind):
        return value(kind.value_type, number % 3)
    if pa.types.is_map(kind):
        return [(str(i), i) for i in range(number % 3)]
    if pa.types.is_struct(kind):
        return {field.name: value(field.type, number + 1) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        return [number / 2] * kind.list_size
    if pa.types.is_list(kind):
        return [value(kind.value_type, number + i) for i in range(number % 4)]
    if pa.types.is_large_binary(kind):
        return b"x" * number
    if pa.types.is_string(kind) or kind == pa.string_view():
        return "longer than a view holds " * (number % 3)
    if pa.types.is_boolean(kind):
        return number % 2 == 0
    return number % 100


@given(
    st.lists(st.sampled_from(TYPES), min_size=1, max_size=4),
    st.integers(0, 40),
    st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_any_batch_comes_back(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[pa.DataType], rows: int, skipped: int
) -> None:
    batch = pa.record_batch(
        {
            str(i): pa.array([value(kind, row) for row in range(rows + skipped)], kind)
            for i, kind in enumerate(kinds)
        }
    ).slice(skipped)
    directory = tmp_path_factory.mktemp("any")
    key = Key("t", 1, "c", skipped, rows)
    made = BlockCache(directory, budget_bytes=MIB).get(key, lambda: batch)
    found = BlockCache(directory, budget_bytes=MIB).get(key, refuse)
    for each in (made, found):
        each.validate(full=True)
        assert each.equals(batch)
        assert each.schema.equals(batch.schema, check_metadata=True)
        for column in each.columns:
            assert all(b is None or b.size == 0 or b.address % 64 == 0 for b in column.buffers())


def test_made_once_and_counted(tmp_path: Path) -> None:
    meter, allocated = Meter(), pa.total_allocated_bytes()
    cache = BlockCache(tmp_path / "new" / "cache", budget_bytes=MIB)
    assert not (tmp_path / "new").exists()
    assert not cache.has(key_of(0))
    first = get(cache, 0, meter=meter)
    assert cache.has(key_of(0))
    assert cache.get(key_of(0), refuse, meter=meter) is first
    other = BlockCache(cache.directory, budget_bytes=MIB)
    assert other.get(key_of(0), refuse, meter=meter).equals(first)
    counts = meter.counts()
    assert (counts["cache_misses"], counts["cache_hits"]) == (1, 2)
    assert counts["cache_bytes_written"] == files(cache.directory)[0].stat().st_size
    # Mapped in place: outside of Arrow's own memory.
    assert pa.total_allocated_bytes() - allocated < 10 * MIB
    assert files(cache.directory, "new") == []
    stats = cache.stats()
    assert (stats.num_blocks, stats.num_bytes, stats.budget_bytes) == (1, BLOCK_BYTES, MIB)
    assert list(stats.tables) == [key_of(0).table]


def test_all_of_a_key_matters(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=MIB)
    keys = [
        Key("t", 1, "c", 0, 10),
        Key("u", 1, "c", 0, 10),
        Key("t", 2, "c", 0, 10),
        Key("t", 1, "d", 0, 10),
        Key("t", 1, "c", 1, 10),
        Key("t", 1, "c", 0, 11),
        Key("t", 1, "c", 0, 10, "resized"),
    ]
    for number, key in enumerate(keys):
        cache.get(key, lambda number=number: pa.record_batch({"n": [number]}))
    for number, key in enumerate(keys):
        assert cache.get(key, refuse).to_pydict() == {"n": [number]}
    assert cache.stats().num_blocks == len({key.digest() for key in keys}) == len(keys)


def test_the_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATALAKE_CACHE", str(tmp_path / "named"))
    assert BlockCache().directory == tmp_path / "named"
    assert 0 < BlockCache().stats().budget_bytes <= 64 << 30
    monkeypatch.delenv("DATALAKE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_directory() == tmp_path / "xdg" / "datalake"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / ".cache" / "datalake"
    with pytest.raises(InputError, match="positive"):
        BlockCache(budget_bytes=0)


def test_what_make_raises_is_raised_and_leaves_nothing(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=MIB)

    def fail() -> pa.RecordBatch:
        raise InputError("no such row")

    for _ in range(2):
        with pytest.raises(InputError, match="no such row"):
            cache.get(key_of(0), fail)
    assert files(tmp_path, "new") == files(tmp_path) == []
    get(cache, 0)


def test_make_may_ask_for_blocks(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=MIB)

    def nested() -> pa.RecordBatch:
        get(cache, 1)
        return cache.get(key_of(0), lambda: block(key_of(0)))

    assert cache.get(key_of(0), nested).equals(block(key_of(0)))
    assert cache.stats().num_blocks == 2


def test_of_many_threads_one_makes(tmp_path: Path) -> None:
    caches = [BlockCache(tmp_path, budget_bytes=MIB) for _ in range(2)]
    meter, made, seen = Meter(), [], []

    def make() -> pa.RecordBatch:
        made.append(threading.get_ident())
        while meter.counts().get("cache_waits", 0) < 7:
            time.sleep(0.001)
        # The other seven say what they wait for, and for whom.
        seen.extend(meter.doing())
        return block(key_of(0))

    def want(cache: BlockCache) -> None:
        assert cache.get(key_of(0), make, meter=meter).equals(block(key_of(0)))

    threads = [threading.Thread(target=want, args=(caches[i % 2],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    counts = meter.counts()
    assert (counts["cache_misses"], counts["cache_hits"], counts["cache_waits"]) == (1, 7, 7)
    texts = {doing.what for doing in seen}
    assert any("a thread of this process makes" in text for text in texts)
    assert all(doing.stage == "cache" and "rows 0-10 of audio" in doing.what for doing in seen)


def test_a_copy_opens_the_directory_itself(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=MIB)
    kept = get(cache, 0)
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.directory == cache.directory
    assert copy.get(key_of(0), refuse).equals(kept)
    assert copy.stats().budget_bytes == MIB


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_child_leaves_the_parents_leases_alone(tmp_path: Path) -> None:
    cache = BlockCache(tmp_path, budget_bytes=5 * BLOCK_BYTES)
    kept = get(cache, 0)
    child = os.fork()
    if not child:
        try:
            for number in range(1, 10):
                get(cache, number)
            assert kept.equals(block(key_of(0)))
            assert cache.get(key_of(0), refuse).equals(kept)
            del kept
            gc.collect()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    other = BlockCache(tmp_path, budget_bytes=5 * BLOCK_BYTES)
    for number in range(1, 10):
        get(other, number)
    assert other.get(key_of(0), refuse).equals(kept)


def test_a_lease_lives_as_long_as_any_part_of_the_batch(tmp_path: Path) -> None:
    budget = 4 * BLOCK_BYTES
    reader, writer = (BlockCache(tmp_path, budget_bytes=budget) for _ in range(2))
    part = get(reader, 0).column(0)[2:3].buffers()[2]
    assert reader.num_leased() == 1
    for number in range(1, 20):
        get(writer, number)
        get(reader, 100 + number)
        assert disk_bytes(tmp_path) <= budget
        assert writer.has(key_of(0))
    del part
    reader.get(key_of(119), refuse)
    for number in range(20, 30):
        get(writer, number)
    assert not writer.has(key_of(0))


def test_all_in_use_is_served_from_memory(tmp_path: Path) -> None:
    meter = Meter()
    cache = BlockCache(tmp_path, budget_bytes=3 * BLOCK_BYTES)
    kept = [get(cache, number, meter=meter) for number in range(6)]
    counts = meter.counts()
    assert (counts["cache_bypassed"], counts.get("cache_evictions")) == (3, None)
    assert disk_bytes(tmp_path) == 3 * BLOCK_BYTES
    del kept
    time.sleep(0.05)  # The folder is listed again a little later.
    get(cache, 9, meter=meter)
    assert meter.counts()["cache_bypassed"] == 3
    too_large = pa.record_batch({"x": [b"x" * 4 * BLOCK_BYTES]})
    assert cache.get(key_of(50), lambda: too_large).equals(too_large)
    assert not cache.has(key_of(50))
    assert files(tmp_path, "new") == []


def test_spare_maps_of_others_go_when_there_is_no_room(tmp_path: Path) -> None:
    # Four processes (here: handles) may hold a quarter each, and so all of the budget.
    caches = [BlockCache(tmp_path, budget_bytes=8 * BLOCK_BYTES) for _ in range(4)]
    for number, cache in enumerate(caches):
        get(cache, 2 * number)
        get(cache, 2 * number + 1)
    assert [cache.num_leased() for cache in caches] == [2, 2, 2, 2]
    last = BlockCache(tmp_path, budget_bytes=8 * BLOCK_BYTES)
    meter = Meter()
    get(last, 20, meter=meter)
    assert meter.counts()["cache_bypassed"] == 1
    for cache in caches:  # Whenever they go to the directory they see that room is wanted.
        cache.get(key_of(1), refuse) if cache is not caches[0] else get(cache, 2)
    time.sleep(0.05)
    get(last, 21, meter=meter)
    assert meter.counts()["cache_bypassed"] == 1


def test_handles_and_maps_do_not_grow(tmp_path: Path) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    cache = BlockCache(tmp_path, budget_bytes=40 * BLOCK_BYTES)
    get(cache, 0)
    handles = len(os.listdir("/proc/self/fd"))
    for number in range(120):
        get(cache, number)
        assert maps() <= 10
    assert len(os.listdir("/proc/self/fd")) == handles
    kept = [get(cache, number) for number in range(100, 120)]
    assert len(os.listdir("/proc/self/fd")) == handles
    assert maps() >= len(kept)
    del cache, kept
    gc.collect()
    assert maps() == 0
    assert len(os.listdir("/proc/self/fd")) < handles


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["get", "get", "get", "keep", "drop", "expect", "clear", "reopen"]),
            st.integers(0, 1),
            st.integers(0, 9),
        ),
        max_size=60,
    )
)
@settings(max_examples=60, deadline=None)
def test_against_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    """Two handles with room for four blocks; the twin knows what each must give."""
    directory = tmp_path_factory.mktemp("twin")
    budget = 4 * BLOCK_BYTES
    caches = [BlockCache(directory, budget_bytes=budget) for _ in range(2)]
    kept: dict[int, pa.RecordBatch] = {}
    for step, which, number in steps:
        cache = caches[which]
        if step == "get":
            get(cache, number)
        elif step == "keep" and (number in kept or len(kept) < 3):
            kept[number] = get(cache, number)
        elif step == "drop":
            kept.pop(number, None)
        elif step == "expect":
            cache.expect(key_of(number), float("inf") if number % 3 == 0 else number)
        elif step == "clear":
            cache.clear()
        elif step == "reopen":
            caches[which] = BlockCache(directory, budget_bytes=budget)
        assert disk_bytes(directory) <= budget
        assert all(batch.equals(block(key_of(each))) for each, batch in kept.items())
    assert files(directory, "new") == []
    assert caches[0].stats().num_bytes == disk_bytes(directory)
