"""Readers of tables on a real S3-compatible server, behind a proxy that makes trouble."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from datalake.blocks.budget import DEFAULT_RATE
from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.errors import StoreError
from datalake.tables import drop_table, open_table
from datalake.tables.protocol import Table
from datalake.telemetry import Meter
from datalake.uri import Location, StorageOptions
from tests.blocks import made
from tests.slow_store import SlowStore

pytestmark = pytest.mark.s3

COUNT = 600
DATA = made.rows(COUNT, nulls=False, media_bytes=40_000)


@pytest.fixture(scope="module")
def store(s3_server: StorageOptions) -> Iterator[SlowStore]:
    with SlowStore(s3_server) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _healed(store: SlowStore) -> Iterator[None]:
    yield
    store.heal()


@pytest.fixture(scope="module", params=["lance", "delta"])
def table(request: pytest.FixtureRequest, store: SlowStore) -> Table:
    where = Location(f"s3://lake/blocks.{request.param}", store.options)
    return made.table(where, DATA, table_format=request.param, pieces=2)


def reader_of(table: Table, folder: Path, meter: Meter, **settings: float) -> TableReader:
    # A handle of its own has nothing read yet.
    fresh = open_table(table._location, format=table.format)  # type: ignore[attr-defined]
    return TableReader(fresh, cache=BlockCache(folder), meter=meter, **settings)  # type: ignore[arg-type]


def check(reader: TableReader, rows: np.ndarray) -> None:
    twin = DATA.take(rows)
    assert reader.texts("label", rows) == twin["label"].to_pylist()
    assert reader.numbers("whole", rows).tolist() == twin["whole"].to_pylist()
    views = reader.views("audio", rows)
    assert [view.tobytes() for view in views if view is not None] == twin["audio"].to_pylist()


def test_few_requests_cold_and_none_warm(table: Table, store: SlowStore, tmp_path: Path) -> None:
    store.counts(reset=True)
    meter, rows = Meter(), np.arange(0, COUNT, 10)
    reader = reader_of(table, tmp_path, meter)
    opening = store.counts(reset=True)["requests"]
    assert opening < 20
    reader.prefetch(["label", "whole", "audio"], rows).wait()
    check(reader, rows)
    num_blocks = 2 + reader.layout("audio").num_blocks
    assert meter.counts()["origin_reads"] == num_blocks
    found = store.counts(reset=True)
    # Per file its footer; per block a request or two (Delta asks for the size of a file each time).
    assert found["requests"] <= 6 * num_blocks + 10
    check(reader, rows)
    again = reader_of(table, tmp_path, Meter())
    store.counts(reset=True)
    check(again, rows)
    assert store.counts()["requests"] == 0


@pytest.mark.parametrize("sparse", [True, False])
def test_bytes_from_the_store_are_those_of_the_rows(
    table: Table, store: SlowStore, tmp_path: Path, sparse: bool
) -> None:
    rows = np.random.default_rng(3).permutation(COUNT)[:40]
    reader = reader_of(table, tmp_path, Meter())
    reader.views("audio", rows[:1], sparse=True)  # The ends of files are read once.
    reader.views("audio", np.array([COUNT - 1]), sparse=True)
    store.counts(reset=True)
    reader.views("audio", rows, sparse=sparse)
    sizes = np.array([0 if v is None else len(v) for v in DATA["audio"].to_pylist()])
    if not sparse:
        rows = np.unique(rows // reader.block_rows("audio"))
        rows = np.concatenate([np.arange(*reader.layout("audio").span(int(n))) for n in rows])
    found = store.counts()
    assert found["bytes"] < 1.1 * sizes[rows].sum() + 200_000
    assert found["requests"] <= len(rows) + 4


def test_a_fork_is_told_that_it_cannot_read(table: Table) -> None:
    assert not table.capabilities.survives_fork


def test_a_storm_of_refusals(table: Table, store: SlowStore, tmp_path: Path) -> None:
    meter, rows = Meter(), np.random.default_rng(0).permutation(COUNT)[:100]
    reader = reader_of(table, tmp_path, meter)
    # Lance takes more of them before it gives up, and slows down by itself.
    store.refuse(count=40)
    store.refuse(fraction=0.2)
    reader.prefetch(["label", "whole", "audio"], rows).wait()
    check(reader, rows)
    assert store.counts()["refused"] > 5
    if table.format == "delta":
        assert meter.counts()["origin_refusals"] > 0
        assert reader._origin.rate < DEFAULT_RATE


def test_answers_cut_short(table: Table, store: SlowStore, tmp_path: Path) -> None:
    reader = reader_of(table, tmp_path, Meter())
    store.cut(count=6)
    check(reader, np.arange(0, COUNT, 25))
    assert store.counts()["cut"] > 0


def test_a_store_that_does_not_answer_is_named(
    table: Table, store: SlowStore, tmp_path: Path
) -> None:
    meter = Meter()
    reader = reader_of(table, tmp_path, meter)
    store.counts(reset=True)
    store.hang(count=1000)
    reading = threading.Thread(target=check, args=(reader, np.arange(5)))
    reading.start()
    while not store.counts()["hung"]:
        time.sleep(0.02)
    store_waits = [doing for doing in meter.doing() if doing.stage == "store"]
    assert any(f"label of {table.uri}, version" in doing.what for doing in store_waits)
    store.heal()
    reading.join(30)
    assert not reading.is_alive()
    check(reader, np.arange(5))


def test_a_store_that_only_refuses(table: Table, store: SlowStore, tmp_path: Path) -> None:
    if table.format == "lance":
        pytest.skip("Lance itself takes nine seconds before it gives up")
    reader = reader_of(table, tmp_path, Meter(), patience_s=0.5)
    store.refuse(fraction=1.0)
    with pytest.raises(StoreError, match=r"kept refusing.*label of s3://.*refusals within"):
        reader.texts("label", np.arange(5))


@pytest.mark.parametrize("table_format", ["lance", "delta"])
def test_a_table_made_anew_in_its_place(
    store: SlowStore, tmp_path: Path, table_format: str
) -> None:
    where, cache = Location(f"s3://lake/anew.{table_format}", store.options), BlockCache(tmp_path)
    alike = []
    for value in (1.0, 2.0):
        data = pa.table({"n": [value] * 10})
        made.table(where, data, table_format=table_format)
        store.counts(reset=True)
        table = open_table(where, format=table_format)
        reader = TableReader(table, cache=cache)
        assert store.counts()["requests"] < 20
        assert reader.numbers("n", np.arange(10)).tolist() == [value] * 10
        alike.append((table.uri, table.version, table.count_rows(), table.num_bytes()))
        drop_table(where)
    assert alike[0] == alike[1]


def test_another_store_of_that_name_is_another(
    s3_server: StorageOptions, table: Table, store: SlowStore, tmp_path: Path
) -> None:
    cache = BlockCache(tmp_path)
    TableReader(table, cache=cache).texts("label", np.arange(5))
    direct = open_table(Location(table.uri, s3_server), format=table.format)
    meter = Meter()
    TableReader(direct, cache=cache, meter=meter).texts("label", np.arange(5))
    assert meter.counts()["origin_reads"] == 1
