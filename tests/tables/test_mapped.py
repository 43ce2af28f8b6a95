"""Columns read in place: what `take` reads, or an error, whatever lies in the files."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from datalake.errors import LakeError, NotFoundError, StoreError
from datalake.schema import media_field
from datalake.tables import (
    Table,
    create_table,
    lance_file,
    lance_fragments,
    lance_mapped,
    open_table,
)
from datalake.tables.lance import LanceTable
from datalake.tables.lance_mapped import LanceMapped

SCHEMA = pa.schema([pa.field("id", pa.int64()), media_field("audio", "audio")])
Values = list[bytes | None]


def noise(num_bytes: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(num_bytes)


def batch(values: Values, start: int = 0) -> pa.Table:
    ids = range(start, start + len(values))
    return pa.table([pa.array(ids), pa.array(values, pa.large_binary())], schema=SCHEMA)


def lance_table(place: Path, *pieces: Values) -> LanceTable:
    table = create_table(place, SCHEMA)
    for values in pieces:
        table = table.append(batch(values, table.count_rows()))
    assert isinstance(table, LanceTable)
    return table


def read(mapped: Any, rows: Any) -> Values:
    views = mapped.views(np.asarray(rows))
    return [None if view is None else view.tobytes() for view in views]


def taken(table: Table, column: str = "audio") -> Values:
    values: Values = table.take(range(table.count_rows()), [column])[column].to_pylist()
    return values


def data_file(table: Table) -> Path:
    (path,) = (Path(table.uri) / "data").iterdir()
    return path


VALUE = st.one_of(
    st.none(),
    st.just(b""),
    st.binary(max_size=20),
    st.integers(256, 70_000).flatmap(lambda n: st.integers(0, 3).map(lambda s: noise(n, s))),
)
PIECE = st.lists(VALUE, min_size=1, max_size=12)
STEP = st.one_of(
    PIECE.map(lambda values: ("append", values)),
    st.sets(st.integers(0, 30), max_size=5).map(lambda ids: ("delete", ids)),
    st.tuples(st.sampled_from(["compact", "add", "rename", "merge"]), st.none()),
)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=PIECE, steps=st.lists(STEP, max_size=5), data=st.data())
def test_any_history_reads_as_take_does(
    first: Values, steps: list[tuple[str, Any]], data: st.DataObject, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "t.lance", ignore_errors=True)
    table: Table = lance_table(tmp_path / "t.lance", first)
    column = "audio"
    for step, what in steps:
        names = ["id", "audio"]
        if step == "append" and table.schema.names == names:
            table = table.append(batch(what, 100 + table.count_rows()))
        elif step == "merge" and table.schema.names == names:
            table = table.merge(batch([noise(400, 9), None]), "id")
        elif step == "delete" and what:
            table = table.delete(f"id IN ({', '.join(map(str, what))})")
        elif step == "compact":
            table = table.compact()
        elif step == "add" and "more" not in table.schema.names:
            more = data.draw(st.lists(VALUE, min_size=1, max_size=5))
            rows = [more[row % len(more)] for row in range(table.count_rows())]
            more_field = media_field("more", "audio")
            column = "more"
            table = table.add_columns(
                pa.table([pa.array(rows, pa.large_binary())], schema=pa.schema([more_field]))
            )
        elif step == "rename":
            table = table.project({"id": "id", column: f"{column}_"})
            column += "_"
    wanted = taken(table, column)
    index = data.draw(st.lists(st.integers(0, max(0, len(wanted) - 1)), max_size=40))
    index = index if wanted else []
    assert isinstance(table, LanceTable)
    # Whatever the first fragment is like: what `mapped` returns for most is the same class.
    mapped = LanceMapped(table, column)
    assert read(mapped, index) == [wanted[row] for row in index]
    assert mapped.sizes(np.array(index, int)).tolist() == [len(wanted[row] or b"") for row in index]
    public = table.mapped(column)
    assert public is None or read(public, index) == [wanted[row] for row in index]


NONE = {"lance-encoding:compression": "none"}
LARGE, SMALL = pa.large_binary(), pa.binary()
LAYOUTS: dict[str, tuple[Values, pa.DataType, str, dict[str, str], bool]] = {
    # values, type, file version, metadata of the field, whether it is read in place
    "large": ([noise(90_000, i) for i in range(9)], LARGE, "2.2", NONE, True),
    "offsets of 4 bytes": ([noise(99_000, i) for i in range(4)], LARGE, "2.2", NONE, True),
    "offsets of 2 bytes": ([noise(900, i) for i in range(4)], LARGE, "2.2", NONE, True),
    "nulls": ([None, noise(300), None, b"", noise(999)], LARGE, "2.2", NONE, True),
    "binary": ([noise(900, i) for i in range(4)], SMALL, "2.2", NONE, True),
    "binary with nulls": ([noise(900), None, noise(901), b""], SMALL, "2.2", NONE, True),
    "version 2.1": ([noise(900), None, noise(901)], LARGE, "2.1", NONE, True),
    "plain by default": ([noise(900, i) for i in range(9)], LARGE, "2.2", {}, True),
    "one value": ([b"hello"], LARGE, "2.2", NONE, True),
    "one small binary": ([b"hello"], SMALL, "2.2", NONE, True),
    "all equal": ([noise(5000)] * 200, LARGE, "2.2", NONE, True),
    "all empty": ([b""] * 5, LARGE, "2.2", NONE, True),
    "all null": ([None] * 5, LARGE, "2.2", NONE, True),
    "equal or null": ([noise(500), None, noise(500)], LARGE, "2.2", NONE, False),
    "tiny": ([noise(9, i) for i in range(200)], LARGE, "2.2", NONE, False),
    "dictionary": ([noise(500, i % 3) for i in range(300)], LARGE, "2.2", NONE, False),
    "zstd a value": ([noise(500) * 90, noise(501)], LARGE, "2.2", {}, False),
    "zstd": (
        [noise(500, i) * 10 for i in range(50)],
        LARGE,
        "2.2",
        {"lance-encoding:compression": "zstd"},
        False,
    ),
    "version 2.0": ([noise(900), None, noise(901)], LARGE, "2.0", {}, False),
    "blob": ([noise(900), noise(901)], LARGE, "2.1", {"lance-encoding:blob": "true"}, False),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_is_read_in_place_or_left_to_lance(name: str, tmp_path: Path) -> None:
    import lance

    values, data_type, version, metadata, in_place = LAYOUTS[name]
    field = pa.field("v", data_type, metadata=metadata)
    place = str(tmp_path / "t.lance")
    rows = pa.table([pa.array(values, data_type)], schema=pa.schema([field]))
    lance.write_dataset(rows, place, data_storage_version=version)  # type: ignore[arg-type]
    table = open_table(place)
    assert isinstance(table, LanceTable)
    assert (table.mapped("v") is not None) == in_place
    mapped = LanceMapped(table, "v")
    index = np.random.default_rng(1).permutation(len(values))
    if name != "blob":  # Which `take` has as places, and no bytes.
        assert read(mapped, index) == [values[row] for row in index]
    if in_place:
        mapped.prepare()
    else:
        with pytest.raises(StoreError, match="threads or spawned"):
            mapped.prepare()


def test_many_pages_and_pages_of_other_kinds(tmp_path: Path) -> None:
    import lance

    pool = noise(9_000_000)
    pages: list[Values] = [
        [pool[i::3] for i in range(3)],
        [pool[i : i + 200] for i in range(0, 9_000_000, 200)],  # Small ones: Lance packs them.
        [pool[1:]],
        [pool, None, b"", b"tiny"],
        [None] * 5,
    ]
    values: Values = [value for page in pages for value in page]
    schema = pa.schema([pa.field("v", LARGE, metadata=NONE)])
    batches = (pa.record_batch([pa.array(page, LARGE)], schema=schema) for page in pages)
    rows = pa.RecordBatchReader.from_batches(schema, batches)
    lance.write_dataset(rows, str(tmp_path / "t.lance"), data_storage_version="2.2")
    table = open_table(tmp_path / "t.lance")
    assert isinstance(table, LanceTable)
    mapped = LanceMapped(table, "v")
    assert [page[1] for page in mapped._fragments.footer(0).pages.tolist()] == [
        lance_file.ZIPPED,
        lance_file.ELSEWHERE,
        lance_file.SAME,
        lance_file.ZIPPED,
        lance_file.NULL,
    ]
    rng = np.random.default_rng(0)
    index = rng.permutation([*range(5), *rng.integers(0, 45_000, 50), *range(44_998, 45_013)])
    assert read(mapped, index) == [values[row] for row in index]
    assert table.mapped("v") is None  # Too much of it goes through Lance.


def test_memory_tables_are_read_where_they_lie() -> None:
    values: Values = [*(noise(300, i) for i in range(50)), None, b""]
    table = create_table("memory://mapped-here", SCHEMA, format="memory")
    table = table.append(batch(values)).append(batch(values))
    mapped = table.mapped("audio")
    assert mapped is not None
    assert read(mapped, range(104)) == values + values
    (first,) = mapped.views(np.array([7]))
    (again,) = mapped.views(np.array([7]))
    assert first is not None
    assert again is not None
    assert first.ctypes.data == again.ctypes.data
    assert mapped.advise(np.array([7, 51])) == 300
    mapped.prepare()


# What can be wrong ------------------------------------------------------------------------------


def test_a_cut_file_is_an_error(tmp_path: Path) -> None:
    values: Values = [noise(40_000, i) for i in range(20)]
    table = lance_table(tmp_path / "t.lance", values)
    path = data_file(table)
    known = table.mapped("audio")
    assert known is not None
    whole = path.read_bytes()
    # The map of it is of the file that was, which lives on under another name.
    path.rename(tmp_path / "was")
    for length in (0, 39, 40, 1000, len(whole) // 2, len(whole) - 1, len(whole) + 1):
        path.write_bytes((whole + b"x")[:length])
        with pytest.raises(StoreError, match=r"bytes") as caught:
            open_table(table.uri).mapped("audio")
        assert caught.value.where == str(path)
    assert read(known, [3]) == [values[3]]
    path.unlink()
    with pytest.raises(NotFoundError):
        open_table(table.uri).mapped("audio")


def test_a_file_that_is_cut_before_it_is_mapped_again(tmp_path: Path) -> None:
    table = lance_table(tmp_path / "t.lance", [noise(4000, 1), noise(4000, 2)])
    mapped = LanceMapped(table, "audio")
    mapped.prepare()
    path = data_file(table)
    os.truncate(path, 5000)
    with pytest.raises(StoreError, match=r"5,000 bytes"):
        mapped.views(np.array([0]))


def test_no_flipped_bit_gives_a_wrong_length_or_a_crash(tmp_path: Path) -> None:
    """Where values begin and end is verified; their own bytes are not, as Lance's are not."""
    values: Values = [noise(260), None, b"", b"tiny", noise(257, 1)]
    table = lance_table(tmp_path / "t.lance", values)
    path = data_file(table)
    whole = path.read_bytes()
    start = whole.index(noise(257, 1)) + 257
    for position in [*range(12), *range(270, 300), *range(start, len(whole))]:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        try:
            found = read(LanceMapped(LanceTable(table._location, 2, SCHEMA), "audio"), range(5))
        except LakeError:
            continue
        if position < start:
            sizes = [None if value is None else len(value) for value in found]
            assert sizes == [260, None, 0, 4, 257], position
        elif found != values:
            # A page that now claims another layout: then it is Lance that reads it so.
            path.write_bytes(flipped)
            assert found == taken(LanceTable(table._location, 2, SCHEMA)), position


