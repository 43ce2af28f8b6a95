from __future__ import annotations

import logging

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curation
from curation.selection import key_scan, place
from datalake import tables
from datalake.errors import InputError, NotFoundError, PredicateError, SchemaError, StoreError
from datalake.lake import SELECTION_ROWS, Selection
from tests.curation.select.corpora import KEYS, domain_name, first_of_each, key_table, stored

SIZES = {"a": 400, "a/x": 900, "a/y": 7, "b": 30, "b/x": 60, "r": 500, "s/z": 45}
CORPUS = key_table(SIZES)
RATIO = 0.7

FEW_DOMAINS = st.dictionaries(st.sampled_from([*SIZES, "s"]), st.integers(1, 60), min_size=1)


def select(table: tables.Table, **options) -> Selection:
    return curation.select(table, table_name="corpus", **{"cap": 50, **options})


def chosen(selection: Selection) -> dict[str, tuple[str, int]]:
    return {row["utt_id"]: (row["domain"], row["rank"]) for row in selection.rows.to_pylist()}


def kept(selection: Selection) -> dict[str, int]:
    return {row["domain"]: row["num_kept"] for row in selection.manifest.to_pylist()}


def test_place_is_the_first_eight_bytes_of_an_md5() -> None:
    # printf '5/a/x-1' | md5sum
    assert place(5, "a/x-1") == "b61e3b9a76e27e1c"


@pytest.mark.parametrize("real_mode", ["per_source", "total", "cap"])
def test_equals_the_oracle(real_mode: str) -> None:
    selection = select(stored(CORPUS), real_mode=real_mode, ratio=RATIO, seed=3)
    assert kept(selection)["a/x"] == 50
    assert chosen(selection) == first_of_each(CORPUS.to_pylist(), kept(selection), 3)


@settings(max_examples=25, deadline=None)
@given(FEW_DOMAINS, st.integers(1, 40), st.integers(-5, 5), st.integers(0, 99), st.integers(1, 5))
def test_equals_the_oracle_whatever_the_order_and_blocks(sizes, cap, seed, shuffle, blocks) -> None:
    keys = key_table(sizes)
    table = stored(keys, blocks=blocks, shuffle=shuffle)
    selection = select(table, cap=cap, seed=seed, real_mode="cap")
    assert chosen(selection) == first_of_each(keys.to_pylist(), kept(selection), seed)
    positions = table.take(selection.rows["row_index"].to_numpy(), ["utt_id"])
    assert positions["utt_id"].to_pylist() == selection.rows["utt_id"].to_pylist()


@settings(max_examples=15, deadline=None)
@given(FEW_DOMAINS, st.integers(1, 40), st.integers(0, 40), st.integers(0, 99))
def test_selections_nest(sizes, cap, more, seed) -> None:
    table = stored(key_table(sizes))
    smaller = select(table, cap=cap, seed=seed, real_mode="cap")
    larger = select(table, cap=cap + more, seed=seed, real_mode="cap")
    assert chosen(smaller).items() <= chosen(larger).items()


@pytest.mark.parametrize("kind", ["lance", "delta"])
def test_stored_formats_give_the_same_rows(kind: str, tmp_path) -> None:
    table = tables.create_table(str(tmp_path / f"corpus.{kind}"), KEYS, format=kind)
    for start in range(0, CORPUS.num_rows, 700):
        table = table.append(CORPUS.slice(start, 700))
    selection = select(table)
    assert chosen(selection) == chosen(select(stored(CORPUS)))
    ids = table.take(selection.rows["row_index"].to_numpy(), ["utt_id"])["utt_id"]
    assert ids.to_pylist() == selection.rows["utt_id"].to_pylist()


def test_random_is_the_first_of_the_whole_table() -> None:
    selection = select(stored(CORPUS), method="random", cap=None, budget=120, seed=9)
    ordered = sorted(CORPUS["utt_id"].to_pylist(), key=lambda utt_id: place(9, utt_id))
    assert set(selection.rows["utt_id"].to_pylist()) == set(ordered[:120])
    assert chosen(selection) == first_of_each(CORPUS.to_pylist(), kept(selection), 9)


