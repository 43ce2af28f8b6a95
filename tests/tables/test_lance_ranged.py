"""Parts of values by ranges of files: those of `take`, whatever lies there."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.errors import NotFoundError, StoreError
from datalake.schema import media_field
from datalake.tables import Table, create_table
from datalake.tables.lance import LanceTable
from datalake.tables.lance_ranged import LanceRanged

SCHEMA = pa.schema([("name", pa.string()), media_field("video", "video")])
SIZES = (0, 1, 7, 300, 70_000, 200_000, 90_000, 12)


def rows(seed: int, *, nulls: bool, sizes: tuple[int, ...] = SIZES) -> pa.Table:
    rng = np.random.default_rng(seed)
    values: list[bytes | None] = [rng.bytes(size) for size in sizes]
    if nulls:
        values[3] = None
    names = [f"{seed}/{number}" for number in range(len(values))]
    return pa.table({"name": names, "video": pa.array(values, pa.large_binary())}, schema=SCHEMA)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LanceTable:
    """Fragments with and without nulls, deleted rows, one value for all, and nothing but null."""
    made: Table = create_table(tmp_path_factory.mktemp("ranged") / "t.lance", SCHEMA)
    made = made.append(rows(0, nulls=False)).append(rows(1, nulls=True))
    same = rows(2, nulls=False).slice(6, 1)
    made = made.append(pa.concat_tables([same] * 5).combine_chunks())
    empty = rows(3, nulls=False).slice(0, 2)
    none = empty.set_column(1, SCHEMA.field(1), pa.nulls(2, pa.large_binary()))
    made = made.append(none).delete("name in ('0/1', '1/4')")
    assert isinstance(made, LanceTable)
    return made


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_equal_to_slices_of_what_is_taken(table: LanceTable, data: st.DataObject) -> None:
    values = table.scan(["video"]).read_all()["video"].to_pylist()
    ranged = LanceRanged(table, "video")
    asked = []
    for row in data.draw(st.lists(st.integers(0, len(values) - 1), max_size=6)):
        size = len(values[row] or b"")
        start = data.draw(st.integers(0, size))
        asked.append((row, start, data.draw(st.integers(start, size))))
    for each in (ranged, pickle.loads(pickle.dumps(ranged))):
        found = each.read(asked)
        assert found == [(values[row] or b"")[start:stop] for row, start, stop in asked]


def test_no_more_is_read_than_asked_for(table: LanceTable, monkeypatch: pytest.MonkeyPatch) -> None:
    ranged = LanceRanged(table, "video")
    ranged.read([(4, 0, 1)])
    sizes: list[int] = []
    read_all = ranged._fragments.read_all

    def counting(ranges: list[tuple[str, int, int]]) -> list[bytes]:
        sizes.extend(stop - start for _, start, stop in ranges)
        return read_all(ranges)

    monkeypatch.setattr(ranged._fragments, "read_all", counting)
    ranged.read([(4, 1000, 1100), (4, 1200, 1300)])
    # Near each other, they come together.
    assert sizes == [300]
    ranged.read([(4, 0, 10), (4, 150_000, 150_010)])
    assert sizes[1:] == [10, 10]


def test_values_that_lance_packs_are_read_through_it(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("video", pa.large_binary())])
    data = pa.table({"video": [bytes([n]) * 40 for n in range(30)]}, schema=schema)
    made = create_table(tmp_path / "t.lance", schema).append(data)
    assert isinstance(made, LanceTable)
    assert LanceRanged(made, "video").read([(7, 3, 9), (29, 0, 40)]) == [b"\x07" * 6, b"\x1d" * 40]


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    made = create_table(tmp_path / "t.lance", SCHEMA).append(rows(0, nulls=False))
    assert isinstance(made, LanceTable)
    assert made.ranged("video") is None, "a local table is mapped"
    ranged = LanceRanged(made, "video")
    with pytest.raises(StoreError, match="has 300 bytes, and not 301"):
        ranged.read([(3, 0, 301)])
    (file,) = (tmp_path / "t.lance" / "data").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    with pytest.raises(StoreError):
        LanceRanged(made, "video").read([(3, 0, 300)])
    # The length before the value of row 5, which is the only one of that size.
    place = whole.index((200_000).to_bytes(8, "little") + rows(0, nulls=False)["video"][5].as_py())
    file.write_bytes(whole[:place] + (200_001).to_bytes(8, "little") + whole[place + 8 :])
    with pytest.raises(StoreError, match="no value"):
        LanceRanged(made, "video").read([(5, 0, 10)])
    file.unlink()
    with pytest.raises(NotFoundError):
        LanceRanged(made, "video").read([(3, 0, 300)])