def test_the_error_names_file_and_row(tmp_path: Path) -> None:
    table = lance_table(tmp_path / "t.lance", [noise(300, i) for i in range(6)])
    path = data_file(table)
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(whole.index(noise(300, 4)) - 8)  # The length of row 4.
        file.write(b"\x2b")
    mapped = LanceMapped(table, "audio")
    assert read(mapped, [3, 5]) == [noise(300, 3), noise(300, 5)]
    with pytest.raises(StoreError, match="row 4") as caught:
        mapped.sizes(np.array([0, 4]))
    assert caught.value.where == str(path)


def test_a_lance_that_reads_other_bytes_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lance_table(tmp_path / "t.lance", [noise(300, i) for i in range(6)])
    assert table.mapped("audio") is not None
    monkeypatch.setattr(lance_mapped, "views_of", lambda *_: [np.zeros(300, np.uint8)])
    assert table.mapped("audio") is None


# Lives ------------------------------------------------------------------------------------------


def test_views_outlive_the_table(tmp_path: Path) -> None:
    values: Values = [noise(40_000, i) for i in range(6)]
    table = lance_table(tmp_path / "t.lance", values)
    mapped = table.mapped("audio")
    assert mapped is not None
    views = mapped.views(np.arange(6))
    shutil.rmtree(table.uri)
    assert read(mapped, range(6)) == values
    del mapped, table
    assert [view.tobytes() for view in views if view is not None] == values


