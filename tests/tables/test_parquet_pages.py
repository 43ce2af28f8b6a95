"""Pages of Parquet files read on their own, beside a Parquet library that reads them whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import StoreError
from datalake.schema import media_field
from datalake.tables import Table, create_table, delta_files, open_table
from datalake.tables.parquet_pages import (
    DamagedPageError,
    footer_bytes,
    page_values,
    read_footer,
)


def written(table: pa.Table, **given: object) -> memoryview:
    """A Parquet file with a page index."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **{"compression": "NONE", "write_page_index": True, **given})
    return memoryview(sink.getvalue().to_pybytes())


PLAIN = {"use_dictionary": False, "write_batch_size": 2, "data_page_size": 64}


def by_pages(file: memoryview, column: str) -> list[bytes | None] | None:
    footer = read_footer(file, column)
    if footer is None:
        return None
    pages = footer.pages(file, 0)
    counts = np.diff(pages.firsts).tolist()
    return [
        None if value is None else bytes(value)
        for start, size, count in zip(pages.starts, pages.sizes, counts, strict=True)
        for value in page_values(file[start : start + size], count, pages.has_levels)
    ]


@settings(deadline=None, max_examples=60)
@given(
    values=st.lists(st.none() | st.binary(max_size=90), min_size=1, max_size=60),
    group=st.integers(1, 30),
    batch=st.integers(1, 20),
    required=st.booleans(),
)
def test_values_are_those_of_the_library(
    values: list[bytes | None], group: int, batch: int, required: bool
) -> None:
    if required:
        values = [value or b"" for value in values]
    field = pa.field("media", pa.binary(), nullable=not required)
    nested = pa.array([{"media": b"no", "deep": [1]} for _ in values])
    table = pa.table(
        [nested, range(len(values)), pa.array(values, pa.binary())],
        schema=pa.schema([pa.field("nest", nested.type), pa.field("n", pa.int64()), field]),
    )
    file = written(table, **{**PLAIN, "row_group_size": group, "write_batch_size": batch})
    assert by_pages(file, "media") == values
    assert by_pages(file, "nest") is by_pages(file, "n") is by_pages(file, "none") is None


@pytest.mark.parametrize(
    "given",
    [
        {"compression": "ZSTD"},
        {"use_dictionary": True},
        {"write_page_index": False},
        {"column_encoding": {"media": "DELTA_BYTE_ARRAY"}},
    ],
)
def test_what_lies_otherwise_is_left_to_the_library(given: dict[str, object]) -> None:
    table = pa.table({"media": [b"a" * 30, b"b" * 30] * 20})
    assert by_pages(written(table, **{**PLAIN, **given}), "media") is None


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damage_is_told(data: st.DataObject) -> None:
    table = pa.table({"media": pa.array([b"abc", None, b"", b"x" * 50], pa.binary())})
    file = bytearray(written(table, **PLAIN))
    place = data.draw(st.integers(0, len(file) - 1))
    file[place] = data.draw(st.integers(0, 255))
    cut = memoryview(bytes(file[data.draw(st.integers(0, len(file))) :]))
    for view in (memoryview(bytes(file)), cut):
        try:
            if footer_bytes(view) <= len(view):
                by_pages(view, "media")
        except DamagedPageError:
            pass


# Tables ---------------------------------------------------------------------------------------

SCHEMA = pa.schema([pa.field("id", pa.int64()), media_field("audio", "audio")])


def rows(count: int, media_bytes: int = 3000, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = [
        None if rng.random() < 0.1 else rng.bytes(int(rng.integers(0, media_bytes)))
        for _ in range(count)
    ]
    return pa.table([range(count), pa.array(values, pa.large_binary())], schema=SCHEMA)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Table, pa.Table]:
    monkeypatch.setattr(delta_files, "_GROUP_BYTES", 60_000)
    data = rows(400)
    table = create_table(tmp_path / "t.delta", SCHEMA, format="delta")
    for begin in range(0, 400, 130):
        table = table.append(data.slice(begin, 130))
    return table, data


def test_rows_are_read_by_their_pages(
    made: tuple[Table, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, data = made

    def whole(*_: object) -> None:
        raise AssertionError("a row group was read")

    monkeypatch.setattr(delta_files.DataFile, "_read", whole)
    rng = np.random.default_rng(1)
    for wanted in (rng.permutation(400)[:50], np.array([7, 399, 7, 0]), np.array([], np.int64)):
        assert table.take(wanted, ["audio"]).equals(data.select(["audio"]).take(wanted))
    for start, stop in ((0, 400), (120, 140), (17, 18), (259, 261)):
        found = table.read(start, stop, ["audio"])
        assert found.equals(data.select(["audio"]).slice(start, stop - start))
    assert table.take([3], ["audio"]).schema.equals(pa.schema([SCHEMA.field("audio")]))


def test_tables_written_without_an_index_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rows(40)
    table = create_table(tmp_path / "t.delta", SCHEMA, format="delta").append(data.slice(0, 20))
    monkeypatch.setattr(delta_files, "_pages", lambda *_: {})
    table = table.append(data.slice(20))
    wanted = np.arange(39, -1, -3)
    assert table.take(wanted, ["audio"]).equals(data.select(["audio"]).take(wanted))
    assert table.read(10, 30, ["audio"]).equals(data.select(["audio"]).slice(10, 20))


def test_a_page_is_a_value_or_16_kb(tmp_path: Path) -> None:
    for media_bytes in (100_000, 200):
        folder = tmp_path / str(media_bytes)
        table = create_table(folder, SCHEMA, format="delta").append(rows(300, media_bytes))
        (path,) = folder.glob("*.parquet")
        file = memoryview(path.read_bytes())
        footer = read_footer(file, "audio")
        assert footer is not None
        pages = footer.pages(file, 0)
        assert (pages.sizes < 2 * 16384 + media_bytes).all()
        assert table.count_rows() == pages.firsts[-1]


def test_a_cut_file_is_named(made: tuple[Table, pa.Table]) -> None:
    table, _ = made
    path = next(Path(table.uri).glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(StoreError, match=path.name):
        open_table(table.uri).read(0, 400, ["audio"])
