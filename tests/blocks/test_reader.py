"""`TableReader` against its slow twin, `Table.take`."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datalake.blocks import layout, table_blocks
from datalake.blocks.cache import BlockCache
from datalake.blocks.origin import RefusedError
from datalake.blocks.reader import TableReader
from datalake.errors import InputError, SchemaError
from datalake.tables.protocol import Table
from datalake.telemetry import Meter
from tests.blocks import made

COUNT = 150


@pytest.fixture(scope="module")
def small_blocks() -> Iterator[None]:
    """Blocks of 16 rows, so that small tables have many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "NARROW_ROWS", 16)
        patch.setattr(layout, "_MEDIA_BYTES", 512)
        yield


@pytest.fixture(scope="module", params=["memory", "lance", "delta"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder = tmp_path_factory.mktemp("tables")
    where = "memory://blocks-twin" if request.param == "memory" else str(folder / "t")
    return made.table(where, made.rows(COUNT), table_format=request.param, pieces=3)


@pytest.fixture(scope="module")
def reader(
    small_blocks: None, table: Table, tmp_path_factory: pytest.TempPathFactory
) -> TableReader:
    return TableReader(table, cache=BlockCache(tmp_path_factory.mktemp("cache")))


class _Unmapped:
    """A table whose binary columns are not read in place."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __getattr__(self, name: str) -> object:
        return getattr(self._table, name)

    def mapped(self, column: str) -> None:
        return None


@pytest.fixture(scope="module")
def blocks_reader(
    small_blocks: None, table: Table, tmp_path_factory: pytest.TempPathFactory
) -> TableReader:
    return TableReader(_Unmapped(table), cache=BlockCache(tmp_path_factory.mktemp("cache")))  # type: ignore[arg-type]


def expect_numbers(found: np.ndarray, twin: pa.ChunkedArray, fill: float | None) -> None:
    values = twin.to_pylist()
    wide = found.ndim == 2
    width = found.shape[1] if wide else 1
    nothing = np.nan if fill is None else fill
    rows = [([nothing] * width if value is None else value) if wide else value for value in values]
    rows = [nothing if value is None else value for value in rows]
    expected = np.array(rows, found.dtype).reshape(found.shape)
    np.testing.assert_array_equal(found, expected)


def check(reader: TableReader, rows: np.ndarray, *, sparse: bool) -> None:
    twin = reader.table.take(rows, made.SCHEMA.names)
    for name in made.NUMBERS:
        column = twin[name]
        is_float = name in ("real", "half", "vector")
        if is_float or not column.null_count:
            expect_numbers(reader.numbers(name, rows, sparse=sparse), column, None)
        else:
            with pytest.raises(InputError, match=f"no {name}.*row"):
                reader.numbers(name, rows, sparse=sparse)
        expect_numbers(reader.numbers(name, rows, fill=1, sparse=sparse), column, 1)
        out = np.empty_like(reader.numbers(name, rows, fill=1))
        assert reader.numbers(name, rows, out, fill=1) is out
        expect_numbers(out, column, 1)
    for name in ("utt_id", "label"):
        texts = twin[name].to_pylist()
        assert reader.texts(name, rows, sparse=sparse) == texts
        codes, values = reader.codes(name, rows)
        assert [None if code < 0 else values[code] for code in codes] == texts
        assert len(set(values)) == len(values)
    for name in ("audio", "raw"):
        media = twin[name].to_pylist()
        views = reader.views(name, rows, sparse=sparse)
        assert [None if view is None else view.tobytes() for view in views] == media
        if isinstance(reader.table, _Unmapped):
            assert not any(view.flags.writeable for view in views if view is not None)
        sizes = [0 if value is None else len(value) for value in media]
        assert reader.sizes(name, rows, sparse=sparse).tolist() == sizes


@given(
    rows=st.lists(st.integers(0, COUNT - 1), max_size=40).map(lambda r: np.array(r, np.int64)),
    sparse=st.booleans(),
)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_reads_what_take_gives(reader: TableReader, rows: np.ndarray, sparse: bool) -> None:
    check(reader, rows, sparse=sparse)


@given(
    rows=st.lists(st.integers(0, COUNT - 1), max_size=40).map(lambda r: np.array(r, np.int64)),
    ahead=st.booleans(),
    sparse=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_reads_in_blocks_what_take_gives(
    blocks_reader: TableReader, rows: np.ndarray, ahead: bool, sparse: bool
) -> None:
    if ahead:
        begun = blocks_reader.prefetch(made.SCHEMA.names, rows, sparse=sparse)
        begun.wait()
        blocks_reader.expect(made.SCHEMA.names, rows, 1.0)
    check(blocks_reader, rows, sparse=sparse)


@pytest.mark.parametrize("nulls", [False, True])
def test_one_block_large_enough_for_all(
    tmp_path: Path, nulls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made.table(str(tmp_path / "t"), made.rows(100, nulls=nulls), table_format="lance")
    reader = TableReader(table, cache=BlockCache(tmp_path / "cache"))
    for rows in (np.arange(100), np.array([99, 0, 0]), np.array([5])):
        check(reader, rows, sparse=False)


def test_a_copy_reads_the_same(reader: TableReader) -> None:
    if not reader.table.capabilities.survives_process:
        pytest.skip("in this process alone")
    check(pickle.loads(pickle.dumps(reader)), np.array([149, 3, 77]), sparse=False)


def test_an_empty_table(tmp_path: Path) -> None:
    table = made.table(str(tmp_path / "t"), made.rows(0), table_format="lance")
    reader = TableReader(table, cache=BlockCache(tmp_path / "cache"))
    none = np.empty(0, np.int64)
    assert reader.numbers("vector", none).shape == (0, 3)
    assert reader.texts("label", none) == []
    assert reader.views("audio", none) == []
    assert reader.prefetch(["label", "audio"], none).num_bytes == 0
    with pytest.raises(InputError, match="out of range"):
        reader.numbers("whole", np.array([0]))


def test_texts_that_repeat_are_one_object(reader: TableReader) -> None:
    rows = np.arange(COUNT)
    assert len({id(text) for text in reader.texts("label", rows)}) <= 4


def test_what_cannot_be_read_is_said(reader: TableReader) -> None:
    for rows in (np.array([-1]), np.array([0, COUNT])):
        with pytest.raises(InputError, match="out of range"):
            reader.numbers("whole", rows)
    with pytest.raises(SchemaError, match=r"labels.*Did you mean label"):
        reader.texts("labels", np.array([0]))
    with pytest.raises(InputError, match=r"holds texts.*Use texts"):
        reader.numbers("label", np.array([0]))


def test_the_null_row_is_named(tmp_path: Path) -> None:
    data = pa.table({"n": pa.array([1, None, 3])})
    reader = TableReader(
        made.table(str(tmp_path / "t"), data, table_format="lance"),
        cache=BlockCache(tmp_path / "cache"),
    )
    assert reader.numbers("n", np.array([2, 0])).tolist() == [3, 1]
    with pytest.raises(InputError, match=r"row 1 of .*t, version"):
        reader.numbers("n", np.array([2, 1]))


def test_a_table_made_anew_in_the_same_place_is_another(tmp_path: Path) -> None:
    from datalake.tables import drop_table

    cache = BlockCache(tmp_path / "cache")
    for value in (1.0, 2.0):
        data = pa.table({"n": [value] * 10})
        table = made.table(str(tmp_path / "t"), data, table_format="lance")
        reader = TableReader(table, cache=cache)
        assert reader.numbers("n", np.arange(10)).tolist() == [value] * 10
        drop_table(str(tmp_path / "t"))


def test_blocks_are_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "NARROW_ROWS", 16)
    monkeypatch.setattr(layout, "_MEDIA_BYTES", 512)
    table = made.table(str(tmp_path / "t"), made.rows(COUNT), table_format="lance")
    cache, meter = BlockCache(tmp_path / "cache"), Meter()
    reader = TableReader(_Unmapped(table), cache=cache, meter=meter)  # type: ignore[arg-type]
    rows = np.arange(COUNT)
    many = [reader.prefetch(["label", "audio"], rows) for _ in range(3)]
    assert many[0].num_bytes > 0
    for begun in many:
        begun.wait()
    num_blocks = reader.layout("label").num_blocks + reader.layout("audio").num_blocks
    assert meter.counts()["origin_reads"] == num_blocks
    reader.texts("label", rows)
    reader.views("audio", rows)
    again = TableReader(_Unmapped(table), cache=cache, meter=meter)  # type: ignore[arg-type]
    assert again.prefetch(["label", "audio"], rows).num_bytes == 0
    again.texts("label", rows)
    again.views("audio", rows)
    assert meter.counts()["origin_reads"] == num_blocks
    assert meter.seconds()["store"] > 0


def test_sparse_rows_cost_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_MEDIA_BYTES", 512)
    table = made.table(str(tmp_path / "t"), made.rows(COUNT), table_format="lance")
    meter = Meter()
    reader = TableReader(
        _Unmapped(table),  # type: ignore[arg-type]
        cache=BlockCache(tmp_path / "cache"),
        meter=meter,
        sparse=True,
    )
    rows = np.array([140, 3, 77, 3])
    begun = reader.prefetch(["audio"], rows)
    begun.wait()
    twin = table.take(rows, ["audio"])["audio"].to_pylist()
    found = reader.views("audio", rows)
    assert [None if v is None else v.tobytes() for v in found] == twin
    assert meter.counts()["origin_reads"] == 1
    reader.views("audio", rows)
    assert meter.counts()["origin_reads"] == 2
    assert meter.counts()["origin_bytes"] < 3000


@pytest.mark.parametrize("refused", [False, True])
def test_a_block_that_fails_behind_the_back_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    table = made.table(str(tmp_path / "t"), made.rows(COUNT, nulls=False), table_format="delta")
    reader = TableReader(table, cache=BlockCache(tmp_path / "cache"))
    blocks = reader._blocks
    reads: list[None] = []

    def read(*_: object, **__: object) -> None:
        reads.append(None)
        if refused:
            raise RefusedError("no")
        raise OSError(5, "damaged page")

    monkeypatch.setattr(blocks._quiet, "_delay_s", 0.0)
    monkeypatch.setattr(blocks._origin if refused else blocks._origin._table, "read", read)
    layout = reader.layout("whole")
    for _ in range(3):
        blocks.begin_quietly(layout, 0)
        while blocks._quiet._num_alive:
            time.sleep(0.001)
    assert len(reads) == (3 if refused else 1)
    assert blocks.is_given_up(layout, 0) != refused
    if not refused:
        assert reader.numbers("whole", np.array([3])).tolist() == [
            table.take(np.array([3]), ["whole"])["whole"][0].as_py()
        ]


def test_readers_share_the_cache_of_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATALAKE_CACHE", str(tmp_path / "cache"))
    table = made.table(str(tmp_path / "t"), made.rows(10), table_format="delta")
    readers = [TableReader(table) for _ in range(3)]
    readers.append(pickle.loads(pickle.dumps(readers[0])))
    assert {reader.cache for reader in readers} == {BlockCache.shared(str(tmp_path / "cache"))}
    assert BlockCache.shared(tmp_path / "cache", budget_bytes=1 << 20) is not readers[0].cache


def test_a_block_that_was_not_kept_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made.table(tmp_path / "t.lance", made.rows(300), table_format="lance")
    cache = BlockCache(tmp_path / "cache")
    blocks, layout = (reader := TableReader(table, cache=cache))._blocks, reader.layout("label")
    now = [1000.0]
    monkeypatch.setattr(table_blocks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with monkeypatch.context() as once:
        once.setattr(cache, "has", lambda _: False)  # A cache that is all in use for a moment.
        blocks.block(layout, 0, None)
    assert blocks.is_given_up(layout, 0)
    now[0] += 31
    assert not blocks.is_given_up(layout, 0)
    blocks._open.drop("label", 0)
    blocks.block(layout, 0, None)
    assert not blocks.is_given_up(layout, 0)


def test_blocks_given_up_are_not_remembered_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made.table(tmp_path / "t.lance", made.rows(10), table_format="lance")
    blocks = TableReader(table, cache=BlockCache(tmp_path / "cache"))._blocks
    monkeypatch.setattr(table_blocks, "_MOST_REMEMBERED", 5)
    for number in range(20):
        blocks._give_up(("label", number))
    assert list(blocks._given_up) == [("label", number) for number in range(15, 20)]
