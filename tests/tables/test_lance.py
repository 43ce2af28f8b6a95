"""What only Lance promises: columns apart, files left alone, a thin `take`."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from datalake.errors import ConflictError, ExistsError, SchemaError
from datalake.schema import media_field
from datalake.tables import Table, create_table, open_table
from datalake.tables.lance import LanceTable

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), media_field("audio", "audio")])
AUDIO_BYTES = 50_000


def rows(start: int, stop: int, audio_bytes: int = 10) -> pa.Table:
    audio = [os.urandom(audio_bytes) for _ in range(start, stop)]
    return pa.table({"id": range(start, stop), "audio": audio}, schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return create_table(tmp_path / "t.lance", SCHEMA)


def data_files(table: Table) -> dict[str, tuple[int, int]]:
    """Path, size and modification time of the data files."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in (Path(table.uri) / "data").iterdir()
    }


def test_media_are_stored_uncompressed_and_other_columns_are_not(table: Table) -> None:
    import lance

    hum = [f"{i:05d}".encode() * (AUDIO_BYTES // 5) for i in range(64)]
    stored = table.append(pa.table({"id": range(64), "audio": hum}, schema=SCHEMA))
    assert stored.num_bytes() >= 64 * AUDIO_BYTES
    raw = lance.dataset(table.uri)
    assert raw.data_storage_version == "2.2"
    assert raw.schema.field("audio").metadata[b"lance-encoding:compression"] == b"none"
    assert raw.schema.field("id").metadata is None


def test_adding_a_column_leaves_the_files_as_they_are(table: Table) -> None:
    table = table.append(rows(0, 50, 1000)).append(rows(50, 80, 1000)).delete("id = 7")
    before = data_files(table)
    made = table.add_columns(pa.table({"score": range(79)}))
    after = data_files(made)
    assert {path: after[path] for path in before} == before
    assert sum(size for path, (size, _) in after.items() if path not in before) < 10_000


def test_delete_leaves_the_files_as_they_are(table: Table) -> None:
    table = table.append(rows(0, 50))
    before = data_files(table)
    assert data_files(table.delete("id < 10")) == before


def test_a_strict_append_keeps_what_was_deleted_deleted(table: Table) -> None:
    table = table.append(rows(0, 4)).append(rows(4, 8)).delete("id IN (0, 1, 2, 3, 6)")
    made = table.commit(table.stager().write(rows(8, 9)), expected_version=table.version)
    assert made.scan(["id"]).read_all()["id"].to_pylist() == [4, 5, 7, 8]
    assert made.delete("id = 4").compact().take([0, 2], ["id"])["id"].to_pylist() == [5, 8]


def test_a_stale_plain_append_of_lance_itself_would_have_landed(table: Table) -> None:
    """Why strict appends are made of `Merge`: this is what they guard against."""
    import lance

    pieces = table.stager().write(rows(0, 1))
    table.append(rows(1, 2))
    fragments = [lance.FragmentMetadata.from_json(piece.payload) for piece in pieces]
    lance.LanceDataset.commit(
        table.uri, lance.LanceOperation.Append(fragments), read_version=1, max_retries=0
    )
    assert table.at().count_rows() == 2
    with pytest.raises(ConflictError):
        table.commit(table.stager().write(rows(2, 3)), expected_version=table.version)


def test_compaction_in_the_middle_keeps_the_order(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance itself puts what it rewrote behind what it left alone."""
    for start, stop in ((0, 3000), (3000, 3005), (3005, 3010), (3010, 6010), (6010, 6015)):
        table = table.append(rows(start, stop))
    monkeypatch.setattr("datalake.tables.lance._FRAGMENT_ROWS", 2000)
    before = set(data_files(table))
    made = table.compact()
    assert len(set(data_files(made)) - before) == 1  # The large ones were left alone.
    assert made.scan(["id"]).read_all()["id"].to_pylist() == list(range(6015))
    assert made.take([3004, 3010], ["id"])["id"].to_pylist() == [3004, 3010]
    assert made.delete("id = 3000").take([3000], ["id"])["id"].to_pylist() == [3001]


@pytest.mark.parametrize(
    ("act", "other"),
    [
        (lambda t: t.merge(rows(4, 5), "id"), lambda t: t.merge(rows(0, 1), "id")),
        (lambda t: t.delete("id = 4"), lambda t: t.delete("id = 0")),
        (lambda t: t.compact(), lambda t: t.append(rows(8, 9))),
    ],
)
def test_a_change_between_check_and_commit_is_a_conflict(
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Table], Table],
    other: Callable[[Table], Table],
) -> None:
    """Lance lets changes of different fragments pass each other."""
    table = table.append(rows(0, 4)).append(rows(4, 8))
    monkeypatch.setattr(table, "_expect_latest", lambda: other(open_table(table.uri)))
    with pytest.raises(ConflictError):
        act(table)


def test_an_append_whose_answer_was_lost_lands_once(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = LanceTable._commit

    def losing(self: LanceTable, *args: Any) -> Table:
        monkeypatch.setattr(LanceTable, "_commit", commit)
        commit(self, *args)
        raise ConflictError("The store says that the version is there")

    monkeypatch.setattr(LanceTable, "_commit", losing)
    made = table.append(rows(0, 4))
    assert made.version == table.at().version
    assert table.at().count_rows() == 4


def test_a_handle_travels_without_its_dataset(table: Table) -> None:
    table = table.append(rows(0, 4))
    table.take([0])
    assert len(pickle.dumps(table)) < 4096


def test_a_dot_in_a_name_is_told(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"observation\.state"):
        create_table(tmp_path / "t.lance", pa.schema([("observation.state", pa.int64())]))


def test_two_creators_one_table(table: Table) -> None:
    with pytest.raises(ExistsError):
        create_table(table.uri, SCHEMA)


def test_reading_leaves_torch_and_ray_alone(table: Table) -> None:
    table.append(rows(0, 4))
    code = (
        "import sys, datalake.tables as t\n"
        "assert not {'lance', 'deltalake', 'duckdb', 'pandas'} & set(sys.modules), 'at import'\n"
        f"assert t.open_table({table.uri!r}).count_rows('id > 1') == 2\n"
        "print(sorted({'torch', 'ray', 'duckdb', 'deltalake', 'tensorflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
