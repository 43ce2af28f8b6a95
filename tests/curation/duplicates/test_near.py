"""Near-duplicates of a table's column: against all pairs, through any layout, and where dense."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from curation.duplicates import near_duplicates
from curation.duplicates.near_pairs import near_pairs as listed_pairs
from curation.duplicates.vectors import write_vectors
from curation.order import place
from datalake import tables
from datalake.errors import InputError, SchemaError
from tests.curation.duplicates.test_cover import drift_chains


def table_of(folder, vectors, ids=None, rows_each=500, order=None, **columns):
    ids = ids or [f"s/{number}" for number in range(len(vectors))]
    order = np.arange(len(ids)) if order is None else order
    vectors = [None if v is None else np.asarray(v, np.float32) for v in vectors]
    kind = pa.list_(pa.float32(), len(next(v for v in vectors if v is not None)))
    rows = pa.table({"utt_id": ids, "embedding": pa.array(vectors, kind), **columns}).take(
        pa.array(order)
    )
    table = tables.create_table(str(folder), rows.schema, format="lance")
    for start in range(0, len(ids), rows_each):
        table = table.append(rows.slice(start, rows_each))
    return table


def greedy(vectors, ids, threshold, quality=None):
    """Which id goes and which stands for it, by comparing each row with all kept ones."""
    units = np.asarray(vectors, np.float64)
    units = (units / np.linalg.norm(units, axis=1, keepdims=True)).astype(np.float32)
    units = units.astype(np.float64)
    quality = quality if quality is not None else np.zeros(len(ids))
    order = sorted(range(len(ids)), key=lambda n: (-quality[n], place(0, ids[n]), ids[n]))
    kept: list[int] = []
    gone = {}
    for row in order:
        by = [other for other in kept if units[row] @ units[other] >= threshold]
        if by:
            gone[ids[row]] = ids[by[0]]
        else:
            kept.append(row)
    return gone


def gone_of(found):
    return {row["utt_id"]: row["kept_by_id"] for row in found.drops.to_pylist()}


@pytest.mark.parametrize("best_by", [None, "quality"])
def test_one_cell_gives_what_comparing_all_with_all_gives(tmp_path, best_by) -> None:
    rng = np.random.default_rng(1)
    vectors = drift_chains(60, 6)
    vectors[50:90] = vectors[50] + rng.normal(0, 0.01, (40, 32))  # dense: lists are cut off
    vectors[100:110] = vectors[100]  # equal
    quality = rng.integers(0, 5, len(vectors)).astype(float)
    ids = [f"s/{number}" for number in range(len(vectors))]
    table = table_of(tmp_path / "t", vectors, quality=quality)
    found = near_duplicates(table, "embedding", 0.98, best_by=best_by)
    wanted = greedy(vectors, ids, 0.98, quality if best_by else None)
    assert gone_of(found) == wanted
    assert found.parameters["recall"] == 1
    assert found.parameters["still_duplicates"] == 0
    assert found.num_uncovered == 0
    assert found.parameters["num_copies"] == 9
    assert set(found.kept["utt_id"].to_pylist()) == set(ids) - set(wanted)
    assert all(row["similarity"] >= 0.98 for row in found.drops.to_pylist())
    assert set(found.drops["reason"].to_pylist()) == {"near_embedding"}


def test_row_order_and_fragments_change_nothing_and_what_cells_miss_is_measured(tmp_path) -> None:
    vectors = drift_chains(400, 6)
    options = {"num_cells": 40, "num_probes": 1, "num_sampled": 6000}
    one = near_duplicates(table_of(tmp_path / "a", vectors), "embedding", 0.98, **options)
    order = np.random.default_rng(0).permutation(len(vectors))
    other = table_of(tmp_path / "b", vectors, rows_each=1700, order=order)
    two = near_duplicates(other, "embedding", 0.98, **options)
    assert gone_of(one) == gone_of(two)
    assert one.parameters == two.parameters
    # All rows are the sample: the figures are exact.
    exact = vectors.astype(np.float32) @ vectors.astype(np.float32).T
    kept = one.kept["row_index"].to_numpy().astype(int)
    left = (np.triu(exact[np.ix_(kept, kept)], 1) >= 0.98).sum()
    assert one.parameters["num_pairs_sampled"] == (exact >= 0.98).sum() - len(vectors)
    assert 0.5 < one.parameters["recall"] < 1
    assert 0 < one.parameters["still_duplicates"] * len(kept) <= 2 * left


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_how_many_duplicates_are_listed_changes_nothing(tmp_path, monkeypatch, most) -> None:
    rng = np.random.default_rng(2)
    vectors = np.repeat(drift_chains(20, 3), 8, axis=0) + rng.normal(0, 0.02, (480, 32))
    table = table_of(tmp_path / "t", vectors)
    options = {"num_cells": 6, "num_probes": 2}
    wanted = gone_of(near_duplicates(table, "embedding", 0.98, **options))
    monkeypatch.setattr(
        "curation.duplicates.near.near_pairs",
        lambda *args, **named: listed_pairs(*args, **named, most=most),
    )
    assert gone_of(near_duplicates(table, "embedding", 0.98, **options)) == wanted


def test_a_large_cell_is_cut(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("curation.duplicates.near._MOST_ROWS", 100)
    table = table_of(tmp_path / "t", drift_chains(150, 4))
    found = near_duplicates(table, "embedding", 0.98, num_cells=2)
    assert found.parameters["num_cells"] > 2
    assert found.parameters["largest_cell"] <= 100


def test_semdedup_says_what_nothing_stands_for(tmp_path) -> None:
    vectors = drift_chains(100, 6)
    table = table_of(tmp_path / "t", vectors)
    found = near_duplicates(table, "embedding", 0.98, rule="semdedup")
    cover = near_duplicates(table, "embedding", 0.98)
    assert found.num_uncovered == found.parameters["num_uncovered"] > 0
    assert found.drops.num_rows > cover.drops.num_rows
    assert found.drops["kept_by_id"].null_count == found.num_uncovered


def test_rows_without_a_direction_are_kept_and_counted(tmp_path) -> None:
    vectors = [[1, 0], None, [0, 0], [np.nan, 1], [2, 0], [np.inf, 0], [0, 1e-30], [0, 5]]
    table = table_of(tmp_path / "t", vectors)
    found = near_duplicates(table, "embedding", 0.9)
    assert found.left_out == {"null": 1, "not_finite": 2, "zero": 1}
    assert found.drops.num_rows == 2  # one of each direction
    assert found.kept.num_rows == found.num_rows - 2 == 6
    assert near_duplicates(table, "embedding", where="utt_id = 's/1'").drops.num_rows == 0


def test_vectors_are_laid_out_a_few_at_a_time(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    monkeypatch.setattr("curation.neighbors.unit_vectors._NUMBERS_AT_ONCE", 1 << 16)
    vectors = rng.normal(size=(8_000, 256)).astype(np.float32)
    vectors[7], vectors[6_000] = 0, vectors[5]
    ids = [f"s/{number}" for number in range(len(vectors))]
    rows = pa.table(
        {"utt_id": ids, "embedding": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 256)}
    )
    table = tables.create_table(str(tmp_path / "t"), rows.schema, format="lance").append(rows)
    tracemalloc.start()
    written = write_vectors(table, "embedding", tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6 < vectors.nbytes
    assert (written.file.num_rows, written.left_out) == (7_998, {"zero": 1})
    assert set(written.copies) | set(written.row_index[written.copied_from]) == {5, 6_000}
    order = sorted(ids, key=lambda name: place(0, name))
    laid = [f"s/{index}" for index in written.row_index]
    among = set(laid)
    assert laid == [name for name in order if name in among]
    units = vectors[written.row_index] / np.linalg.norm(
        vectors[written.row_index].astype(np.float64), axis=1, keepdims=True
    )
    np.testing.assert_allclose(written.file.open(), units, atol=1e-6)


def test_what_cannot_be_searched_is_refused(tmp_path) -> None:
    table = table_of(tmp_path / "t", [[1, 0], [0, 1]])
    with pytest.raises(InputError, match="threshold"):
        near_duplicates(table, "embedding", 1.2)
    with pytest.raises(SchemaError, match="no embeddings"):
        near_duplicates(table, "utt_id")
    with pytest.raises(SchemaError, match="embedding"):
        near_duplicates(table, "embeding")
