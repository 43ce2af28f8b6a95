"""Explanations against the slow way: all rows sorted, and drops as the searches list them."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import curation
import datalake
from curation.audit.split import split_rows
from curation.cli.app import app
from curation.duplicates import equal_rows, near_duplicates
from curation.quality.drops import find_drops, parse_rule
from curation.selection import OrderOptions
from curation.selection.explanation import Verdict
from curation.selection.passing import select_passing
from datalake import Lineage
from datalake.cli import console
from datalake.errors import NotFoundError
from datalake.lake import Lake, Selection
from tests.curation.select.corpora import domain_name, first_of_each, key_table

SIZES = {"a": 40, "a/x": 60, "a/y": 7, "b": 3, "b/x": 30, "r": 20}


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    uri = str(tmp_path_factory.mktemp("explain") / "lake")
    keys = key_table(SIZES)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(keys.num_rows, 8)).astype("float32")
    vectors[1::4] = vectors[0::4] + rng.normal(size=(40, 8)) * 0.05
    vectors[2::8] = vectors[1::8]
    snr = rng.normal(20, 5, keys.num_rows)
    snr[::9] = np.nan
    columns = {
        "snr_db": pa.array(snr, from_pandas=True),
        "quality": pa.array(rng.integers(0, 5, keys.num_rows).astype("float64")),
        "sha256": pa.array([f"{number // 3:x}" for number in range(keys.num_rows)]),
        "speaker_id": pa.array([f"s{number % 17}" for number in range(keys.num_rows)]),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
    }
    for name, values in columns.items():
        keys = keys.append_column(name, values)
    lake = datalake.open_lake(uri)
    lake.create("corpus", keys.schema, lineage=Lineage("create")).append(keys)
    return uri


@pytest.fixture(scope="module")
def lake(uri) -> Lake:
    return datalake.open_lake(uri)


@pytest.fixture(scope="module")
def rows(lake) -> list[dict[str, object]]:
    return lake["corpus"].scan().read_all().to_pylist()


def ids(rows) -> list[str]:
    return [row["utt_id"] for row in rows]


def select(lake: Lake, **options: object) -> Selection:
    return curation.select(lake["corpus"], table_name="corpus", **options)  # type: ignore[arg-type]


def saved(lake: Lake, selection: Selection) -> Selection:
    lake.save_selection(selection, Lineage("select"))
    return selection


def passing(lake: Lake, kept: pa.Table, method: str, parameters, name: str = "") -> Selection:
    where = parameters.get("where")
    return select_passing(
        lake["corpus"], kept, table_name="corpus", name=name, method=method,
        parameters=parameters, where=where,
    )  # fmt: skip


def agree(lake: Lake, selection: Selection, rows) -> list[Verdict]:
    """Explain every row; what is said agrees with the selection and with its summary."""
    verdicts = curation.explain(lake, selection, ids(rows))
    assert [verdict.row_index for verdict in verdicts] == list(range(len(rows)))
    kept = {verdict.utt_id for verdict in verdicts if verdict.is_kept}
    assert kept == set(selection.rows["utt_id"].to_pylist())
    summary = curation.summarize(lake, selection)
    steps = {step.reason: step.num_refused for step in summary.steps if step.num_refused}
    assert Counter(verdict.reason for verdict in verdicts if not verdict.is_kept) == steps
    assert summary.num_rows == len(rows)
    assert summary.steps[-1].num_left == summary.num_selected == len(kept)
    return verdicts


def test_a_row_beyond_the_cap_stands_where_sorting_puts_it(lake, rows) -> None:
    where = "duration_s > 1"
    selection = select(lake, cap=10, seed=3, where=where, ratio=0.5)
    verdicts = agree(lake, selection, rows)
    considered = [row for row in rows if row["duration_s"] > 1]
    everything = first_of_each(considered, dict.fromkeys(SIZES, 10**6), 3)
    manifest = {row["domain"]: row for row in selection.manifest.to_pylist()}
    for row, verdict in zip(rows, verdicts, strict=True):
        assert verdict.domain == domain_name(row)
        if row["duration_s"] <= 1:
            assert (verdict.reason, verdict.place) == ("where", None)
            assert verdict.facts["values"] == {"duration_s": 1.0}
            continue
        assert (verdict.domain, verdict.place) == everything[row["utt_id"]]
        line = manifest[verdict.domain]
        assert (verdict.num_kept, verdict.num_rows) == (line["num_kept"], line["num_rows"])
        if not verdict.is_kept:
            assert verdict.place >= verdict.num_kept
            expected = "beyond_cap" if row["label"] == "spoof" else "beyond_ratio"
            assert verdict.reason == expected
    assert {"where", "beyond_cap", "beyond_ratio"} <= {verdict.reason for verdict in verdicts}


def test_what_an_earlier_selection_refused_is_explained_by_it(lake, rows) -> None:
    first = saved(lake, select(lake, cap=20, name="first"))
    second = select(lake, cap=5, within=first, seed=1)
    # The name has other rows by now; the ones selected within are found by their digest.
    saved(lake, select(lake, cap=2, name="first"))
    verdicts = agree(lake, second, rows)
    inside = set(first.rows["utt_id"].to_pylist())
    everything = first_of_each(
        [row for row in rows if row["utt_id"] in inside], dict.fromkeys(SIZES, 10**6), 1
    )
    for row, verdict in zip(rows, verdicts, strict=True):
        if row["utt_id"] not in inside:
            assert verdict.reason == "within"
            assert verdict.within.reason in ("beyond_cap", "beyond_ratio")
            assert verdict.within.place >= verdict.within.num_kept
        else:
            assert verdict.place == everything[row["utt_id"]][1]
    lake.drop_selection("first")
    with pytest.raises(NotFoundError, match="no selection 'first'"):
        curation.explain(lake, second, ids(rows))


def test_random_sampling_cuts_all_domains_together(lake, rows) -> None:
    verdicts = agree(lake, select(lake, method="random", budget=50), rows)
    refused = [verdict for verdict in verdicts if not verdict.is_kept]
    assert {(each.reason, each.num_kept, each.num_rows) for each in refused} == {
        ("beyond_budget", 50, len(rows))
    }
    assert sorted(each.place for each in refused) == list(range(50, len(rows)))


def test_orders_by_a_number_have_places_and_orders_of_domains_do_not(lake, rows) -> None:
    options = OrderOptions(quality="quality")
    by_quality = select(lake, cap=5, real_mode="cap", order="quality", order_options=options)
    full = select(lake, cap=1000, real_mode="cap", order="quality", order_options=options)
    ranks = dict(zip(full.rows["utt_id"].to_pylist(), full.rows["rank"].to_pylist(), strict=True))
    for verdict in agree(lake, by_quality, rows):
        assert verdict.place == ranks[verdict.utt_id]
    options = OrderOptions(embedding="vector")
    selection = select(lake, cap=5, real_mode="cap", order="k_center", order_options=options)
    refused = [each for each in agree(lake, selection, rows) if not each.is_kept]
    assert {(each.place, each.num_kept) for each in refused} == {(None, 5)}
    assert all("order k_center" in each.text for each in refused)


def test_weights_are_told(lake, rows) -> None:
    selection = curation.weigh(lake["corpus"], table_name="corpus", cap=10, where="source != 'b'")
    weights = {row["utt_id"]: row["weight"] for row in selection.rows.to_pylist()}
    for verdict in curation.explain(lake, selection, ids(rows)):
        assert verdict.weight == weights.get(verdict.utt_id)
        assert verdict.reason == ("kept" if verdict.utt_id in weights else "where")


def test_rules_are_told_with_value_and_threshold(lake, rows) -> None:
    texts = ["snr_db < 15", "snr_db is missing", "snr_db is an outlier by source at 1"]
    found = find_drops(lake["corpus"], [parse_rule(text) for text in texts], where="source != 'b'")
    parameters = {"rules": texts, "where": "source != 'b'"}
    verdicts = agree(lake, passing(lake, found.kept, "drop", parameters), rows)
    listed = found.rows.to_pylist()
    for verdict in verdicts:
        own = [line for line in listed if line["row_index"] == verdict.row_index]
        if not own:
            assert verdict.reason in ("kept", "where")
            continue
        assert verdict.reason == own[0]["reason"]
        told = [verdict.facts, *verdict.facts.get("also", [])]
        assert [(each["value"], each["threshold"]) for each in told] == [
            (line["value"], line["threshold"]) for line in own
        ]
    assert any("also" in verdict.facts for verdict in verdicts)


@pytest.mark.parametrize("rule", ["cover", "semdedup"])
@pytest.mark.parametrize("best_by", [None, "snr_db"])
def test_near_duplicates_name_the_row_that_stands_for_them(lake, rows, rule, best_by) -> None:
    found = near_duplicates(lake["corpus"], "vector", 0.8, rule=rule, best_by=best_by, seed=2)
    selection = passing(lake, found.kept, "dedup", found.parameters)
    drops = {row["row_index"]: row for row in found.drops.to_pylist()}
    assert len(drops) > 20
    refused = [each for each in agree(lake, selection, rows) if not each.is_kept]
    assert {each.row_index for each in refused} == drops.keys()
    for verdict in refused:
        drop = drops[verdict.row_index]
        assert verdict.reason == drop["reason"] == "near_vector"
        assert verdict.facts.get("kept_by") == drop["kept_by"]
        if drop["kept_by"] is not None:
            assert verdict.facts["similarity"] == pytest.approx(drop["similarity"], abs=1e-6)
            assert drop["kept_by_id"] in verdict.text


def test_equal_rows_name_the_row_that_stands_for_them(lake, rows) -> None:
    found = equal_rows(lake["corpus"], where="duration_s > 1")
    selection = passing(lake, found.kept, "dedup", found.parameters)
    drops = {row["row_index"]: row["kept_by"] for row in found.drops.to_pylist()}
    told = {
        verdict.row_index: verdict.facts["kept_by"]
        for verdict in agree(lake, selection, rows)
        if verdict.reason == "equal_sha256"
    }
    assert told == drops


def test_a_split_names_the_other_part(lake, rows) -> None:
    shares = {"train": 0.7, "test": 0.3}
    made = split_rows(lake["corpus"], by=["speaker_id"], shares=shares)
    for part, kept in made.parts.items():
        parameters = {"split": "halves", "part": part, "by": ["speaker_id"], "shares": shares}
        saved(lake, passing(lake, kept, "split", parameters, f"halves.{part}"))
    verdicts = agree(lake, lake.selection("halves.test"), rows)
    refused = [each for each in verdicts if not each.is_kept]
    assert {each.facts["selection"] for each in refused} == {"halves.train"}


def test_rows_that_are_not_there_and_rows_of_one_id(tmp_path) -> None:
    lake = datalake.open_lake(str(tmp_path / "lake"))
    keys = key_table({"a": 3, "a/x": 3})
    twins = pa.concat_tables([keys, keys.slice(3, 1)])
    lake.create("corpus", keys.schema, lineage=Lineage("create")).append(twins)
    selection = select(lake, cap=1, name="one")
    late = pa.Table.from_pylist([keys.to_pylist()[0] | {"utt_id": "late"}], schema=keys.schema)
    lake["corpus"].append(late)
    one, two, late_one, never = curation.explain(lake, selection, ["a/x-0", "late", "never"])
    assert [one.row_index, two.row_index] == [3, 6]
    # The hash of twins is one: their index decides.
    assert two.place == one.place + 1
    assert (late_one.reason, never.reason) == ("not_in_table", "not_in_table")
    assert "came in later" in late_one.text
    assert "came in later" not in never.text


def test_no_more_is_held_than_a_batch_of_a_table(tmp_path) -> None:
    lake = datalake.open_lake(str(tmp_path / "lake"))
    keys = key_table({"a": 20, "a/x": 120_000, "b": 20, "b/x": 20})
    lake.create("large", keys.schema, lineage=Lineage("create")).append(keys)
    selection = curation.select(lake["large"], table_name="large", cap=20, where="duration_s > 1")
    tracemalloc.start()
    curation.explain(lake, selection, ["a/x-0", "a/x-1", "b/x-2", "none"])
    curation.summarize(lake, selection)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # An id in Python is 50 bytes and more.
    assert peak < 10 * keys.num_rows


def test_the_command(uri, lake, capsys) -> None:
    saved(lake, select(lake, cap=10, where="duration_s > 1", name="ten"))

    def curate(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            console.run(app, "curate", ["explain", *arguments, "--lake", uri])
        return leaving.value.code, *capsys.readouterr()

    facts = json.loads(curate("corpus", "ten", "--json")[1])
    assert [step["reason"] for step in facts["steps"]] == ["where", "beyond_cap", "beyond_ratio"]
    assert facts["steps"][-1]["num_left"] == facts["num_selected"]
    assert {row["domain"] for row in facts["binding"]} >= {"a/x", "b/x"}
    told = json.loads(curate("corpus", "ten", "a/x-1", "a/x-0", "--json")[1])
    assert [each["utt_id"] for each in told] == ["a/x-1", "a/x-0"]
    assert told[1]["text"] == "`duration_s > 1` does not hold: duration_s = 1.0"
    assert told[1]["text"] in curate("corpus", "ten", "a/x-0")[1]
    assert "beyond_cap (cap 10" in curate("corpus", "ten")[1]
    code, out, err = curate("other", "ten")
    assert (code, out) == (2, "")
    assert "ten is not a selection of other. Expected the table corpus" in err
