"""Selections: saved whole, loaded equal, and never without what they were made from."""

from __future__ import annotations

import datetime as dt
import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datalake.errors import (
    ConfigError,
    ExistsError,
    InputError,
    NotFoundError,
    SchemaError,
    StoreError,
)
from datalake.lake import SELECTION_ROWS, Lake, Lineage
from tests.lake.conftest import keys, selection_of

Fill = Callable[..., int]
RUN = Lineage("select", {"cap": 2}, {"corpus": 2})


def slow_digest(ids: list[str], weights: list[float]) -> str:
    texts = [text.encode() for text in ids]
    message = struct.pack("<Q", len(ids))
    message += b"".join(struct.pack("<q", len(text)) for text in texts)
    message += b"".join(texts)
    message += b"".join(struct.pack("<d", weight) for weight in weights)
    return hashlib.sha256(message).hexdigest()


@given(st.lists(st.tuples(st.text(), st.floats(0, 1)), max_size=30), st.data())
def test_the_digest_is_of_ids_and_weights_however_chunked(
    pairs: list[tuple[str, float]], data: st.DataObject
) -> None:
    ids, weights = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    cut = data.draw(st.integers(0, len(pairs)))
    whole = pa.table(
        {
            "row_index": range(len(pairs)),
            "utt_id": ids,
            "domain": ["d"] * len(pairs),
            "rank": range(len(pairs)),
            "weight": weights,
        },
        schema=SELECTION_ROWS,
    )
    rows = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    selection = replace(selection_of([], version=1), rows=rows)
    assert selection.digest == slow_digest(ids, weights)


def test_the_digest_tells_order_and_weights_and_not_names() -> None:
    one = selection_of([1, 2], version=1)
    assert one.digest != selection_of([2, 1], version=1).digest
    heavier = one.rows.set_column(4, SELECTION_ROWS.field("weight"), pa.array([1.0, 1.0]))
    assert one.digest != replace(one, rows=heavier).digest
    assert one.digest == replace(one, name="other", table_version=9).digest


def test_saved_and_loaded_are_equal(lake: Lake, fill: Fill) -> None:
    saved = selection_of([7, 1, 4], version=fill())
    version = lake.save_selection(saved, RUN)
    for loaded in (lake.selection("some"), lake.selection("some", version)):
        assert loaded.rows.equals(saved.rows)
        assert loaded.rows.schema == SELECTION_ROWS
        assert loaded.manifest.equals(saved.manifest)
        assert (loaded.name, loaded.table, loaded.table_version) == (
            "some",
            "corpus",
            saved.table_version,
        )
        assert (loaded.method, loaded.parameters) == ("random", {"seed": 0, "cap": None})
        assert loaded.digest == saved.digest
    assert lake.selections() == ["some"]
    assert lake.tables() == ["corpus"]


def test_an_empty_selection(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([], version=fill()), RUN)
    assert len(lake.selection("some")) == 0


def test_saving_again_makes_a_version(lake: Lake, fill: Fill) -> None:
    at = fill()
    first = lake.save_selection(selection_of([1], version=at), RUN)
    second = lake.save_selection(selection_of([2, 3], version=at), RUN)
    assert second > first
    assert lake.selection("some", first).rows["row_index"].to_pylist() == [1]
    assert lake.selection("some").rows["row_index"].to_pylist() == [2, 3]


def test_rows_and_properties_are_one_version(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([1], version=fill()), RUN)
    created, saved = lake.log("some")
    assert (created.operation, saved.operation) == ("create", "select")
    assert saved.run_id == created.run_id == RUN.run_id
    assert (saved.config, saved.inputs) == ({"cap": 2}, {"corpus": 2})


def test_clean_up_never_breaks_a_selection(lake: Lake, fill: Fill) -> None:
    at = fill()
    lake.save_selection(selection_of([9, 0], version=at), RUN)
    fill()
    lake["corpus"].overwrite(keys(1))
    lake["corpus"].cleanup(older_than=dt.timedelta(0))
    kept = [info.version for info in lake["corpus"].versions()]
    assert at in kept
    assert len(kept) == 2
    loaded = lake.selection("some")
    source = lake[loaded.table].at(loaded.table_version)
    assert source.take(loaded.rows["row_index"].combine_chunks())["utt_id"].to_pylist() == [
        "c/9",
        "c/0",
    ]