def test_maps_are_bounded_and_hold_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_fragments, "_MOST_MAPS", 4)
    monkeypatch.setattr(lance_fragments, "_EVICTED_MAPS", 2)
    pieces: list[Values] = [[noise(300, i), noise(301, i)] for i in range(12)]
    table = lance_table(tmp_path / "t.lance", *pieces)
    mapped = table.mapped("audio")
    assert isinstance(mapped, LanceMapped)
    handles, values = len(os.listdir("/proc/self/fd")), [v for piece in pieces for v in piece]
    for order in np.random.default_rng(0).integers(0, 24, (20, 24)):
        assert read(mapped, order) == [values[row] for row in order]
        assert len(mapped._fragments.maps) <= 4
    assert len(os.listdir("/proc/self/fd")) <= handles
    kept = mapped.views(np.arange(24))
    assert [view.tobytes() for view in kept if view is not None] == values
    assert Path("/proc/self/maps").read_text().count(str(tmp_path)) == 12
    del kept
    assert Path("/proc/self/maps").read_text().count(str(tmp_path)) <= 4


def test_threads_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_fragments, "_MOST_MAPS", 4)
    pieces: list[Values] = [[noise(300, 3 * i), None, noise(301, i)] for i in range(12)]
    table: Table = lance_table(tmp_path / "t.lance", *pieces).delete("id = 5")
    mapped, wanted = table.mapped("audio"), taken(table)
    wrong: list[object] = []

    def work(seed: int) -> None:
        for rows in np.random.default_rng(seed).integers(0, len(wanted), (40, 16)):
            try:
                if read(mapped, rows) != [wanted[row] for row in rows]:
                    wrong.append(rows)
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_advice_counts_the_bytes(tmp_path: Path) -> None:
    table = lance_table(tmp_path / "t.lance", [noise(40_000, 1), None, b"", noise(300, 2)])
    mapped = table.mapped("audio")
    assert mapped is not None
    assert mapped.advise(np.array([3, 1, 0, 2])) == 40_300
    assert mapped.advise(np.array([1], np.int64)) == 0
    assert mapped.advise(np.empty(0, np.int64)) == 0


