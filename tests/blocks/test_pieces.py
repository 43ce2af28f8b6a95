"""Values in pieces: what is read are slices, cached in blocks, each piece fetched once."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datalake.blocks.cache import BlockCache
from datalake.blocks.pieces import PIECE_BYTES, PieceReader
from datalake.schema import media_field
from datalake.tables import Table, create_table
from datalake.telemetry import Meter

SIZES = (3 * PIECE_BYTES, 0, 1, PIECE_BYTES + 1, 130 * PIECE_BYTES + 77, 5)


class InMemory:
    """Values by ranges, counted."""

    def __init__(self, values: list[bytes]) -> None:
        self.values, self.asked = values, 0

    def read(self, ranges: Any) -> list[bytes]:
        self.asked += sum(stop - start for _, start, stop in ranges)
        return [self.values[row][start:stop] for row, start, stop in ranges]

    def __getstate__(self) -> Any:
        return self.__dict__


@pytest.fixture(scope="module")
def values() -> list[bytes]:
    rng = np.random.default_rng(0)
    return [rng.bytes(size) for size in SIZES]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    schema = pa.schema([media_field("video", "video")])
    return create_table(tmp_path_factory.mktemp("pieces") / "t.lance", schema)


def reader(table: Table, values: list[bytes], folder: Path, **cache: int) -> PieceReader:
    sizes = np.array(list(map(len, values)))
    cached = BlockCache(folder, **cache)
    return PieceReader(table, "video", InMemory(values), sizes, cache=cached)


def test_slices(table: Table, values: list[bytes], tmp_path: Path) -> None:
    made = reader(table, values, tmp_path)
    again = pickle.loads(pickle.dumps(made))

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        row = data.draw(st.integers(0, len(SIZES) - 1))
        start = data.draw(st.integers(0, SIZES[row]))
        stop = data.draw(st.integers(start, SIZES[row] + 9))
        for each in (made, made.view(), again):
            assert each.read(row, start, stop).tobytes() == values[row][start:stop]

    holds()
    source: Any = made._pieces._ranged
    # Each block once, of whatever view.
    assert source.asked <= sum(SIZES)


def test_a_part_of_a_large_value_fetches_a_block(
    table: Table, values: list[bytes], tmp_path: Path
) -> None:
    made, meter = reader(table, values, tmp_path), Meter()
    made.reader.attach(meter)
    assert made.reader.block_rows(made.columns[0]) == 64
    found = made.read(4, 100, 200)
    assert found.tobytes() == values[4][100:200]
    assert not found.flags.writeable
    assert meter.counts()["origin_bytes"] < 65 * PIECE_BYTES
    made.reader.prefetch(made.columns, made.rows(4, 100, 200)).wait()
    assert meter.counts()["origin_reads"] == 1


def test_scattered_parts_come_alone(table: Table, values: list[bytes], tmp_path: Path) -> None:
    made, meter = reader(table, values, tmp_path, budget_bytes=1 << 20), Meter()
    made.reader.attach(meter)
    made.reader.scatter(True, made.columns)
    stop = PIECE_BYTES + 10
    assert made.read(4, 100, stop).tobytes() == values[4][100:stop]
    assert meter.counts()["origin_bytes"] < 2 * PIECE_BYTES + 1000
