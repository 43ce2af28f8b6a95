"""What only Delta has: tables of other writers, an order of rows, types it does not know."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from datalake.errors import InputError, SchemaError
from datalake.schema import UTTERANCES, is_media
from datalake.tables import Table, create_table, open_table

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "name": [f"n{i}" for i in ids]}, schema=SCHEMA)


def ids(table: Table) -> list[int]:
    return table.scan(["id"]).read_all()["id"].to_pylist()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return create_table(tmp_path / "t.delta", SCHEMA, format="delta")


def test_rows_that_fail_on_the_way_leave_no_file(table: Table) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(1).to_batches()[0]
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError):
        table.append(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
    assert not list(Path(table.uri).glob("*.parquet"))


def test_others_read_what_we_write(table: Table) -> None:
    import deltalake

    table = table.append(rows(1, 2, 3)).append(rows(4)).delete("id = 2")
    seen = deltalake.QueryBuilder()
    seen.register("t", deltalake.DeltaTable(table.uri))
    found = pa.table(seen.execute("SELECT id FROM t ORDER BY id").read_all())
    assert found["id"].to_pylist() == [1, 3, 4]


def test_we_read_and_extend_what_others_write(tmp_path: Path) -> None:
    import deltalake

    place = tmp_path / "theirs"
    deltalake.write_deltalake(place, rows(1, 2))
    deltalake.write_deltalake(place, rows(3), mode="append")
    log = deltalake.DeltaTable(place)
    log.alter.add_columns(deltalake.Field("late", deltalake.schema.PrimitiveType("long")))
    table = open_table(place)
    assert table.schema.names == ["id", "name", "late"]
    # The files lack the column, which reads as null.
    assert table.scan(["late"]).read_all()["late"].to_pylist() == [None] * 3
    assert table.count_rows("late IS NULL AND id > 1") == 2
    more = table.append(pa.table({"id": [9], "name": ["x"], "late": [7]}))
    assert sorted(ids(more)) == [1, 2, 3, 9]
    assert more.count_rows("late = 7") == 1
    assert [info.properties for info in table.versions()] == [{}] * 4


def test_partitioned_tables_are_refused(tmp_path: Path) -> None:
    import deltalake

    deltalake.write_deltalake(tmp_path / "theirs", rows(1, 2), partition_by=["name"])
    with pytest.raises(InputError, match="partition"):
        open_table(tmp_path / "theirs")


def test_a_rewritten_file_keeps_its_place(table: Table) -> None:
    table = table.append(rows(1, 2)).append(rows(3, 4)).append(rows(5, 6))
    assert ids(table.delete("id = 3")) == [1, 2, 4, 5, 6]
    for start in (7, 9):
        table = table.at().append(rows(start, start + 1))
    thinned = table.at().delete("id IN (2, 7)")
    assert ids(thinned) == [1, 4, 5, 6, 8, 9, 10]
    assert ids(thinned.compact().delete("id = 4").append(rows(0))) == [1, 5, 6, 8, 9, 10, 0]


def test_a_write_may_fill_several_files(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from datalake.tables import delta, delta_files

    monkeypatch.setattr(delta, "_FILE_BYTES", 1)
    monkeypatch.setattr(delta_files, "_GROUP_BYTES", 1)
    # Files end within a batch, too.
    batches = [*rows(*range(5)).to_batches(), *rows(*range(5, 12)).to_batches()]
    pieces = table.stager().write(batches)
    assert len(pieces) == 12
    assert ids(table.commit(pieces)) == list(range(12))


def test_the_order_survives_a_checkpoint_of_the_log(table: Table) -> None:
    import deltalake

    for number in range(5):
        table = table.append(rows(number))
    deltalake.DeltaTable(table.uri).create_checkpoint()
    assert ids(table.at()) == [0, 1, 2, 3, 4]
    assert [info.version for info in table.versions()] == [0, 1, 2, 3, 4, 5]


def test_a_tagged_version_survives_others_vacuum_with_retention(table: Table) -> None:
    import deltalake

    table = table.append(rows(1, 2))
    table.tag("v1")
    table = table.delete("id = 1")
    deltalake.DeltaTable(table.uri).vacuum(dry_run=False)  # Keeps a week by default.
    assert ids(table.at(tag="v1")) == [1, 2]


def test_a_tag_is_moved_whole_or_not_at_all(table: Table) -> None:
    """A reader who comes meanwhile, or after a crash, finds the tag where it was or where it is."""
    tables = [table, table.append(rows(1))]
    table.tag("moving")
    seen: set[tuple[str, ...]] = set()
    with ThreadPoolExecutor(1) as pool:
        moves = pool.submit(lambda: [tables[n % 2].tag("moving", replace=True) for n in range(300)])
        while not moves.done():
            seen |= {info.tags for info in table.versions()}
    assert seen == {("moving",), ()}


def test_cleanup_deletes_the_files_of_removed_versions_only(table: Table) -> None:
    table = table.append(rows(1, 2)).append(rows(3, 4))
    table.tag("keep")
    latest = table.delete("id = 1").delete("id = 3")
    stored = set(Path(table.uri).glob("*.parquet"))
    latest.cleanup(older_than=dt.timedelta(0))
    # Of the three rewrites-to-be only the version between the tag and the latest is gone.
    assert len(stored) == 4
    assert ids(latest.at(tag="keep")) == [1, 2, 3, 4]
    assert ids(latest) == [2, 4]


def test_adding_columns_is_known_to_rewrite(table: Table) -> None:
    assert not table.capabilities.adds_columns_in_place


def test_the_canonical_columns_are_kept(tmp_path: Path) -> None:
    table = create_table(tmp_path / "t", UTTERANCES, format="delta")
    assert open_table(table.uri).schema.equals(UTTERANCES, check_metadata=True)
    assert is_media(open_table(table.uri).schema.field("audio"))


@pytest.mark.parametrize(
    "data_type", [pa.time64("us"), pa.duration("us"), pa.list_(pa.time32("s")), pa.null()], ids=str
)
def test_types_that_delta_cannot_hold_are_told(tmp_path: Path, data_type: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="Delta cannot hold the column c"):
        create_table(tmp_path / "t", pa.schema([("c", data_type)]), format="delta")


@pytest.mark.parametrize(
    "array",
    [pa.array([2**63], pa.uint64()), pa.array([1], pa.timestamp("ns"))],
    ids=["too large", "nanoseconds"],
)
def test_values_that_delta_cannot_hold_are_told(tmp_path: Path, array: pa.Array) -> None:
    table = create_table(tmp_path / "t", pa.schema([("c", array.type)]), format="delta")
    with pytest.raises(SchemaError, match="a value of the column c"):
        table.append(pa.table({"c": array}))
    assert table.at().version == table.version


def test_media_are_stored_plain_and_without_statistics(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = create_table(tmp_path / "t", UTTERANCES.empty_table().schema, format="delta")
    row = {"utt_id": "s/1", "source": "s", "audio": b"RIFF" * 1000}
    table.append(pa.Table.from_pylist([row], schema=UTTERANCES))
    (path,) = (tmp_path / "t").glob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert columns["audio"].compression == "UNCOMPRESSED"
    assert not columns["audio"].is_stats_set
    assert columns["utt_id"].compression == "ZSTD"
    assert columns["utt_id"].statistics.min == "s/1"