def test_naive_is_every_row() -> None:
    selection = select(stored(CORPUS, shuffle=1), method="naive", cap=None)
    assert selection.rows["row_index"].to_pylist() == list(range(CORPUS.num_rows))
    assert chosen(selection) == first_of_each(CORPUS.to_pylist(), SIZES, 0)


def test_domains_with_too_few_candidates_are_read_again(monkeypatch) -> None:
    expected = chosen(select(stored(CORPUS)))
    shares = iter([0.5, 1.0, 0.0] * 3)
    monkeypatch.setattr(key_scan, "_likely_share", lambda keep, size: next(shares) * keep / size)
    assert chosen(select(stored(CORPUS))) == expected


def test_a_seed_is_another_sample() -> None:
    first, second = (chosen(select(stored(CORPUS), seed=seed)) for seed in (1, 2))
    assert first.keys() != second.keys()
    # The hypergeometric mean of the overlap in a/x is 50 * 50 / 900 = 2.8.
    shared = sum(utt_id.startswith("a/x") for utt_id in first.keys() & second.keys())
    assert shared < 15


def test_the_selection_says_what_it_is() -> None:
    table = stored(CORPUS, blocks=3)
    selection = select(table, name="fifty", where="duration_s < 4")
    assert (selection.name, selection.table, selection.method) == ("fifty", "corpus", "doss")
    assert selection.table_version == table.version
    assert selection.parameters == {
        "cap": 50,
        "ratio": 1.0,
        "real_mode": "per_source",
        "seed": 0,
        "where": "duration_s < 4",
        "order": "hash",
    }
    assert selection.rows.schema == SELECTION_ROWS
    assert selection.rows["weight"].unique().to_pylist() == [1.0]
    indices = selection.rows["row_index"].to_pylist()
    assert indices == sorted(indices)


def test_manifest_by_hand() -> None:
    rows = select(stored(CORPUS)).manifest.to_pylist()
    assert [row["domain"] for row in rows] == ["a/x", "r", "a", "b/x", "s/z", "b", "a/y"]
    # Durations of a domain go 1, 2, 3, 4 s and again.
    assert rows[0]["hours"] == pytest.approx(900 * 2.5 / 3600)
    assert (rows[0]["num_rows"], rows[0]["num_kept"], rows[0]["binds"]) == (900, 50, True)
    assert rows[0]["retention"] == 50 / 900
    assert rows[-1] == {
        "domain": "a/y",
        "label": "spoof",
        "source": "a",
        "generator": "y",
        "embodiment": None,
        "task": None,
        "num_rows": 7,
        "num_kept": 7,
        "hours": pytest.approx(16 / 3600),
        "hours_kept": pytest.approx(16 / 3600),
        "retention": 1.0,
        # 57 + 50 + 7 of a, 30 + 50 of b, 65 of r and 45 of s.
        "mass": pytest.approx(7 / (57 + 50 + 7 + 30 + 50 + 65 + 45)),
        "binds": False,
        "order_value": None,
    }
    # 50 + 7 of a, 50 of b (which has 30), and 20 + 45 for the source with bona fide only.
    kept_real = {row["domain"]: row["num_kept"] for row in rows if row["label"] == "bonafide"}
    assert kept_real == {"a": 57, "b": 30, "r": 65}


def test_hours_kept_are_those_of_the_rows_kept() -> None:
    table = stored(CORPUS)
    selection = select(table)
    durations = table.take(selection.rows["row_index"].to_numpy(), ["duration_s"])["duration_s"]
    hours = sum(row["hours_kept"] for row in selection.manifest.to_pylist())
    assert hours == pytest.approx(sum(durations.to_pylist()) / 3600)


def test_unknown_durations_give_no_hours() -> None:
    without = stored(CORPUS.drop(["duration_s"]))
    nan = pa.array([float("nan")] * CORPUS.num_rows)
    not_known = stored(CORPUS.set_column(4, "duration_s", nan))
    for table in (without, not_known):
        selection = select(table)
        assert selection.manifest["hours"].null_count == selection.manifest.num_rows
        assert chosen(selection) == chosen(select(stored(CORPUS)))


