"""A loader meets what goes wrong: stores, disks and processes that fail in the middle of a run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from datalake.blocks.cache import BlockCache
from datalake.errors import LakeError
from datalake.loader import Loader, Utterances
from datalake.tables import Table, create_table, open_table
from datalake.uri import Location, StorageOptions
from tests.loader import corpus
from tests.patience import PATIENCE_S
from tests.slow_store import SlowStore

COUNT = 160
DATA = corpus.rows(COUNT)
ROOT = Path(__file__).resolve().parents[2]


def rows_of(batches: Any) -> list[int]:
    return [row for b in batches for row in b["row_index"][~b["is_pad"]].tolist()]


def loader_of(table: Table, cache: BlockCache | None = None, **changes: Any) -> Loader:
    source = Utterances(table, num_samples=50, cache=cache)
    return Loader(source, **{"batch_size": 8, "num_threads": 2, **changes})


# Stores -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(s3_server: StorageOptions) -> Iterator[SlowStore]:
    with SlowStore(s3_server) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def remote(store: SlowStore) -> Location:
    where = Location("s3://lake/faults.lance", store.options)
    create_table(where, DATA.schema).append(DATA[:70]).append(DATA[70:])
    return where


_HANGING = """
import sys
from datalake.errors import StalledError
from datalake.loader import Loader, Utterances
from datalake.tables import open_table
from datalake.uri import Location, StorageOptions

if __name__ == "__main__":
    options = StorageOptions(
        endpoint=sys.argv[1], region="us-east-1", access_key="testkey",
        secret_key="testsecret", path_style=True,
    )
    table = open_table(Location("s3://lake/faults.lance", options))
    source = Utterances(table, num_samples=50, cache=sys.argv[2])
    loader = Loader(source, batch_size=8, num_threads=2, timeout_s=3.0)
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        next(iter(loader))
    except StalledError as error:
        print(error, flush=True)
"""


@pytest.mark.s3
def test_a_store_that_hangs_is_named_and_the_process_ends(
    store: SlowStore, remote: Location, tmp_path: Path
) -> None:
    assert store.options.endpoint
    with subprocess.Popen(
        [sys.executable, "-c", _HANGING, store.options.endpoint, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n"
            store.hang(count=10_000)
            process.stdin.write("go\n")
            process.stdin.flush()
            told, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            store.heal()
            process.kill()
    assert "No batch came" in told
    assert "within 3 s" in told
    # Who waits, and for which rows of which column of which table.
    assert "datalake-batch-0" in told
    assert "rows 0-159 of" in told
    assert remote.uri in told
    assert process.returncode == 0


@pytest.mark.s3
def test_a_storm_of_refusals_costs_time_only(
    store: SlowStore, remote: Location, tmp_path: Path
) -> None:
    loader = loader_of(open_table(remote), BlockCache(tmp_path))
    store.refuse(count=10)
    store.refuse(fraction=0.2)
    try:
        assert sorted(rows_of(loader)) == list(range(COUNT))
    finally:
        store.heal()
    assert store.counts(reset=True)["refused"] >= 10


@pytest.mark.s3
def test_scattered_rows_are_fetched_alone_where_the_cache_is_small(
    store: SlowStore, tmp_path: Path
) -> None:
    where = Location("s3://lake/scattered.lance", store.options)
    long = _long_clips(512)
    create_table(where, long.schema).append(long)
    payload = long["audio"].nbytes
    store.counts(reset=True)
    cache = BlockCache(tmp_path, budget_bytes=payload // 4)
    source = Utterances(open_table(where), num_samples=50, cache=cache)
    for _ in Loader(source, batch_size=32, order="exact", num_threads=2):
        pass
    sparse = store.counts(reset=True)["bytes"]
    assert sparse <= 1.3 * payload
    # In blocks as well: every one is fetched once.
    source = Utterances(open_table(where), num_samples=50, cache=cache)
    for _ in Loader(source, batch_size=32, order="blocks", working_set=2, num_threads=2):
        pass
    assert store.counts(reset=True)["bytes"] <= 1.1 * payload


def _long_clips(count: int) -> Any:
    noise = np.random.default_rng(0).integers(-9000, 9000, 40_000).astype(np.float32) / 32768
    made = corpus.rows(count)
    clips = [corpus.wav(noise[row % 97 : 30_000 + row]) for row in range(count)]
    place = made.schema.get_field_index("audio")
    audio = pa.array(clips, pa.large_binary())
    return made.set_column(place, made.schema.field("audio"), audio)


# Caches -----------------------------------------------------------------------------------------


class Far:
    """Rows of a table on disk as if it lay on a store: in blocks through the cache."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def mapped(self, column: str) -> None:
        del column


