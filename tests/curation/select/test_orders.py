"""Orders as `curation.select` uses them: nested, and the same for any order of rows and blocks."""

from __future__ import annotations

from collections import defaultdict

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curation
from curation.selection import OrderOptions, PoolRows, Ranked, key_scan, ordered_rows, place
from curation.selection.orders import density, facility_location, facility_value, k_center
from datalake import plugins, tables
from datalake.errors import InputError, LakeError, NotFoundError, SchemaError
from datalake.lake import Selection
from tests.curation.select.corpora import domain_name, key_table, stored
from tests.curation.select.orders.vectors import clustered

SIZES = {"a": 90, "a/x": 120, "a/y": 7, "b": 30, "b/x": 60, "s/z": 45}
ORDERS = ["hash", "quality", "speaker", "density", "k_center", "facility_location"]
OPTIONS = {
    "quality": {"quality": "snr_db"},
    "density": {"embedding": "voice"},
    "k_center": {"embedding": "voice"},
    "facility_location": {"embedding": "voice", "num_neighbors": 16},
}


def corpus(sizes: dict[str, int] = SIZES, dims: int = 8, seed: int = 0) -> pa.Table:
    """Keys, and by the hash of nothing: a quality that is often null or equal, speakers, vectors.

    Vectors have lengths of their own, which must not matter.
    """
    keys = key_table(sizes)
    rng = np.random.default_rng(seed)
    num_rows = keys.num_rows
    vectors = clustered(num_rows, dims, seed) * rng.uniform(0.5, 3, (num_rows, 1))
    snr_db = [None if value > 8 else float(value) for value in rng.integers(0, 11, num_rows)]
    speakers = [f"speaker-{number}" for number in rng.geometric(0.4, num_rows)]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), dims)
    metadata = {"datalake.embedder": "lfcc_stats"}
    return (
        keys.append_column("snr_db", pa.array(snr_db, pa.float32()))
        .append_column("speaker_id", pa.array(speakers))
        .append_column(pa.field("voice", lists.type, metadata=metadata), lists)
    )


CORPUS = corpus()


def select(table: tables.Table, order: str, **options) -> Selection:
    given_ = {**OPTIONS.get(order, {}), **options.pop("order_options", {})}
    common = {"table_name": "corpus", "cap": 20, "real_mode": "cap"}
    return curation.select(
        table, **{**common, **options}, order=order, order_options=OrderOptions(**given_)
    )


def chosen(selection: Selection) -> dict[str, tuple[str, int]]:
    return {row["utt_id"]: (row["domain"], row["rank"]) for row in selection.rows.to_pylist()}


def by_domain(keys: pa.Table, seed: int = 0) -> dict[str, list[dict]]:
    """The rows of each domain in the order of the hash."""
    rows = defaultdict(list)
    for row in keys.to_pylist():
        rows[domain_name(row)].append(row)
    return {
        name: sorted(own, key=lambda row: (place(seed, row["utt_id"]), row["utt_id"]))
        for name, own in rows.items()
    }


def ranked(order: str, rows: list[dict], keep: int) -> list[dict]:
    """The order by its definition, in plain Python, of rows in the order of the hash."""
    if order == "quality":
        return sorted(rows, key=lambda row: (row["snr_db"] is None, -(row["snr_db"] or 0)))[:keep]
    if order == "speaker":
        seen: dict[str, int] = defaultdict(int)
        turns = []
        for row in rows:
            turns.append(seen[row["speaker_id"]])
            seen[row["speaker_id"]] += 1
        return [row for _, row in sorted(zip(turns, rows, strict=True), key=lambda x: x[0])][:keep]
    if order == "hash" or keep >= len(rows):
        return rows[:keep]
    vectors = np.array([row["voice"] for row in rows], np.float64)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    function = {"density": density, "k_center": k_center, "facility_location": facility_location}
    extra = {"num_neighbors": 16} if order == "facility_location" else {}
    return [rows[at] for at in function[order](vectors.astype(np.float32), keep, **extra)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", [0, 7])
def test_a_cap_keeps_the_first_of_each_domain(order, seed) -> None:
    selection = select(stored(CORPUS), order, seed=seed)
    expected = {}
    for name, rows in by_domain(CORPUS, seed).items():
        keep = min(20, len(rows))
        whole = keep == len(rows) and order != "quality"
        first = rows if whole else ranked(order, rows, keep)
        expected |= {row["utt_id"]: (name, rank) for rank, row in enumerate(first)}
    assert chosen(selection) == expected


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=4, deadline=None)
@given(shuffle=st.integers(0, 99), blocks=st.integers(1, 5))
def test_any_order_of_rows_and_blocks_gives_the_same_rows(order, shuffle, blocks) -> None:
    expected = chosen(select(stored(CORPUS), order))
    assert chosen(select(stored(CORPUS, blocks=blocks, shuffle=shuffle), order)) == expected


