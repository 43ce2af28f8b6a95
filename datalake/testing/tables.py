"""What every table format must do, as a class of tests that a format's own tests inherit.

class TestMine(TableContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):
        self.folder = tmp_path

    def make_table(self, schema, properties=None):
        return mine.create(self.folder / uuid.uuid4().hex, schema, properties)
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from datalake.errors import (
    ConflictError,
    ExistsError,
    InputError,
    NotFoundError,
    PredicateError,
    SchemaError,
)
from datalake.schema import is_media, media_field
from datalake.tables import Piece, Stager, Table

__all__ = ["TableContract"]

SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("duration_s", pa.float64()),
        media_field("audio", "audio"),
    ]
)

ODD: Final = pa.schema(
    [
        pa.field("n", pa.int32()),
        pa.field("f", pa.float32()),
        pa.field("s", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("Odd name", pa.string()),
        pa.field("kind", pa.dictionary(pa.int32(), pa.string())),
        pa.field("place", pa.struct([("x", pa.int64()), ("name", pa.string())])),
    ]
)
_DAY: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ODD_ROWS: Final[list[tuple[Any, ...]]] = [
    # n, f, s, flag, at, Odd name, kind, place
    (0, 0.5, "a", True, _DAY, "q", "k0", {"x": 0, "name": "u"}),
    (
        1,
        float("nan"),
        "b'c",
        False,
        _DAY + dt.timedelta(hours=12),
        "r",
        "k1",
        {"x": 1, "name": None},
    ),
    (2, None, None, None, None, None, None, None),
    (3, -1.5, "A%b", True, _DAY + dt.timedelta(days=1), "q", "k0", {"x": None, "name": "v"}),
    (None, 7.0, "", False, _DAY + dt.timedelta(days=2), "s t", "k2", {"x": 4, "name": "w"}),
]
# The positions in ODD_ROWS that hold, by SQL's rules, worked out by hand.
PREDICATES: Final = {
    "n = 1": [1],
    "N >= 1": [1, 2, 3],
    "n != 1": [0, 2, 3],
    "NOT n = 1": [0, 2, 3],
    "n <> 1 OR n IS NULL": [0, 2, 3, 4],
    "n < 1.5": [0, 1],
    "n = -1": [],
    "n > -3000000000": [0, 1, 2, 3],
    "n + 1 = 2 * 2": [3],
    "n - f > 2": [1, 3],  # NaN is greater than any number.
    "n IN (0, 3, 9)": [0, 3],
    "n NOT IN (0, 3)": [1, 2],
    "n NOT IN (0, NULL)": [],
    "n IN (0, NULL)": [0],
    "n IN (0.5, 3)": [3],
    "n BETWEEN 1 AND 2": [1, 2],
    "n NOT BETWEEN 1 AND 2": [0, 3],
    "n IS NULL": [4],
    "n IS NOT NULL AND f IS NULL": [2],
    "n = NULL": [],
    "NULL": [],
    "NULL OR n = 0": [0],
    "TRUE": [0, 1, 2, 3, 4],
    "f > 0": [0, 1, 4],
    "f >= 7": [1, 4],
    "f < 1": [0, 3],
    "f = 0.5": [0],
    "f != 0.5": [1, 3, 4],
    "NOT f > 0": [3],
    "s = 'a'": [0],
    "s = 'b''c'": [1],
    "s > 'A'": [0, 1, 3],
    "s = ''": [4],
    "s LIKE '%b%'": [1, 3],
    "s LIKE 'A\\%b'": [3],
    "s LIKE 'a\\%b'": [],
    "s NOT LIKE '%b%'": [0, 4],
    "lower(s) = 'a%b'": [3],
    "upper(s) = 'A'": [0],
    "length(s) > 1": [1, 3],
    "flag": [0, 3],
    "NOT flag": [1, 4],
    "flag = FALSE": [1, 4],
    "flag IS TRUE": [0, 3],
    "flag IS NOT TRUE": [1, 2, 4],
    "flag AND n = 3 OR s = ''": [3, 4],
    "flag AND (n = 3 OR s = '')": [3],
    "flag OR NULL": [0, 3],
    "at > '2026-01-01'": [1, 3, 4],
    "at <= TIMESTAMP '2026-01-01 13:00:00+01:00'": [0, 1],
    "at < DATE '2026-01-02'": [0, 1],
    "\"Odd name\" = 'q'": [0, 3],
    "`Odd name` = 's t'": [4],
    "kind = 'k0'": [0, 3],
    "kind NOT IN ('k0', 'k1')": [4],
    "place.x = 1": [1],
    "place.name IS NULL": [1, 2],
    "place.x > 0 AND place.name = 'w'": [4],
}

TYPES: Final[dict[str, tuple[pa.DataType, list[Any]]]] = {
    "int8": (pa.int8(), [-128, 127, None]),
    "uint16": (pa.uint16(), [0, 65535, None]),
    "uint64": (pa.uint64(), [0, 2**62, None]),
    "float32": (pa.float32(), [0.25, float("inf"), None]),
    "bool": (pa.bool_(), [True, False, None]),
    "string": (pa.string(), ["", "ünïcødé", None]),
    "large_string": (pa.large_string(), ["", "x" * 1000, None]),
    "binary": (pa.binary(), [b"", b"\x00\xff", None]),
    "large_binary": (pa.large_binary(), [b"", b"\x00\xff" * 1000, None]),
    "date": (pa.date32(), [dt.date(1970, 1, 1), dt.date(2026, 11, 30), None]),
    "time_utc": (pa.timestamp("us", "UTC"), [_DAY, _DAY + dt.timedelta(microseconds=1), None]),
    "time_local": (pa.timestamp("us"), [dt.datetime(2026, 1, 1), dt.datetime(1969, 1, 1), None]),
    "time_ms": (pa.timestamp("ms", "UTC"), [_DAY, _DAY + dt.timedelta(milliseconds=1), None]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None]),
    "vector": (pa.list_(pa.float32(), 3), [[1.0, 2.0, 3.0], [0.0, -0.0, 0.5], None]),
    "list": (pa.list_(pa.int32()), [[1, 2], [], None]),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": 1, "y": None}] * 3),
    "list_of_structs": (
        pa.list_(pa.struct([("at", pa.float64()), ("word", pa.string())])),
        [[{"at": 0.5, "word": "a"}], [], None],
    ),
    "struct_of_lists": (pa.struct([("v", pa.list_(pa.float32()))]), [{"v": [1.0]}] * 3),
}


def rows(start: int, stop: int) -> pa.Table:
    """Rows with these ids: each id's row is always the same."""
    ids = range(start, stop)
    return pa.table(
        {
            "id": ids,
            "label": [None if i % 5 == 4 else ("spoof", "bonafide")[i % 2] for i in ids],
            "duration_s": [i / 4 for i in ids],
            "audio": [bytes([i % 256]) * (i % 7 + 1) for i in ids],
        },
        schema=SCHEMA,
    )