def test_twins_of_one_id_are_ordered_by_position() -> None:
    keys = key_table({"a/x": 1})
    selection = select(stored(pa.concat_tables([keys] * 5)), cap=2, ratio=0)
    assert selection.rows["row_index"].to_pylist() == [0, 1]
    assert selection.rows["rank"].to_pylist() == [0, 1]


def test_equal_places_are_ordered_by_id(monkeypatch) -> None:
    # With places of one digit, every domain of this size has ties.
    monkeypatch.setattr(key_scan, "PLACE_DIGITS", 1)
    monkeypatch.setattr(key_scan, "_likely_share", lambda keep, size: 1.0)
    keys = key_table({"a/x": 80})
    selection = select(stored(keys, shuffle=4), cap=31, ratio=0)
    ordered = sorted(keys["utt_id"].to_pylist(), key=lambda utt_id: (place(0, utt_id)[0], utt_id))
    assert chosen(selection) == {utt_id: ("a/x", rank) for rank, utt_id in enumerate(ordered[:31])}


def test_memory_does_not_grow_with_the_table(monkeypatch) -> None:
    num_rows = 400_000
    number = pc.cast(pa.array(range(num_rows)), pa.string())
    keys = pa.table(
        {
            "utt_id": pc.binary_join_element_wise("a", number, "/"),
            "source": pa.repeat("a", num_rows),
            "generator": pc.utf8_slice_codeunits(number, -2),
            "label": pa.repeat("spoof", num_rows),
        }
    )
    table = stored(keys)
    # About 100 bytes a row if the keys were held, and nowhere to spill them.
    connect = duckdb.connect
    monkeypatch.setattr(
        duckdb,
        "connect",
        lambda config: connect(config={**config, "max_temp_directory_size": "0KB"}),
    )
    monkeypatch.setattr(key_scan, "MEMORY_LIMIT", "35MB")
    # Generators 00 to 99, and the ten numbers of one digit are each their own.
    assert len(select(table, cap=20, ratio=0)) == 100 * 20 + 10


def test_only_keys_are_read(monkeypatch) -> None:
    table = stored(CORPUS.append_column("audio", pa.array([b"RIFF"] * CORPUS.num_rows)))
    read: list[str] = []
    scan = type(table).scan

    def watched(self, columns=None, **options):
        read.extend(columns or self.schema.names)
        return scan(self, columns, **options)

    monkeypatch.setattr(type(table), "scan", watched)
    select(table)
    assert set(read) == {"utt_id", "source", "generator", "label", "duration_s"}


@pytest.mark.parametrize(
    ("column", "utt_ids"),
    [("label", ["a/x-3", "r/real-8"]), ("source", ["a/x-3"]), ("generator", ["a/x-0", "a/x-1"])],
)
@pytest.mark.parametrize("method", ["doss", "random", "naive"])
def test_rows_without_a_domain_are_refused_by_name(column, utt_ids, method) -> None:
    rows = CORPUS.to_pylist()
    for row in rows:
        if row["utt_id"] in utt_ids:
            row[column] = None
    options = {"doss": {}, "random": {"cap": None, "budget": 5}, "naive": {"cap": None}}[method]
    with pytest.raises(InputError) as caught:
        select(stored(pa.Table.from_pylist(rows, schema=KEYS)), method=method, **options)
    assert caught.value.what == f"{len(utt_ids)} rows have no domain"
    named = [
        f"{row['utt_id']} (row {index})"
        for index, row in enumerate(rows)
        if row["utt_id"] in utt_ids
    ]
    assert caught.value.found == ", ".join(named)


def test_only_rows_that_are_considered_must_have_a_domain() -> None:
    rows = CORPUS.to_pylist()
    for row in rows[:10]:
        row["label"] = None
    table = stored(pa.Table.from_pylist(rows, schema=KEYS))
    with pytest.raises(InputError, match=r"10 rows have no domain.*, …"):
        select(table)
    selection = select(table, where="label IS NOT NULL")
    expected = first_of_each(rows[10:], kept(selection), 0)
    assert chosen(selection) == expected