@pytest.mark.parametrize("order", ORDERS)
@settings(max_examples=4, deadline=None)
@given(cap=st.integers(1, 59), more=st.integers(0, 30))
def test_selections_nest(order, cap, more) -> None:
    smaller = select(stored(CORPUS), order, cap=cap)
    larger = chosen(select(stored(CORPUS), order, cap=cap + more))
    small = chosen(smaller)
    assert small.keys() <= larger.keys()
    for utt_id, (domain, rank) in small.items():
        # What is kept whole is ranked by the hash.
        if order == "quality" or cap + more < SIZES[domain]:
            assert larger[utt_id] == (domain, rank)


@pytest.mark.parametrize("order", ORDERS)
def test_a_stored_table_gives_the_same_rows(order, tmp_path) -> None:
    table = tables.create_table(str(tmp_path / "corpus.lance"), CORPUS.schema, format="lance")
    for start in range(0, CORPUS.num_rows, 100):
        table = table.append(CORPUS.slice(start, 100))
    assert chosen(select(table, order)) == chosen(select(stored(CORPUS), order))


@pytest.mark.parametrize("order", ["quality", "k_center"])
def test_of_the_whole_table(order) -> None:
    """Random selection cuts all domains together: so does the order."""
    selection = select(stored(CORPUS), order, method="random", cap=None, real_mode="per_source",
                       budget=40)  # fmt: skip
    rows = [row for own in by_domain(CORPUS).values() for row in own]
    rows.sort(key=lambda row: place(0, row["utt_id"]))
    assert set(chosen(selection)) == {row["utt_id"] for row in ranked(order, rows, 40)}


@pytest.mark.parametrize("order", ["quality", "facility_location"])
def test_within_a_selection_and_where(order) -> None:
    first = select(stored(CORPUS), "hash", cap=40)
    ids = pa.array(sorted(chosen(first)))
    few = stored(CORPUS.filter(pc.is_in(CORPUS["utt_id"], ids)))
    expected = chosen(select(few, order, where="duration_s > 1"))
    assert chosen(select(stored(CORPUS), order, within=first, where="duration_s > 1")) == expected


def test_hours_of_a_budget_are_those_of_the_rows_in_order() -> None:
    selection = select(stored(CORPUS), "quality", cap=None, budget=0.05, unit="hours")
    assert 0.04 < sum(row["hours_kept"] for row in selection.manifest.to_pylist()) <= 0.05
    assert selection.parameters["order"] == "quality"