def ids(table: Table, where: str | None = None) -> list[int]:
    """The ids in scan order."""
    read: list[int] = table.scan(["id"], where=where).read_all()["id"].to_pylist()
    return read


def write_elsewhere(stager: Stager, start: int, stop: int) -> list[Piece]:
    """Stage rows; runs in another process."""
    return stager.write(rows(start, stop))


def read_elsewhere(table: Table) -> list[int]:
    """Read ids; runs in another process."""
    return ids(table)


class TableContract:
    """Inherit it and implement `make_table`."""

    def make_table(self, schema: pa.Schema, properties: Mapping[str, str] | None = None) -> Table:
        """A new, empty table at a place of its own."""
        raise NotImplementedError

    @pytest.fixture
    def table(self) -> Table:
        """Ten rows, ids 0 to 9, in two pieces."""
        return self.make_table(SCHEMA).append(rows(0, 6)).append(rows(6, 10))

    # Reading ------------------------------------------------------------------------------------

    def test_an_empty_table_reads_as_empty(self) -> None:
        table = self.make_table(SCHEMA)
        assert table.count_rows() == 0
        assert table.num_bytes() == 0
        assert table.scan().read_all().equals(SCHEMA.empty_table())
        assert table.scan(["id"], where="id = 1", with_row_index=True).read_all().num_rows == 0
        assert table.take([]).equals(SCHEMA.empty_table())
        with pytest.raises(InputError):
            table.take([0])

    def test_what_is_written_comes_back(self, table: Table) -> None:
        assert table.scan().read_all().equals(rows(0, 10))
        assert table.count_rows() == 10
        assert table.num_bytes() > 0

    def test_the_fingerprint_is_of_the_version(self, table: Table) -> None:
        known = table.fingerprint()
        later = table.append(rows(10, 12))
        assert later.fingerprint() != known
        assert {table.fingerprint(), later.at(table.version).fingerprint()} == {known}
        # Another table of the same rows, commits and sizes.
        twin = self.make_table(SCHEMA).append(rows(0, 6)).append(rows(6, 10))
        assert twin.fingerprint() != known

    def test_the_schema_is_the_one_declared(self, table: Table) -> None:
        assert table.schema.equals(SCHEMA, check_metadata=True)
        assert table.at().schema.equals(SCHEMA, check_metadata=True)
        assert is_media(table.scan(["audio"]).schema.field("audio"))
        assert is_media(table.take([1], ["audio"]).schema.field("audio"))

    def test_columns_come_in_the_order_asked(self, table: Table) -> None:
        assert table.scan(["audio", "id"]).schema.names == ["audio", "id"]
        assert table.take([3], ["audio", "id"]).to_pydict() == {"audio": [b"\x03" * 4], "id": [3]}

    def test_a_batch_is_no_longer_than_asked(self, table: Table) -> None:
        batches = list(table.scan(["id"], batch_size=4))
        assert max(batch.num_rows for batch in batches) <= 4
        assert sum(batch.num_rows for batch in batches) == 10

    @pytest.mark.parametrize(("where", "limit", "expected"), [
        (None, 0, []),
        (None, 3, [0, 1, 2]),
        (None, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (None, 99, list(range(10))),
        ("id > 4", 3, [5, 6, 7]),
        ("id > 90", 3, []),
    ])  # fmt: skip
    def test_the_limit_counts_after_the_predicate(
        self, table: Table, where: str | None, limit: int, expected: list[int]
    ) -> None:
        read = table.scan(["id"], where=where, limit=limit).read_all()
        assert read["id"].to_pylist() == expected

    def test_the_predicates_columns_need_not_be_read(self, table: Table) -> None:
        read = table.scan(["duration_s"], where="label IS NULL").read_all()
        assert read.to_pydict() == {"duration_s": [1.0, 2.25]}
        assert table.count_rows("label IS NULL") == 2

    def test_the_row_index_agrees_with_take(self, table: Table) -> None:
        read = table.scan(["id"], where="label = 'spoof'", with_row_index=True).read_all()
        assert read.schema.field("row_index").type == pa.uint64()
        assert read["row_index"].to_pylist() == [0, 2, 6, 8]
        assert table.take(read["row_index"].combine_chunks(), ["id"])["id"].to_pylist() == [
            0,
            2,
            6,
            8,
        ]
        everything = table.scan(["id"], with_row_index=True).read_all()
        assert everything["row_index"].to_pylist() == list(range(10))

    @pytest.mark.parametrize("indices", [
        [7, 1, 7, 0], np.array([9, 0], np.int32), pa.array([5, 5, 5], pa.uint64()), [3],
    ])  # fmt: skip
    def test_take_keeps_order_and_repeats(self, table: Table, indices: object) -> None:
        taken = table.take(indices)
        wanted = np.asarray(indices)
        assert taken.equals(rows(0, 10).take(pa.array(wanted)))

    @pytest.mark.parametrize("indices", [[10], [-1], [0, 99], [0.5], ["a"], [[1]], [None]])
    def test_take_refuses_what_is_no_index(self, table: Table, indices: list[int]) -> None:
        with pytest.raises(InputError):
            table.take(indices)

    def test_a_range_is_read_as_take_reads_it(self, table: Table) -> None:
        table = table.delete("id IN (2, 6)").append(rows(20, 23))
        everything = table.take(range(11))
        for start in range(12):
            for stop in range(start, 12):
                assert table.read(start, stop).equals(everything.slice(start, stop - start))
        assert table.read(3, 8, ["audio", "id"]).schema.names == ["audio", "id"]
        assert table.read(3, 8, ["id"])["id"].to_pylist() == [4, 5, 7, 8, 9]
        assert is_media(table.read(1, 2, ["audio"]).schema.field("audio"))
        for start, stop in ((-1, 3), (4, 3), (0, 12), (12, 12)):
            with pytest.raises(InputError, match="11"):
                table.read(start, stop)
        with pytest.raises(SchemaError, match="duration_s"):
            table.read(0, 1, ["duration"])
        assert self.make_table(SCHEMA).read(0, 0).equals(SCHEMA.empty_table())

    def test_one_thread_reads_while_another_looks_the_version_up(self, table: Table) -> None:
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                table.info()

        with ThreadPoolExecutor() as pool:
            looking = pool.submit(look)
            try:
                for row in np.random.default_rng(0).integers(0, 10, 40).tolist():
                    assert table.take([row], ["id"])["id"].to_pylist() == [row]
                    assert table.read(row, row + 1, ["id"])["id"].to_pylist() == [row]
            finally:
                done.set()
            looking.result()

    def test_a_mapped_column_is_what_take_takes(self) -> None:
        """Media that lie as they are, others, nulls, and several pieces; or it cannot be mapped."""
        audio = [b"a" * 300, None, b"", bytes(range(256)) * 9, b"tiny", b"z" * 5000, b"z", None]
        empty = self.make_table(SCHEMA)
        full = empty.append(
            rows(0, 8).set_column(3, SCHEMA.field("audio"), pa.array(audio, pa.large_binary()))
        )
        for table in (empty, full, full.append(rows(8, 12)), full.at().delete("id IN (1, 3)")):
            mapped, num_rows = table.mapped("audio"), table.count_rows()
            assert table.mapped("id") is None
            with pytest.raises(SchemaError, match="audio"):
                table.mapped("audoi")
            if mapped is None:
                continue
            wanted = table.take(range(num_rows), ["audio"])["audio"].to_pylist()
            index = np.random.default_rng(0).permutation(num_rows).repeat(2)
            for again in (mapped, pickle.loads(pickle.dumps(mapped))):
                views = again.views(index)
                found = [None if view is None else view.tobytes() for view in views]
                assert found == [wanted[row] for row in index]
                assert all(view is None or not view.flags.writeable for view in views)
                sizes = [len(wanted[row] or b"") for row in index]
                assert again.sizes(index).tolist() == sizes
                assert 0 <= again.advise(index) <= sum(sizes)
                for outside in (-1, num_rows):
                    with pytest.raises(InputError):
                        again.views(np.array([outside]))

    def test_an_unknown_column_names_the_nearest(self, table: Table) -> None:
        for read in (table.scan, lambda columns: table.take([0], columns)):
            with pytest.raises(SchemaError, match="duration_s"):
                read(["durations"])
            with pytest.raises(InputError, match="twice"):
                read(["id", "label", "id"])
        with pytest.raises(SchemaError, match="label"):
            table.scan(where="lable = 'spoof'")

    @pytest.mark.parametrize("where", [
        "label =", "label = 'spoof", "label 'spoof'", "label = 3", "id = 'a'", "id", "id + 1",
        "audio = 'x'", "frobnicate(id) = 1", "id IN ()", "id IN (label)", "label LIKE 3",
        "id = 1 garbage", "(id = 1", "", "id == = 1", "lower(id) = 'a'", "id.x = 1", "id NOT 1",
        "label LIKE 'a\\b'", "label LIKE 'a\\'",
    ])  # fmt: skip
    def test_a_bad_predicate_is_told(self, table: Table, where: str) -> None:
        with pytest.raises(PredicateError) as caught:
            table.count_rows(where)
        assert "duration_s" in str(caught.value)  # It names the columns,
        assert where in caught.value.where  # and itself.

    def test_a_predicate_may_be_long_but_not_deep(self, table: Table) -> None:
        for operator, expected in (("OR", 10), ("AND", 0)):
            where = f" {operator} ".join(f"id = {number}" for number in range(1000))
            assert table.count_rows(where) == expected
        assert table.count_rows("NOT " * 18 + "id = 1") == 1
        for deep in ("NOT " * 40 + "id = 1", "(" * 9999 + "id = 1", "id = 1" + " + 0" * 40):
            with pytest.raises(PredicateError, match="nested"):
                table.count_rows(deep)

    @pytest.fixture(scope="class")
    @classmethod
    def odd(cls) -> dict[str, Table]:
        """One table for all predicates of a class; made at the first use."""
        return {}

    @pytest.mark.parametrize("where", PREDICATES)
    def test_predicates_follow_sql(self, odd: dict[str, Table], where: str) -> None:
        if "table" not in odd:
            columns = [
                pa.array(values, field.type)
                for values, field in zip(zip(*ODD_ROWS, strict=True), ODD, strict=True)
            ]
            odd["table"] = self.make_table(ODD).append(pa.table(columns, schema=ODD))
        table = odd["table"]
        found = table.scan(["n"], where=where, with_row_index=True).read_all()
        assert found["row_index"].to_pylist() == PREDICATES[where]
        assert table.count_rows(where) == len(PREDICATES[where])

    @pytest.mark.parametrize("name", TYPES)
    def test_types_survive(self, name: str) -> None:
        data_type, values = TYPES[name]
        schema = pa.schema([pa.field("c", data_type, metadata={b"unit": b"1"})])
        data = pa.table([pa.array(values, data_type)], schema=schema)
        table = self.make_table(schema).append(data).append(data.slice(1))
        assert table.at().schema.equals(schema, check_metadata=True)
        read = table.scan().read_all()
        assert read.schema.equals(schema, check_metadata=True)
        assert read["c"].to_pylist() == data["c"].to_pylist() + data["c"].to_pylist()[1:]
        assert table.take([4, 0], ["c"])["c"].to_pylist() == [values[2], values[0]]
        kept = table.delete("c IS NULL")
        assert kept.count_rows() == sum(value is not None for value in values + values[1:])

    # Writing ------------------------------------------------------------------------------------

    @pytest.mark.parametrize("kind", ["table", "batch", "reader", "batches", "generator"])
    def test_any_arrow_input_is_taken(self, kind: str) -> None:
        data = rows(0, 5)
        given = {
            "table": data,
            "batch": data.to_batches()[0],
            "reader": data.to_reader(),
            "batches": data.to_batches(max_chunksize=2),
            "generator": (batch for batch in data.to_batches(max_chunksize=2)),
        }[kind]
        assert self.make_table(SCHEMA).append(given).scan().read_all().equals(data)

    def test_a_handle_stays_at_its_version(self, table: Table) -> None:
        later = table.append(rows(10, 12))
        assert (table.count_rows(), later.count_rows()) == (10, 12)
        assert later.version > table.version
        assert ids(table) == list(range(10))

    def test_columns_may_come_in_any_order_and_width(self, table: Table) -> None:
        given = rows(10, 11).select(["label", "audio", "id", "duration_s"])
        given = given.set_column(1, "audio", given["audio"].cast(pa.binary()))
        given = given.set_column(0, "label", given["label"].dictionary_encode())
        assert table.append(given).take([10]).equals(rows(10, 11))

    def test_rows_of_another_schema_are_refused(self, table: Table) -> None:
        good = rows(10, 12)
        for bad, said in [
            (good.drop_columns(["label"]), "label"),
            (good.append_column("extra", pa.array([1, 2])), "extra"),
            (good.set_column(0, "id", good["id"].cast(pa.int32())), "int32"),
            (good.set_column(0, "id", pa.array([None, 1], pa.int64())), "null"),
        ]:
            with pytest.raises(SchemaError, match=said):
                table.append(bad)
            with pytest.raises(SchemaError, match=said):
                table.append([*good.to_batches(), *bad.to_batches()])
        for strange in ("rows", [good], [{"id": 1}], None):
            with pytest.raises(InputError, match="RecordBatch"):
                table.append(strange)
        assert ids(table.at()) == list(range(10))

    def test_pieces_of_other_tables_and_columns_are_refused(self, table: Table) -> None:
        pieces = table.stager().write(rows(10, 11))
        wider = table.add_columns(pa.table({"score": range(10)}))
        with pytest.raises(SchemaError, match="score"):
            wider.commit(pieces)
        with pytest.raises(SchemaError, match="score"):
            wider.commit(pieces, mode="overwrite")
        with pytest.raises(ConflictError):
            table.commit(pieces)
        with pytest.raises(InputError, match="another table"):
            self.make_table(SCHEMA).commit(pieces)
        assert table.at().version == wider.version

    def test_staged_pieces_are_invisible_until_committed(self, table: Table) -> None:
        pieces = table.stager().write(rows(10, 13))
        assert sum(piece.num_rows for piece in pieces) == 3
        assert all(piece.num_bytes > 0 for piece in pieces)
        assert ids(table.at()) == list(range(10))
        assert len(table.versions()) == len(table.at().versions())
        made = table.commit(pieces)
        assert ids(made) == ids(table.at()) == list(range(13))

    def test_pieces_follow_each_other_as_they_are_given(self, table: Table) -> None:
        stager = table.stager()
        first, second = stager.write(rows(20, 22)), stager.write(rows(10, 12))
        assert ids(table.commit(first + second))[10:] == [20, 21, 10, 11]

    def test_nothing_staged_is_no_piece(self, table: Table) -> None:
        assert table.stager().write(rows(0, 0)) == []
        assert table.stager().write([]) == []
        made = table.commit([], properties={"why": "to say so"})
        assert ids(made) == list(range(10))
        assert made.versions()[-1].properties["why"] == "to say so"

    def test_an_aborted_write_leaves_nothing_to_see(self, table: Table) -> None:
        def failing() -> Iterator[pa.RecordBatch]:
            yield rows(10, 12).to_batches()[0]
            raise ZeroDivisionError("the source broke")

        with pytest.raises(ZeroDivisionError, match="the source broke"):
            table.append(failing())
        assert ids(table.at()) == list(range(10))
        assert table.at().version == table.version

    def test_a_stale_overwrite_is_a_conflict_and_loses_nothing(self, table: Table) -> None:
        pieces = table.stager().write(rows(50, 51))
        newer = table.append(rows(10, 12))
        acts: list[Callable[[], Table]] = [
            lambda: table.overwrite(rows(90, 91)),
            lambda: table.commit(pieces, mode="overwrite"),
            lambda: table.commit(pieces, mode="overwrite", expected_version=table.version),
            lambda: newer.commit(pieces, mode="overwrite", expected_version=table.version),
        ]
        for act in acts:
            with pytest.raises(ConflictError):
                act()
        assert ids(table.at()) == list(range(12))
        # The pieces were not used up.
        assert ids(newer.commit(pieces, mode="overwrite")) == [50]

    def test_each_operation_on_a_stale_handle_is_a_conflict(self, table: Table) -> None:
        newer = table.append(rows(10, 11))
        acts: list[Callable[[], Table]] = [
            lambda: table.delete("id = 0"),
            lambda: table.merge(rows(0, 1), "id"),
            lambda: table.add_columns(pa.table({"new": range(10)})),
            lambda: table.project({"id": "id"}),
            lambda: table.commit([], removing=[0]),
            lambda: table.commit([], removing=[]),
            lambda: table.compact(),
            lambda: table.commit(table.stager().write(rows(0, 1)), expected_version=table.version),
            lambda: newer.commit(table.stager().write(rows(0, 1)), expected_version=999),
        ]
        for act in acts:
            with pytest.raises(ConflictError):
                act()
        assert table.at().version == newer.version
        assert ids(table.at()) == list(range(11))

    def test_an_append_at_the_expected_version_lands(self, table: Table) -> None:
        pieces = table.stager().write(rows(10, 12))
        made = table.commit(pieces, expected_version=table.version)
        assert ids(made) == list(range(12))
        assert ids(made.delete("id IN (3, 11)")) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]

    def test_appends_from_a_stale_handle_land(self, table: Table) -> None:
        table.delete("id < 3")
        table.append(rows(10, 11))
        assert sorted(ids(table.append(rows(11, 12)))) == list(range(3, 12))

    def test_concurrent_appends_all_land(self) -> None:
        table = self.make_table(SCHEMA)
        barrier = threading.Barrier(4)

        def append(number: int) -> None:
            pieces = table.stager().write(rows(number * 10, number * 10 + 10))
            barrier.wait()
            table.commit(pieces, properties={"writer": str(number)})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(append, range(4)))
        latest = table.at()
        assert sorted(ids(latest)) == list(range(40))
        writers = {v.properties["writer"] for v in latest.versions() if "writer" in v.properties}
        assert writers == {"0", "1", "2", "3"}

    def test_of_concurrent_strict_commits_one_wins(self, table: Table) -> None:
        barrier = threading.Barrier(4)

        def commit(number: int) -> bool:
            pieces = table.stager().write(rows(100 + number, 101 + number))
            barrier.wait()
            try:
                table.commit(pieces, expected_version=table.version)
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(commit, range(4)))
        assert sum(won) == 1
        assert ids(table.at()) == [*range(10), 100 + won.index(True)]

    def test_concurrent_upserts_of_one_new_key_leave_it_once(self, table: Table) -> None:
        table = table.append(rows(10, 20)).append(rows(20, 30)).append(rows(30, 40))
        barrier = threading.Barrier(4)

        def merge(number: int) -> bool:
            # Each replaces a row of another piece, and all bring the key 99.
            data = pa.concat_tables([rows(number * 10, number * 10 + 1), rows(99, 100)])
            barrier.wait()
            try:
                table.merge(data, "id")
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(merge, range(4))) == 1
        assert sorted(ids(table.at())) == [*range(40), 99]

    def test_overwrite_replaces_the_rows(self, table: Table) -> None:
        made = table.overwrite(rows(3, 5))
        assert made.scan().read_all().equals(rows(3, 5))
        assert made.schema.equals(SCHEMA, check_metadata=True)
        assert ids(table) == list(range(10))

    def test_overwrite_may_bring_another_schema(self, table: Table) -> None:
        data = pa.table({"word": ["a", "b"], "id": [1, 2]})
        made = table.overwrite(data)
        assert made.schema.equals(data.schema)
        assert made.append(data).scan().read_all().to_pydict() == {
            "word": ["a", "b"] * 2,
            "id": [1, 2] * 2,
        }
        assert made.at(table.version).schema.equals(SCHEMA)
        with pytest.raises(ConflictError):
            table.append(rows(0, 1))

    def test_delete_removes_matching_rows_only(self, table: Table) -> None:
        made = table.delete("label = 'spoof'")
        assert ids(made) == [1, 3, 4, 5, 7, 9]  # Null labels stay.
        assert made.take([2, 5], ["id"])["id"].to_pylist() == [4, 9]
        again = made.delete("id = 4 OR id = 9")
        read = again.scan(["id"], where="id > 1", with_row_index=True).read_all()
        assert read.to_pydict() == {"id": [3, 5, 7], "row_index": [1, 2, 3]}
        assert ids(table) == list(range(10))

    def test_delete_without_a_match_makes_no_version(self, table: Table) -> None:
        assert table.delete("id = 99").version == table.version == table.at().version

    def test_everything_can_be_deleted(self, table: Table) -> None:
        empty = table.delete("TRUE")
        assert empty.count_rows() == 0
        assert empty.scan().read_all().num_rows == 0
        assert ids(empty.append(rows(1, 3))) == [1, 2]

    def test_merge_replaces_and_appends(self, table: Table) -> None:
        data = rows(0, 14).take([12, 3, 7, 13])
        data = data.set_column(1, "label", pa.array(["new"] * 4))
        made = table.merge(data, "id")
        assert ids(made) == [0, 1, 2, 4, 5, 6, 8, 9, 12, 3, 7, 13]
        assert ids(made, "label = 'new'") == [12, 3, 7, 13]
        assert made.take([9]).to_pylist() == data.slice(1, 1).to_pylist()
        again = made.merge(rows(0, 0), "id")
        assert ids(again) == ids(made)
        assert ids(again.merge(rows(0, 14), "id")) == list(range(14))

    def test_merge_by_two_columns(self, table: Table) -> None:
        data = rows(3, 4).set_column(1, "label", pa.array(["spoof"]))
        assert ids(table.merge(data, ["id", "label"])) == [*range(10), 3]

    def test_merge_by_a_dictionary(self) -> None:
        schema = pa.schema([("key", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())])

        def batches(*keys: str) -> list[pa.RecordBatch]:  # Each has a dictionary of its own.
            columns = ({"key": pa.array([key]).dictionary_encode(), "n": [1]} for key in keys)
            return [pa.record_batch(column, schema=schema) for column in columns]

        made = (
            self.make_table(schema).append(batches("a", "b", "c")).merge(batches("d", "b"), "key")
        )
        assert made.scan(["key"]).read_all()["key"].to_pylist() == ["a", "c", "d", "b"]

    def test_merge_refuses_ambiguous_keys(self, table: Table) -> None:
        twice = pa.concat_tables([rows(1, 2), rows(1, 2)])
        with pytest.raises(InputError, match="id=1"):
            table.merge(twice, "id")
        with pytest.raises(InputError, match="label"):
            table.merge(rows(4, 5), "label")
        with pytest.raises(SchemaError):
            table.merge(rows(4, 5), "nope")
        with pytest.raises(InputError):
            table.merge(rows(4, 5), [])
        assert table.at().version == table.version
        nested = pa.table({"key": [{"x": 1}]})
        with pytest.raises(InputError, match="nested"):
            self.make_table(nested.schema).merge(nested, "key")

    def test_add_columns_follows_the_row_order(self, table: Table) -> None:
        thinned = table.delete("id IN (2, 7)")
        schema = pa.schema([pa.field("score", pa.float32()), media_field("image", "image")])
        data = pa.table(
            {"score": [float(i) for i in range(8)], "image": [bytes([i]) for i in range(8)]},
            schema=schema,
        )
        made = thinned.add_columns(data.to_batches(max_chunksize=3))
        assert made.schema.names == [*SCHEMA.names, "score", "image"]
        assert is_media(made.schema.field("image"))
        read = made.scan(["id", "score"]).read_all().to_pydict()
        assert read == {"id": [0, 1, 3, 4, 5, 6, 8, 9], "score": [float(i) for i in range(8)]}
        assert made.scan(SCHEMA.names).read_all().equals(thinned.scan().read_all())
        assert ids(made, "score > 5") == [8, 9]
        assert thinned.schema.names == SCHEMA.names
        with pytest.raises(ConflictError):
            thinned.append(rows(10, 11))

    def test_add_columns_refuses_what_does_not_fit(self, table: Table) -> None:
        for num_rows in (9, 11):
            with pytest.raises(InputError, match="10"):
                table.add_columns(pa.table({"new": range(num_rows)}))
        with pytest.raises(SchemaError, match="label"):
            table.add_columns(pa.table({"label": range(10)}))
        assert table.at().version == table.version

    def test_add_columns_to_an_empty_table(self) -> None:
        table = self.make_table(SCHEMA)
        made = table.add_columns(pa.table({"new": pa.array([], pa.int64())}))
        data = rows(0, 2).append_column("new", pa.array([5, 6]))
        assert made.append(data).scan(["id", "new"]).read_all().to_pydict() == {
            "id": [0, 1],
            "new": [5, 6],
        }

    def test_a_commit_removes_rows_and_adds_others(self, table: Table) -> None:
        pieces = table.stager().write(rows(20, 23))
        made = table.commit(pieces, removing=[7, 2, 2], properties={"step": "both"})
        assert ids(made) == [0, 1, 3, 4, 5, 6, 8, 9, 20, 21, 22]
        assert made.info().properties["step"] == "both"
        assert ids(table) == list(range(10))
        # Indices are of the handle's version: rows that moved up are found where they are now.
        made = made.commit([], removing=np.array([2, 8]), expected_version=made.version)
        assert ids(made) == [0, 1, 4, 5, 6, 8, 9, 21, 22]
        assert made.take([2, 8], ["id"])["id"].to_pylist() == [4, 22]
        emptied = made.commit([], removing=range(9))
        assert ids(emptied) == []
        assert ids(emptied.append(rows(3, 5))) == [3, 4]

    def test_a_commit_that_removes_nothing_is_strict(self, table: Table) -> None:
        pieces = table.stager().write(rows(20, 21))
        made = table.commit(pieces, removing=[])
        assert ids(made) == [*range(10), 20]
        with pytest.raises(ConflictError):
            table.commit(pieces, removing=[])

    def test_rows_are_removed_from_the_handles_version_alone(self, table: Table) -> None:
        for removing, options in (
            ([10], {}),
            ([-1], {}),
            ([0], {"mode": "overwrite"}),
            ([0], {"expected_version": table.version + 1}),
        ):
            with pytest.raises(InputError):
                table.commit([], removing=removing, **options)
        assert table.at().version == table.version

    def test_of_concurrent_removals_one_wins(self, table: Table) -> None:
        barrier = threading.Barrier(4)

        def remove(number: int) -> bool:
            pieces = table.stager().write(rows(100 + number, 101 + number))
            barrier.wait()
            try:
                table.commit(pieces, removing=[2 * number])
            except ConflictError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            won = list(pool.map(remove, range(4)))
        assert sum(won) == 1
        winner = won.index(True)
        assert ids(table.at()) == [i for i in range(10) if i != 2 * winner] + [100 + winner]

    def test_projection_keeps_columns_under_names(self, table: Table) -> None:
        thinned = table.delete("id IN (2, 7)")
        before = thinned.scan(["id", "duration_s", "audio"]).read_all()
        # Two columns change their names for each other's, and one goes.
        made = thinned.project({"id": "id", "audio": "duration_s", "duration_s": "audio"})
        assert made.schema.names == ["id", "audio", "duration_s"]
        assert is_media(made.schema.field("duration_s"))
        assert made.scan().read_all().columns == before.columns
        assert made.take([7, 0], ["id"])["id"].to_pylist() == [9, 0]
        assert ids(made, "audio > 1.5") == [8, 9]
        assert thinned.schema.names == SCHEMA.names
        # Life goes on: rows, columns, removals and compaction.
        made = made.append(made.take([0]))
        made = made.add_columns(pa.table({"label": [str(i) for i in range(9)]}))
        made = made.commit([], removing=[1]).compact()
        read = made.scan(["id", "label"]).read_all().to_pydict()
        assert read == {"id": [0, 3, 4, 5, 6, 8, 9, 0], "label": list("02345678")}

    def test_projection_refuses_what_cannot_be(self, table: Table) -> None:
        for columns in ({}, {"labl": "label"}, {"id": "x", "label": "x"}):
            with pytest.raises(SchemaError):
                table.project(columns)
        assert table.at().version == table.version

    def test_nested_columns_are_projected_whole(self) -> None:
        schema = pa.schema([(name, kind) for name, (kind, _) in TYPES.items()])
        data = pa.table({n: values for n, (_, values) in TYPES.items()}, schema=schema)
        table = self.make_table(schema).append(data)
        names = list(schema.names)[::2]
        made = table.project({name: f"{name} é" * 9 for name in names})
        assert made.scan().read_all().columns == table.scan(names).read_all().columns

    # Versions -----------------------------------------------------------------------------------

    def test_a_version_is_restored(self, table: Table) -> None:
        thinned = table.delete("id IN (2, 7)")
        before = thinned.scan(with_row_index=True).read_all()
        later = thinned.append(rows(20, 22)).compact().delete("id = 0")
        made = thinned.restore(properties={"step": "restore"})
        assert made.version > later.version
        assert made.info().properties == {"step": "restore"}
        assert made.at().version == made.version
        assert made.scan(with_row_index=True).read_all().equals(before)
        assert ids(later) == [1, 3, 4, 5, 6, 8, 9, 20, 21]
        # It can be written as before, and what was undone can come back.
        assert ids(made.append(rows(30, 31))) == [0, 1, 3, 4, 5, 6, 8, 9, 30]
        assert ids(later.restore()) == ids(later)
        latest = table.at()
        assert latest.restore().version > latest.version

    def test_columns_are_restored(self, table: Table) -> None:
        wider = table.add_columns(pa.table({"new": range(10)}))
        narrower = wider.project({"id": "id", "new": "newer"})
        for version in (wider, table, narrower, table):
            made = version.restore()
            assert made.schema == version.schema == made.at().schema
            assert made.scan().read_all().equals(version.scan().read_all())
            again = made.append(version.take([3]))
            assert again.count_rows() == 11

    def test_what_was_cleaned_up_is_not_restored(self, table: Table) -> None:
        later = table.delete("id = 0")
        later.cleanup(older_than=dt.timedelta(0))
        for act in (table.restore, table.info):
            with pytest.raises(NotFoundError, match="cleaned up"):
                act()
        assert ids(later.at()) == list(range(1, 10))

    def test_a_version_knows_itself(self, table: Table) -> None:
        table.tag("b")
        table.tag("a")
        later = table.append(rows(10, 11), properties={"step": "append"})
        infos = {info.version: info for info in later.versions()}
        for handle in (table, later):
            assert handle.info() == infos[handle.version]
        assert table.info().tags == ("a", "b")

    def test_each_version_knows_its_properties(self) -> None:
        table = self.make_table(SCHEMA, {"step": "create", "odd key/ü": "väl\nue"})
        table = table.append(rows(0, 4), properties={"step": "append"})
        table = table.commit(
            table.stager().write(rows(4, 6)),
            expected_version=table.version,
            properties={"step": "strict"},
        )
        table = table.merge(rows(3, 8), "id", properties={"step": "merge"})
        table = table.delete("id = 0", properties={"step": "delete"})
        table = table.add_columns(
            pa.table({"new": range(table.count_rows())}), properties={"step": "add"}
        )
        table = table.compact(properties={"step": "compact"})
        table = table.overwrite(rows(0, 1), properties={"step": "overwrite"})
        infos = table.versions()
        steps = ["create", "append", "strict", "merge", "delete", "add", "compact", "overwrite"]
        assert [info.properties.get("step") for info in infos] == steps
        assert infos[0].properties["odd key/ü"] == "väl\nue"
        numbers = [info.version for info in infos]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == table.version
        times = [info.created_at for info in infos]
        assert times == sorted(times)
        assert all(time.utcoffset() == dt.timedelta(0) for time in times)
        assert abs(dt.datetime.now(dt.UTC) - times[-1]) < dt.timedelta(minutes=1)

    def test_time_travel(self, table: Table) -> None:
        first = table.versions()[0]
        later = table.append(rows(10, 12))
        assert ids(later.at(table.version)) == list(range(10))
        assert ids(table.at()) == list(range(12))
        # A time stands for the last version that is not younger.
        created = {info.version: info.created_at for info in later.versions()}
        assert later.at(time=created[later.version]).version == later.version
        assert later.at(time=first.created_at).count_rows() in {0, 6, 10}
        with pytest.raises(NotFoundError):
            later.at(time=first.created_at - dt.timedelta(seconds=1))
        with pytest.raises(NotFoundError, match=r"999.*Found versions"):
            later.at(999)
        with pytest.raises(NotFoundError):
            later.at(tag="nope")
        with pytest.raises(InputError, match="zone"):
            later.at(time=dt.datetime(2026, 1, 1))
        with pytest.raises(InputError):
            later.at(1, tag="nope")

    def test_tags_name_versions(self, table: Table) -> None:
        table.tag("v1")
        table.tag("v1")
        later = table.append(rows(10, 11))
        assert later.at(tag="v1").version == table.version
        assert [info.tags for info in later.versions() if info.tags] == [("v1",)]
        with pytest.raises(ExistsError):
            later.tag("v1")
        later.tag("v1", replace=True)
        assert table.at(tag="v1").version == later.version
        later.untag("v1")
        with pytest.raises(NotFoundError):
            table.at(tag="v1")
        with pytest.raises(NotFoundError):
            table.untag("v1")
        for bad in ("", "a b", "../x", ".hidden"):
            with pytest.raises(InputError):
                table.tag(bad)

    # Care ---------------------------------------------------------------------------------------

    def test_compaction_keeps_rows_and_order(self, table: Table) -> None:
        for start in (10, 12, 14):
            table = table.append(rows(start, start + 2))
        table = table.delete("id IN (0, 7, 11)")
        before = table.scan(with_row_index=True).read_all()
        made = table.compact()
        assert made.scan(with_row_index=True).read_all().equals(before)
        assert made.take([0, 12], ["id"])["id"].to_pylist() == [1, 15]
        assert made.at().version == made.version

    def test_cleanup_keeps_the_latest_and_the_tagged(self, table: Table) -> None:
        table.tag("keep")
        gone = table.delete("id < 5")
        latest = gone.append(rows(20, 22)).compact()
        known = [info.version for info in latest.versions()]
        zero = dt.timedelta(0)
        planned = latest.cleanup(older_than=zero, dry_run=True)
        assert [info.version for info in latest.versions()] == known
        done = latest.cleanup(older_than=zero)
        assert (planned.dry_run, done.dry_run) == (True, False)
        assert (planned.num_versions, planned.num_bytes) == (done.num_versions, done.num_bytes)
        assert done.num_versions == len(known) - 2
        assert [info.version for info in latest.versions()] == [table.version, latest.version]
        assert ids(latest.at(tag="keep")) == list(range(10))
        assert ids(latest.at()) == [5, 6, 7, 8, 9, 20, 21]
        with pytest.raises(NotFoundError):
            latest.at(latest.version - 1)
        with pytest.raises(NotFoundError):
            gone.tag("late")
        # What is gone stays gone, however much younger than a later limit it would be.
        for age in (zero, dt.timedelta(days=14)):
            assert latest.cleanup(older_than=age).num_versions == 0
            assert [info.version for info in latest.versions()] == [table.version, latest.version]
        # Life goes on, and an untagged version goes at the next time.
        latest.untag("keep")
        latest = latest.append(rows(30, 31))
        latest.cleanup(older_than=zero)
        assert [info.version for info in latest.versions()] == [latest.version]
        assert ids(latest) == [5, 6, 7, 8, 9, 20, 21, 30]

    def test_cleanup_leaves_the_young_alone(self, table: Table) -> None:
        pieces = table.stager().write(rows(10, 11))
        report = table.cleanup(older_than=dt.timedelta(hours=1))
        assert (report.num_versions, report.num_bytes) == (0, 0)
        assert ids(table.commit(pieces)) == list(range(11))
        with pytest.raises(InputError):
            table.cleanup(older_than=dt.timedelta(days=-1))

    def test_cleanup_removes_what_nobody_committed(self, table: Table) -> None:
        table.stager().write(rows(10, 99))
        assert table.cleanup(older_than=dt.timedelta(0)).num_bytes > 0
        assert ids(table.at()) == list(range(10))

    # Processes ----------------------------------------------------------------------------------

    def test_handles_stagers_and_pieces_travel(self, table: Table) -> None:
        stager = pickle.loads(pickle.dumps(table.stager()))
        pieces = pickle.loads(pickle.dumps(stager.write(rows(10, 12))))
        assert len(pickle.dumps(stager)) < 4096
        made = table.commit(pieces)
        there = pickle.loads(pickle.dumps(made))
        assert (there.version, there.format, there.uri) == (made.version, made.format, made.uri)
        assert there.schema.equals(made.schema, check_metadata=True)
        assert ids(there) == list(range(12))
        assert isinstance(there, Table)

    def test_workers_stage_in_processes_of_their_own(self, table: Table) -> None:
        if not table.capabilities.survives_process:
            pytest.skip(f"{table.format} tables live in one process")
        spawning = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawning) as pool:
            pieces = pool.submit(write_elsewhere, table.stager(), 10, 13).result()
            made = table.commit(pieces)
            assert pool.submit(read_elsewhere, made).result() == list(range(13))

    def test_readers_may_share_a_handle(self, table: Table) -> None:
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(lambda i: table.take([i], ["id"])["id"].to_pylist(), range(10)))
        assert taken == [[i] for i in range(10)]
