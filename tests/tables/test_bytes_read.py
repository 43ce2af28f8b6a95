"""A scan reads the columns it is asked for and no others, in both formats on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from datalake.schema import media_field
from datalake.tables import Table, create_table, open_table

SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("label", pa.string()), media_field("audio", "audio")]
)
NUM_ROWS, AUDIO_BYTES = 400, 50_000
COUNTERS = Path("/proc/self/io")

pytestmark = pytest.mark.skipif(
    not COUNTERS.exists(), reason="counts bytes by /proc/self/io, which this system has not"
)


def bytes_read() -> int:
    """Bytes that this process has asked the kernel for, cached or not."""
    return int(COUNTERS.read_text().split("rchar: ")[1].split()[0])


@pytest.fixture(scope="module", params=["lance", "delta"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("io") / f"t.{request.param}"
    batches = [
        pa.record_batch(
            [
                range(start, start + 100),
                ["spoof", "bonafide"] * 50,
                [os.urandom(AUDIO_BYTES) for _ in range(100)],
            ],
            schema=SCHEMA,
        )
        for start in range(0, NUM_ROWS, 100)
    ]
    return create_table(place, SCHEMA, format=request.param).append(batches).uri


@pytest.fixture
def table(uri: str) -> Table:
    table = open_table(uri)
    # What is imported at the first scan is read too, and is not the table's.
    table.scan(["id"], where="id = 0").read_all()
    return table


def test_the_table_is_as_large_as_its_media(table: Table) -> None:
    assert table.num_bytes() > NUM_ROWS * AUDIO_BYTES


def test_a_scan_of_other_columns_reads_no_media(table: Table) -> None:
    before = bytes_read()
    read = table.scan(["id", "label"], where="label = 'spoof' AND id >= 0").read_all()
    assert read.num_rows == NUM_ROWS // 2
    assert bytes_read() - before < NUM_ROWS * AUDIO_BYTES // 100


def test_a_predicate_that_holds_nowhere_reads_no_media(table: Table) -> None:
    before = bytes_read()
    assert table.scan(where="id < 0").read_all().num_rows == 0
    assert bytes_read() - before < NUM_ROWS * AUDIO_BYTES // 100


def test_reading_the_media_counts(table: Table) -> None:
    """The counter would notice: it moves by what the media hold."""
    before = bytes_read()
    assert table.scan(["audio"]).read_all().num_rows == NUM_ROWS
    assert bytes_read() - before >= NUM_ROWS * AUDIO_BYTES


def test_take_reads_little_more_than_its_rows(table: Table) -> None:
    wanted = list(range(0, NUM_ROWS, 40))
    before = bytes_read()
    assert table.take(wanted, ["audio"]).num_rows == len(wanted)
    read = bytes_read() - before
    if table.format == "lance":
        assert read < 1.5 * len(wanted) * AUDIO_BYTES
    else:  # Delta reads a row group for a row; all of these are in three of them.
        assert read < 1.5 * NUM_ROWS * AUDIO_BYTES