def test_the_selection_says_its_order_and_what_it_reached() -> None:
    selection = select(stored(CORPUS), "facility_location")
    assert selection.parameters["order"] == "facility_location"
    assert selection.parameters["embedding"] == "voice"
    assert selection.parameters["num_neighbors"] == 16
    assert "speaker" not in selection.parameters
    values = {row["domain"]: row["order_value"] for row in selection.manifest.to_pylist()}
    rows = by_domain(CORPUS)["a/x"]
    vectors = np.array([row["voice"] for row in rows], np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    reached = facility_value(vectors, facility_location(vectors, 20, num_neighbors=16))
    assert values["a/x"] == pytest.approx(reached, abs=1e-6)
    assert values["a/y"] is None
    assert values["a/x"] > facility_value(vectors, np.arange(20))


def test_quality_by_an_expression_and_from_below() -> None:
    table = stored(CORPUS)
    lowest = select(table, "quality", order_options={"lowest_first": True})
    turned = select(table, "quality", order_options={"quality": "-snr_db"})
    assert chosen(lowest) == chosen(turned)
    # Whole numbers of seconds decide; within them the SNR.
    mixed = select(table, "quality", order_options={"quality": "100 * duration_s + snr_db"})
    rows = by_domain(CORPUS)["a/x"]
    known = [row for row in rows if row["snr_db"] is not None]
    known.sort(key=lambda row: -(100 * row["duration_s"] + row["snr_db"]))
    ours = sorted(
        (rank, utt_id) for utt_id, (domain, rank) in chosen(mixed).items() if domain == "a/x"
    )
    assert [utt_id for _, utt_id in ours] == [row["utt_id"] for row in known[:20]]


def test_a_nan_is_no_quality() -> None:
    keys = key_table({"a/x": 4})
    quality = pa.array([float("nan"), 1.0, float("-inf"), None])
    selection = select(stored(keys.append_column("snr_db", quality)), "quality", cap=2)
    assert [row["utt_id"] for row in selection.rows.to_pylist()] == ["a/x-1", "a/x-2"]


def test_no_speaker_has_two_more_than_another() -> None:
    rows = select(stored(CORPUS), "speaker", cap=60).rows
    speakers = {row["utt_id"]: row["speaker_id"] for row in CORPUS.to_pylist()}
    for name, size in SIZES.items():
        own = [speakers[row["utt_id"]] for row in rows.to_pylist() if row["domain"] == name]
        if len(own) == size:
            continue
        all_own = [row["speaker_id"] for row in by_domain(CORPUS)[name]]
        kept = {who: own.count(who) for who in set(all_own)}
        for who, count in kept.items():
            if count < all_own.count(who):
                assert max(kept.values()) <= count + 1


def test_parts_of_a_stream_change_nothing(monkeypatch) -> None:
    expected = chosen(select(stored(CORPUS), "quality"))
    monkeypatch.setattr(ordered_rows, "PART_ROWS", 25)
    assert chosen(select(stored(CORPUS, blocks=20, shuffle=3), "quality")) == expected


def test_memory_by_quality_does_not_grow_with_the_table(monkeypatch) -> None:
    num_rows = 400_000
    number = pc.cast(pa.array(range(num_rows)), pa.string())
    keys = pa.table(
        {
            "utt_id": pc.binary_join_element_wise("a", number, "/"),
            "source": pa.repeat("a", num_rows),
            "generator": pc.utf8_slice_codeunits(number, -2),
            "label": pa.repeat("spoof", num_rows),
            "snr_db": pa.array(np.arange(num_rows) % 977, pa.float64()),
        }
    )
    table = stored(keys, blocks=20)
    # About 100 bytes a row if the keys were held, and nowhere to spill them.
    connect = duckdb.connect
    monkeypatch.setattr(
        duckdb,
        "connect",
        lambda config: connect(config={**config, "max_temp_directory_size": "0KB"}),
    )
    monkeypatch.setattr(key_scan, "MEMORY_LIMIT", "35MB")
    monkeypatch.setattr(ordered_rows, "PART_ROWS", 20_000)
    selection = select(table, "quality", ratio=0)
    # Generators 00 to 99, and the ten numbers of one digit are each their own.
    assert len(selection) == 100 * 20 + 10


@pytest.mark.parametrize(
    ("order", "options", "error", "message"),
    [
        ("hsah", {}, NotFoundError, "no order 'hsah'.*Did you mean hash"),
        ("hash", {"embedding": "voice"}, InputError, "order hash does not use embedding"),
        ("quality", {"quality": None}, InputError, "needs what to rank by.*--quality"),
        ("quality", {"quality": "snr_dB2"}, SchemaError, "not there.*curate measure"),
        ("quality", {"quality": "label"}, InputError, "cannot be ranked.*no number"),
        ("quality", {"quality": "snr_db > 3"}, InputError, "cannot be ranked.*no number"),
        ("quality", {"quality": "snr_db) IS NULL OR (snr_db"}, InputError, "cannot be ranked"),
        ("quality", {"quality": "snr_db +"}, InputError, "cannot be ranked by .snr_db"),
        ("speaker", {"speaker": "speaker"}, SchemaError, "who speaks: speaker.*speaker_id"),
        ("speaker", {"speaker": "voice"}, SchemaError, "does not say who speaks"),
        ("k_center", {"embedding": None}, InputError, "--embedding.*vectors: voice"),
        ("k_center", {"embedding": "voise"}, SchemaError, "voise.*Did you mean voice"),
        ("density", {"embedding": "wavlm"}, SchemaError, "--with NAME --as wavlm`, or"),
        ("density", {"embedding": "lfcc_stats"}, SchemaError, "embed TABLE --with lfcc_stats`"),
        ("facility_location", {"embedding": "label"}, SchemaError, "holds no embeddings"),
        ("k_center", {"num_neighbors": 3}, InputError, "k_center does not use num_neighbors"),
    ],
)
def test_what_cannot_order_is_refused(order, options, error, message) -> None:
    with pytest.raises(error, match=message):
        select(stored(CORPUS), order, order_options=options)


@pytest.mark.parametrize("field", ["num_neighbors", "num_clusters", "temperature"])
def test_options_out_of_range_are_refused(field) -> None:
    with pytest.raises(InputError, match="out of range"):
        OrderOptions(**{field: 0})


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("voice", None, r"2 null: .*Run `curate embed TABLE --with lfcc_stats --as voice"),
        ("voice", [0.0] * 8, r"2 zero: a/x-\d+ \(row \d+\), a/x-\d+ \(row \d+\)"),
        ("voice", [float("nan")] * 8, "2 not_finite: "),
        ("speaker_id", None, "2 null: .*Fill the column, or leave .*speaker_id IS NOT NULL"),
    ],
)
def test_rows_without_what_an_order_reads_are_named(column, value, message) -> None:
    rows = CORPUS.to_pylist()
    lacking = [row for row in rows if row["generator"] == "x" and row["source"] == "a"][3:5]
    for row in lacking:
        row[column] = value
    table = stored(pa.Table.from_pylist(rows, schema=CORPUS.schema), shuffle=1)
    order = "k_center" if column == "voice" else "speaker"
    with pytest.raises(InputError, match=message) as caught:
        select(table, order)
    assert all(row["utt_id"] in str(caught.value) for row in lacking)
    if value is None:
        assert len(select(table, order, where=f"{column} IS NOT NULL"))


