"""Rows: columns as they are, and records as arrays."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from datalake.errors import InputError, SchemaError
from datalake.loader.order.hashing import Words
from datalake.loader.sources.rows import Rows
from datalake.loader.sources.source import BadRowsError, Columns
from datalake.schema import media_field
from datalake.tables import Table, create_table

COUNT = 20
RECORDS = np.random.default_rng(0).integers(-9999, 9999, (COUNT, 50), np.int16)
SCHEMA = pa.schema(
    [
        pa.field("utt_id", pa.string()),
        pa.field("domain", pa.string()),
        pa.field("tokens", pa.int32()),
        pa.field("quality", pa.float32()),
        pa.field("good", pa.bool_()),
        pa.field("state", pa.list_(pa.float32(), 3)),
        pa.field("words", pa.list_(pa.string())),
        pa.field("made_at", pa.timestamp("us")),
        media_field("pcm", "audio"),
    ]
)


def made(records: Sequence[bytes | None]) -> pa.Table:
    count = len(records)
    return pa.table(
        {
            "utt_id": [f"made/{row}" for row in range(count)],
            "domain": [None if row == 2 else "d" for row in range(count)],
            "tokens": list(range(count)),
            "quality": [row / 4 for row in range(count)],
            "good": [row % 3 == 0 for row in range(count)],
            "state": [[row, row + 1, row + 2] for row in range(count)],
            "words": [["a"] * (row % 3) for row in range(count)],
            "made_at": [dt.datetime(2026, 1, 1) + dt.timedelta(row) for row in range(count)],
            "pcm": pa.array(records, pa.large_binary()),
        },
        schema=SCHEMA,
    )


WHOLE = made([record.tobytes() for record in RECORDS])


@pytest.fixture(scope="module", params=["memory", "lance", "delta"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    place = {
        "memory": "memory://rows/whole",
        "lance": tmp_path_factory.mktemp("rows") / "whole.lance",
        "delta": tmp_path_factory.mktemp("rows") / "whole.delta",
    }
    return create_table(place[request.param], SCHEMA, format=request.param).append(WHOLE)


def allocate(shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.full(shape, 99, dtype)


def read(source: Rows, rows: Sequence[int]) -> Columns:
    chosen = np.array(rows, np.int64)
    no_words: Words = np.zeros(len(rows), np.uint64)
    return source.read(chosen, no_words, allocate)


ASKED = [7, 0, 7, 19, 2]


def test_columns_of_every_type(table: Table) -> None:
    batch = read(Rows(table), ASKED)
    assert list(batch) == ["row_index", *SCHEMA.names]
    assert batch["row_index"].tolist() == ASKED
    for name in SCHEMA.names:
        found = batch[name]
        expected = WHOLE[name].take(ASKED).to_pylist()
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == expected
    arrays = {name: batch[name].dtype for name in ("tokens", "quality", "good", "state")}
    assert arrays == {
        "tokens": np.int32,
        "quality": np.float32,
        "good": np.bool_,
        "state": np.float32,
    }
    assert batch["state"].shape == (5, 3)


def test_records_become_one_array(table: Table) -> None:
    source = Rows(table, ["pcm", "utt_id"], as_array={"pcm": "int16"})
    for asked in (ASKED, [3], []):
        batch = read(source, asked)
        assert batch["pcm"].dtype == np.int16
        np.testing.assert_array_equal(batch["pcm"], RECORDS[asked])
    copied = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(read(copied, ASKED)["pcm"], RECORDS[ASKED])
    assert copied.kind == source.kind


def test_records_of_another_size_are_named() -> None:
    records: list[bytes | None] = [record.tobytes() for record in RECORDS]
    records[4], records[8], records[9] = records[4][:-2], None, b""  # type: ignore[index]
    table = create_table("memory://rows/bad", SCHEMA, format="memory").append(made(records))
    source = Rows(table, ["pcm"], as_array={"pcm": "int16"})
    with pytest.raises(BadRowsError) as error:
        read(source, [9, 1, 4, 8])
    assert [(one.index, one.row, one.reason) for one in error.value.bad] == [
        (0, 9, "shape_changed"),
        (2, 4, "shape_changed"),
        (3, 8, "empty"),
    ]
    assert "row 9, made/9" in error.value.bad[0].where
    assert read(Rows(table, ["pcm"]), [8, 9])["pcm"] == [None, b""]


def test_numbers_that_are_null() -> None:
    schema = pa.schema([pa.field("tokens", pa.int32()), pa.field("quality", pa.float32())])
    values = pa.table({"tokens": [1, None, 0], "quality": [None, 0.5, 1]}, schema=schema)
    table = create_table("memory://rows/nulls", schema, format="memory").append(values)
    batch = read(Rows(table, fill={"tokens": -1}), [2, 1, 0])
    assert batch["tokens"].tolist() == [0, -1, 1]
    np.testing.assert_array_equal(batch["quality"], [1, 0.5, np.nan])
    with pytest.raises(BadRowsError) as error:
        read(Rows(table), [2, 1, 0])
    assert [(one.index, one.row, one.reason) for one in error.value.bad] == [(1, 1, "bad_row")]
    assert "row 1" in error.value.bad[0].where
    assert read(Rows(table), [0, 2])["tokens"].tolist() == [1, 0]


def test_costs_names_and_domains(table: Table) -> None:
    source, rows = Rows(table, ["pcm"]), np.array([2, 5])
    assert source.costs(rows, "examples").tolist() == [1, 1]
    assert source.costs(rows, "tokens").tolist() == [2, 5]
    assert source.domains(rows) == [None, "d"]
    assert source.ids(rows) == ["made/2", "made/5"]
    assert source.num_rows == COUNT
    with pytest.raises(InputError, match="Did you mean tokens"):
        source.costs(rows, "token")
    with pytest.raises(InputError, match="unknown"):
        source.costs(rows, "utt_id")


@pytest.mark.parametrize(
    ("columns", "as_array", "message"),
    [
        (["pmc"], {}, "Did you mean pcm"),
        (["pcm", "pcm"], {}, "asked for twice"),
        (["utt_id"], {"utt_id": "int16"}, "not binary"),
        (["tokens"], {"pcm": "int16"}, "not read"),
        (["words"], {"words": "int16"}, "not binary"),
        (["pcm"], {"pcm": "int17"}, "unknown"),
        (["pcm"], {"pcm": "datetime64[s]"}, "no number"),
        (["pcm"], {"pcm": "float64"}, "a multiple of 8 bytes"),
    ],
)
def test_arguments_are_checked(
    table: Table, columns: list[str], as_array: dict[str, str], message: str
) -> None:
    with pytest.raises((InputError, SchemaError), match=message):
        Rows(table, columns, as_array=as_array)