def test_rows_without_an_id_are_refused_if_they_would_be_selected() -> None:
    rows = CORPUS.slice(0, 3).to_pylist()
    rows[1]["utt_id"] = None
    keys = pa.Table.from_pylist(rows, CORPUS.schema.set(0, pa.field("utt_id", pa.string())))
    with pytest.raises(InputError, match=r"1 rows .* no utt_id"):
        select(stored(keys), method="naive", cap=None)
    kept = select(stored(keys), method="naive", cap=None, where="utt_id IS NOT NULL")
    assert kept.rows["row_index"].to_pylist() == [0, 2]


def test_domains_of_one_name_are_refused() -> None:
    rows = [
        {"utt_id": "1", "label": "bonafide", "source": "a/x", "generator": None},
        {"utt_id": "2", "label": "spoof", "source": "a", "generator": "x"},
    ]
    with pytest.raises(InputError, match="Two domains have one name"):
        select(stored(pa.Table.from_pylist(rows, schema=KEYS)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "doss", "budget": 5}, InputError, "The cap and a budget cannot both"),
        ({"method": "random", "budget": 5}, InputError, "random does not use cap.*cap = 50"),
        ({"method": "naive", "cap": None, "ratio": 2.0}, InputError, "naive does not use ratio"),
        ({"method": "naive", "cap": None, "budget": 5}, InputError, "keeps what it keeps"),
        ({"cap": None}, InputError, "needs a cap"),
        ({"cap": None, "budget": 0.5}, InputError, "too small.*cap of 1"),
        ({"cap": None, "budget": 5, "unit": "row"}, InputError, "Did you mean rows"),
        ({"cap": None, "budget": 5, "unit": "bytes"}, InputError, "num_bytes.*none in"),
        ({"method": "naiv"}, NotFoundError, "Did you mean naive"),
        ({"where": "label = 'none'"}, InputError, "nothing to select from.*label = 'none'"),
        ({"where": "label = "}, PredicateError, "label ="),
        ({"where": "label = 'bonafide'", "ratio": 0.0}, InputError, "selection is empty"),
    ],
)
def test_what_cannot_be_selected_is_refused(options, error, message) -> None:
    with pytest.raises(error, match=message):
        select(stored(CORPUS), **options)


def test_a_missing_key_column_is_named() -> None:
    with pytest.raises(SchemaError, match="generator"):
        select(stored(CORPUS.drop(["generator"])))


def test_a_table_that_breaks_off_is_a_store_error(monkeypatch) -> None:
    table = stored(CORPUS)
    whole = type(table).scan

    def breaking(self, *arguments, **options):
        reader = whole(self, *arguments, **options)

        def batches():
            yield from reader
            raise OSError("connection reset")

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    monkeypatch.setattr(type(table), "scan", breaking)
    with pytest.raises(StoreError, match=r"could not be read to their end.*connection reset"):
        select(table)


def test_a_cap_that_binds_nothing_is_said(caplog) -> None:
    with caplog.at_level(logging.WARNING):
        select(stored(CORPUS), cap=5000)
    assert "cap of 5,000 binds no spoof domain: the largest has 900 rows" in caplog.text


def test_oracle_names_domains_as_the_manifest_does() -> None:
    selection = select(stored(CORPUS))
    assert set(kept(selection)) == {domain_name(row) for row in CORPUS.to_pylist()} == set(SIZES)


@pytest.mark.parametrize("blocks", [1, 3])
def test_within_a_selection_by_ids(blocks: int) -> None:
    first = select(stored(CORPUS), cap=30, seed=5)
    # Another version has the rows in another place.
    inner = select(stored(CORPUS, blocks=blocks, shuffle=1), cap=20, within=first)
    ids = set(first.rows["utt_id"].to_pylist())
    few = stored(CORPUS.filter(pc.is_in(CORPUS["utt_id"], pa.array(sorted(ids)))))
    assert chosen(inner) == chosen(select(few, cap=20))
    assert inner.parameters["within_digest"] == first.digest
    weights = curation.weigh(stored(CORPUS), table_name="corpus", within=first)
    assert set(weights.rows["utt_id"].to_pylist()) == ids