def in_child(work: Callable[[], object]) -> object:
    """What `work` returns or raises in a forked process, as text."""
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(sending, repr(work()).encode()[:4000])
        except BaseException as error:
            os.write(sending, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        said = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    return said


@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore:.*fork:DeprecationWarning")
def test_forked_processes_read_what_was_prepared(tmp_path: Path) -> None:
    pieces: list[Values] = [[noise(300, 3 * i), None, noise(9000, i)] for i in range(5)]
    table: Table = lance_table(tmp_path / "t.lance", *pieces).delete("id = 5")
    mapped, wanted = table.mapped("audio"), taken(table)
    assert mapped is not None
    mapped.views(np.array([0]))
    mapped.prepare()
    for seed in range(40):
        rows = np.random.default_rng(seed).integers(0, len(wanted), 30)
        right = [wanted[row] for row in rows]
        assert in_child(lambda rows=rows, right=right: read(mapped, rows) == right) == "True"  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore:lance is not fork-safe", "ignore:.*fork:DeprecationWarning")
def test_a_forked_process_that_would_need_lance_is_told(tmp_path: Path) -> None:
    table = lance_table(tmp_path / "t.lance", [noise(300), noise(301)], [b"tiny", b"other"])
    mapped = table.mapped("audio")
    assert in_child(lambda: read(mapped, [0]) == [noise(300)]) == "True"
    said = in_child(lambda: read(mapped, [3]))
    assert "InputError" in str(said)
    assert "spawn" in str(said)


def test_a_copy_in_a_spawned_process_maps_the_files_again(tmp_path: Path) -> None:
    values: Values = [noise(40_000, i) for i in range(6)]
    mapped = lance_table(tmp_path / "t.lance", values).mapped("audio")
    assert mapped is not None
    mapped.views(np.arange(6))
    assert len(pickle.dumps(mapped)) < 4096
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(read, (mapped, [5, 0])) == [values[5], values[0]]