def test_two_names_may_keep_one_version(lake: Lake, fill: Fill) -> None:
    at = fill()
    for name in ("one", "two"):
        lake.save_selection(selection_of([1], version=at, name=name), RUN)
    lake.drop_selection("one")
    assert lake["corpus"].at(tag=f"selection.two.{at}").version == at
    with pytest.raises(NotFoundError):
        lake["corpus"].at(tag=f"selection.one.{at}")
    assert lake.selections() == ["two"]


@pytest.mark.parametrize("name", ["x" * 128, "a.b-c_d", "x.lock"])
def test_every_name_makes_a_tag(lake: Lake, fill: Fill, name: str) -> None:
    lake.save_selection(selection_of([1], version=fill(), name=name), RUN)
    assert len(lake.selection(name)) == 1


# What cannot be saved -----------------------------------------------------------------------------


def test_a_version_that_is_not_there(lake: Lake, fill: Fill) -> None:
    fill()
    with pytest.raises(NotFoundError):
        lake.save_selection(selection_of([1], version=99), RUN)
    assert lake.selections() == []


def test_other_columns(lake: Lake, fill: Fill) -> None:
    wrong = replace(selection_of([1], version=fill()), rows=keys(1))
    with pytest.raises(SchemaError, match="row_index uint64"):
        lake.save_selection(wrong, RUN)
    assert lake.selections() == []


def test_parameters_that_are_no_json(lake: Lake, fill: Fill) -> None:
    wrong = replace(selection_of([1], version=fill()), parameters={"x": {1}})
    with pytest.raises(ConfigError, match="parameters"):
        lake.save_selection(wrong, RUN)


def test_names(lake: Lake, fill: Fill) -> None:
    at = fill()
    with pytest.raises(InputError):
        lake.save_selection(selection_of([1], version=at, name="a b"), RUN)
    with pytest.raises(ExistsError, match="a table of that name"):
        lake.save_selection(selection_of([1], version=at, name="corpus"), RUN)
    lake.save_selection(selection_of([1], version=at), RUN)
    with pytest.raises(ExistsError, match="a selection of that name"):
        fill("some")


# What cannot be loaded ----------------------------------------------------------------------------


def test_an_unknown_selection_offers_the_nearest(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([1], version=fill()), RUN)
    with pytest.raises(NotFoundError, match=r"no selection 'soem'.*Did you mean some"):
        lake.selection("soem")
    with pytest.raises(NotFoundError, match="a table of that name"):
        lake.selection("corpus")
    with pytest.raises(NotFoundError, match="a selection of that name"):
        lake["some"]


def test_a_version_of_a_selection_that_is_not_there(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([1], version=fill()), RUN)
    with pytest.raises(NotFoundError):
        lake.selection("some", 99)


def test_the_table_is_gone(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([1], version=fill()), RUN)
    lake.drop("corpus")
    with pytest.raises(NotFoundError, match="the table is gone"):
        lake.selection("some")
    lake.drop_selection("some")
    assert lake.selections() == []


def test_the_version_is_gone(lake: Lake, fill: Fill) -> None:
    at = fill()
    lake.save_selection(selection_of([1], version=at), RUN)
    fill()
    lake["corpus"].untag(f"selection.some.{at}")
    lake["corpus"].cleanup(older_than=dt.timedelta(0))
    latest = lake["corpus"].version
    with pytest.raises(NotFoundError, match=f"has versions {latest} to {latest}"):
        lake.selection("some")


def test_the_table_was_made_anew(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([1], version=fill()), RUN)
    lake.drop("corpus")
    fill()
    with pytest.raises(NotFoundError, match="made anew"):
        lake.selection("some")
    lake.drop_selection("some")
    assert lake.selections() == []


def test_rows_that_were_changed_behind_its_back(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([1, 2], version=fill()), RUN)
    table = lake.selection_table("some")
    properties = table.versions()[-1].properties
    table.overwrite(selection_of([2, 1], version=2).rows, properties=properties)
    with pytest.raises(StoreError, match="digest"):
        lake.selection("some")


def test_a_save_that_died_halfway(lake: Lake, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    at = fill()
    table_class = type(lake["corpus"])

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(table_class, "overwrite", die)
        with pytest.raises(KeyboardInterrupt):
            lake.save_selection(selection_of([1], version=at), RUN)
    with pytest.raises(NotFoundError, match="never finished"):
        lake.selection("some")
    lake.save_selection(selection_of([1], version=at), RUN)
    assert len(lake.selection("some")) == 1


def test_which_selections_a_table_has(lake: Lake, fill: Fill) -> None:
    lake.save_selection(selection_of([1], version=fill()), RUN)
    assert lake.selections_of("corpus") == ["some"]
    assert lake.selections_of("other") == []