def test_domains_that_are_kept_whole_need_no_vector() -> None:
    rows = CORPUS.to_pylist()
    for row in rows:
        if row["generator"] == "y":
            row["voice"] = None
    table = stored(pa.Table.from_pylist(rows, schema=CORPUS.schema))
    assert chosen(select(table, "k_center")) == chosen(select(stored(CORPUS), "k_center"))


def test_episodes_are_ordered_too() -> None:
    vectors = clustered(40)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8)
    names = [f"e{number}" for number in range(40)]
    table = pa.table({"episode_id": names, "source": ["s"] * 40, "embodiment": ["arm"] * 40,
                      "task": ["pick", "place"] * 20, "trajectory": lists})  # fmt: skip
    selection = select(stored(table), "k_center", cap=5, order_options={"embedding": "trajectory"})
    order = sorted(range(0, 40, 2), key=lambda number: place(0, names[number]))
    picks = k_center(vectors[order], 5)
    expected = {names[order[pick]]: ("s/arm/pick", rank) for rank, pick in enumerate(picks)}
    found = {name: place_ for name, place_ in chosen(selection).items() if "pick" in place_[0]}
    assert found == expected
    rows = table.set_column(4, "trajectory", pa.nulls(40, lists.type))
    with pytest.raises(InputError, match=r"40 rows .* trajectory.*40 null: e\d+ \(row"):
        select(stored(rows), "k_center", cap=5, order_options={"embedding": "trajectory"})


class Last:
    """A plug-in: the last by the hash come first."""

    uses: frozenset[str] = frozenset()

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:
        return ("duration_s",)

    def first(self, rows: PoolRows, keep: int, options: OrderOptions) -> Ranked:
        assert rows.columns["duration_s"].shape == (rows.num_rows,)
        return Ranked(np.arange(rows.num_rows)[::-1][:keep], value=float(keep))


class Twice(Last):
    def first(self, rows: PoolRows, keep: int, options: OrderOptions) -> Ranked:
        return Ranked(np.zeros(keep, np.int64))


def test_an_order_of_ones_own(monkeypatch) -> None:
    load = plugins.load
    own = {"last": Last(), "twice": Twice(), "nothing": object()}
    monkeypatch.setattr(
        plugins, "load", lambda group, name: own[name] if name in own else load(group, name)
    )
    selection = select(stored(CORPUS), "last")
    rows = by_domain(CORPUS)["a/x"]
    expected = {row["utt_id"]: ("a/x", rank) for rank, row in enumerate(reversed(rows[-20:]))}
    assert {k: v for k, v in chosen(selection).items() if v[0] == "a/x"} == expected
    assert selection.manifest.to_pylist()[0]["order_value"] == 20
    with pytest.raises(LakeError, match=r"did not answer as it must.*fault of the plug-in"):
        select(stored(CORPUS), "twice")
    with pytest.raises(InputError, match=r"cannot be used here.*`keys` or `first`"):
        select(stored(CORPUS), "nothing")
