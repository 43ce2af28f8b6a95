"""Readers in processes that were forked, and in those that were spawned."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.errors import InputError
from tests.blocks import made

COLUMNS = ("whole", "vector", "label", "utt_id", "audio")


def read(reader: TableReader, rows: np.ndarray) -> list[object]:
    views = reader.views("audio", rows)
    return [
        reader.numbers("whole", rows).tolist(),
        reader.numbers("vector", rows).tolist(),
        reader.texts("label", rows),
        reader.texts("utt_id", rows),
        [None if view is None else view.tobytes() for view in views],
    ]


def child(reader: TableReader, rows: np.ndarray, answer: Connection) -> None:
    try:
        answer.send(read(reader, rows))
    except InputError as error:
        answer.send(error)


def ask(method: str, reader: TableReader, rows: np.ndarray) -> object:
    here, there = multiprocessing.Pipe()
    processes = {
        "fork": multiprocessing.get_context("fork").Process,
        "spawn": multiprocessing.get_context("spawn").Process,
    }
    process = processes[method](target=child, args=(reader, rows, there))
    process.start()
    there.close()
    try:
        assert here.poll(60)
        return here.recv()
    finally:
        process.join(20)
        process.kill()


@pytest.mark.parametrize(
    ("table_format", "method"), [("lance", "fork"), ("lance", "spawn"), ("delta", "fork")]
)
def test_children_read_the_same(tmp_path: Path, table_format: str, method: str) -> None:
    data = made.rows(200, nulls=False, media_bytes=3000)
    table = made.table(str(tmp_path / "t"), data, table_format=table_format)
    reader = TableReader(table, cache=BlockCache(tmp_path / "cache"))
    rows = np.array([7, 199, 0, 7])
    if method == "fork":
        reader.prepare_fork(COLUMNS)
    expected = read(reader, rows)
    assert ask(method, reader, rows) == expected


def test_a_child_that_nobody_prepared_is_told(tmp_path: Path) -> None:
    table = made.table(str(tmp_path / "t"), made.rows(50, nulls=False), table_format="lance")
    reader = TableReader(table, cache=BlockCache(tmp_path / "cache"))
    answer = ask("fork", reader, np.array([1]))
    assert isinstance(answer, InputError)
    assert "spawn" in str(answer)


def test_what_cannot_be_prepared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made.table(str(tmp_path / "t"), made.rows(50), table_format="lance")
    reader = TableReader(table, cache=BlockCache(tmp_path / "cache"))
    reader.prepare_fork(["label"])
    monkeypatch.setattr(reader._origin, "is_remote", True)
    with pytest.raises(InputError, match="spawn"):
        reader.prepare_fork(["label"])