@pytest.fixture
def far(tmp_path: Path) -> Any:
    long = _long_clips(256)
    return Far(create_table(tmp_path / "far.lance", long.schema).append(long))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user may not mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_cache_disk_is_warned_of_once(far: Any, small_disk: Path) -> None:
    cache = BlockCache(small_disk / "cache", budget_bytes=1 << 30)
    loader = loader_of(far, cache, order="blocks", working_set=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert sorted(rows_of(loader)) == list(range(256))
    told = [str(one.message) for one in caught if "served from memory" in str(one.message)]
    assert len(told) == 1
    assert loader.stats().counts["cache_bypassed"] > 0


def test_a_cache_may_be_removed_at_any_time(far: Any, tmp_path: Path) -> None:
    cache = BlockCache(tmp_path / "cache")
    loader = loader_of(far, cache, order="blocks", working_set=2)
    rows = []
    for number, batch in enumerate(loader):
        rows += rows_of([batch])
        if number == 10:
            shutil.rmtree(cache.directory)
    assert sorted(rows) == list(range(256))
    assert sorted(rows_of(loader)) == list(range(256))
    assert cache.stats().num_blocks > 0


# Files ------------------------------------------------------------------------------------------


@pytest.fixture
def torn(tmp_path: Path) -> tuple[Table, str]:
    """A table whose rows 40 to 79 lie in a file that is gone, and its name."""
    where = tmp_path / "torn.lance"
    table = create_table(where, DATA.schema)
    for begin in range(0, COUNT, 40):
        before = set(where.glob("data/*"))
        table = table.append(DATA.slice(begin, 40))
        if begin == 40:
            (lost,) = set(where.glob("data/*")) - before
    lost.unlink()
    return open_table(where), lost.name


LOST = set(range(40, 80))


def test_rows_of_a_missing_file_are_named(torn: tuple[Table, str], tmp_path: Path) -> None:
    table, name = torn
    loader = loader_of(table, BlockCache(tmp_path / "c"), order="sequential")
    with pytest.raises(LakeError) as refused:
        list(loader)
    assert name in str(refused.value)
    assert "40" in str(refused.value)
    assert table.uri in str(refused.value)


def test_rows_of_a_missing_file_are_replaced(torn: tuple[Table, str], tmp_path: Path) -> None:
    table, _ = torn

    def of(rank: int, world_size: int, order: str, **changes: Any) -> Loader:
        return loader_of(
            table, BlockCache(tmp_path / "c"), order=order, on_bad="substitute",
            rank=rank, world_size=world_size, **changes,
        )  # fmt: skip

    # In the table's order whole batches are lost.
    for order in ("exact", "sequential"):
        loader = of(0, 1, order)
        whole = list(loader)
        came = rows_of(whole)
        assert not LOST & set(came)
        assert set(range(COUNT)) - LOST <= set(came)
        substituted = loader.stats().substituted
        assert {one.row for one in substituted} == LOST
        assert {one.reason for one in substituted} == {"missing_block"}
        assert loader.stats().counts["substituted"] == len(LOST)
        ranks = [list(of(rank, 2, order, batch_size=4)) for rank in range(2)]
        assert rows_of(part for step in zip(*ranks, strict=True) for part in step) == came
        resumed = of(0, 1, order, num_threads=0)
        resumed.load_state_dict(loader.state_after(whole[4]))
        assert rows_of(resumed) == came[5 * 8 :]


# Processes --------------------------------------------------------------------------------------

_RANK = """
import sys
from datalake.blocks.cache import BlockCache
from datalake.loader import Loader, Utterances
from datalake.tables import open_table
from datalake.uri import Location, StorageOptions

if __name__ == "__main__":
    options = StorageOptions(
        endpoint=sys.argv[1], region="us-east-1", access_key="testkey",
        secret_key="testsecret", path_style=True,
    )
    table = open_table(Location("s3://lake/killed.lance", options))
    source = Utterances(table, num_samples=50, cache=BlockCache(sys.argv[2]))
    rank = int(sys.argv[3])
    loader = Loader(source, batch_size=8, order="blocks", working_set=4, rank=rank, world_size=2)
    print("ready", flush=True)
    print(sum(len(batch["label"]) for batch in loader), flush=True)
"""


@pytest.mark.s3
def test_a_rank_that_is_killed_leaves_nothing(store: SlowStore, tmp_path: Path) -> None:
    long = _long_clips(512)
    create_table(Location("s3://lake/killed.lance", store.options), long.schema).append(long)
    folder = tmp_path / "cache"
    store.pace(bytes_per_s=20e6)
    command = [sys.executable, "-c", _RANK, str(store.options.endpoint), str(folder)]
    ranks = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            assert rank.stdout
            assert rank.stdout.readline() == "ready\n"
        time.sleep(0.5)
        ranks[0].send_signal(signal.SIGKILL)
        # Not `communicate`, which forgets what `readline` read ahead.
        assert ranks[1].stdout
        told = ranks[1].stdout.read()
        ranks[1].wait(timeout=PATIENCE_S)
    finally:
        store.pace(bytes_per_s=None)
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert ranks[1].returncode == 0
    assert int(told) == 256
    cache = BlockCache(folder)
    assert cache.stats().num_blocks > 0
    assert list((folder / "new").iterdir()) == []
    _, stayed = cache.clear()
    assert stayed == 0


@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore:This DataLoader will create")
def test_a_worker_process_that_is_killed_is_named() -> None:
    table = create_table("memory://faults/worker", DATA.schema, format="memory").append(DATA)
    batches = loader_of(table, batch_size=2).dataloader(
        num_workers=2, multiprocessing_context="fork", prefetch_factor=1
    )
    stream = iter(batches)
    next(stream)
    workers: Any = batches._batches._iterator._workers  # type: ignore[union-attr]
    os.kill(workers[0].pid, signal.SIGKILL)
    with pytest.raises(LakeError, match="A worker process died") as died:
        list(stream)
    died.value.__traceback__ = None
