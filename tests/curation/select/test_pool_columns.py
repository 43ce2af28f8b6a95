"""Columns of pools in files: in their places, of the rows asked for, batch by batch."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from curation.selection.pool_columns import write_columns
from datalake.errors import SchemaError
from tests.curation.select.corpora import key_table, stored
from tests.curation.select.orders.vectors import clustered


def lists(rows: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float32()), rows.shape[1])


def test_rows_lie_where_they_are_to(tmp_path) -> None:
    keys = key_table({"a/x": 50})
    rows = clustered(50)
    number = pa.array([*range(49), None], pa.int16())
    word = pa.array([f"w{at % 3}" for at in range(49)] + [None]).dictionary_encode()
    columns = {"voice": lists(rows * 3), "number": number, "word": word}
    for name, values in columns.items():
        keys = keys.append_column(name, values)
    # Every other row from the third, backwards; the last, which lacks values, is not among them.
    row_index = np.arange(3, 49, 2)
    places = np.arange(len(row_index))[::-1].copy()
    table = stored(keys, blocks=3)
    files = write_columns(table, list(columns), row_index, places, tmp_path, where=None)
    found = {name: file.open(0, len(row_index)) for name, file in files.items()}
    backwards = row_index[::-1]
    np.testing.assert_allclose(found["voice"], rows[backwards], atol=1e-6)
    np.testing.assert_array_equal(found["number"], backwards)
    words = found["word"]
    assert len(set(words.tolist())) == 3
    same = words[:, None] == words[None, :]
    np.testing.assert_array_equal(same, (backwards[:, None] - backwards[None, :]) % 3 == 0)
    np.testing.assert_array_equal(files["number"].open(2, 5), backwards[2:5])


def test_a_column_of_no_known_kind_is_refused(tmp_path) -> None:
    table = stored(key_table({"a/x": 3}).append_column("audio", pa.array([b"x"] * 3)))
    index = np.arange(3)
    with pytest.raises(SchemaError, match=r"ordered by the column audio.*binary"):
        write_columns(table, ["audio"], index, index, tmp_path, where=None)


def test_memory_does_not_grow_with_the_vectors(tmp_path) -> None:
    peaks = []
    for dims in (32, 256):
        rows = np.ones((30_000, dims), np.float32)
        table = stored(pa.table({"voice": lists(rows)}))
        index = np.arange(len(rows))
        tracemalloc.start()
        write_columns(table, ["voice"], index, index, tmp_path, where=None)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
