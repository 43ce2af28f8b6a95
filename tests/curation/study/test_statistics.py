"""Means, comparisons and matrices of tables made by hand."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from curation.study.arms import arm_names, read_arms
from curation.study.comparisons import COMPARISONS, compare
from curation.study.cross_source import cross_matrix
from curation.study.results import CELL, MIXTURES, RESULTS, check_results, results_of
from curation.study.statistics import MEANS, mean_eers
from datalake.errors import InputError, NotFoundError, SchemaError
from tests.curation.study.tables import grid, row

FOLDS = [f"g{index}" for index in range(6)]


def level_of(fold: str) -> float:
    return 0.05 + 0.02 * FOLDS.index(fold)


def three_methods() -> pa.Table:
    """`doss` gains .01 in every fold, `other` nothing on average."""
    gain = {"random": 0.0, "doss": -0.01, "other": 0.003}

    def eer(method: str, fold: str, seed: int) -> float:
        sign = -1 if method == "other" and FOLDS.index(fold) % 2 else 1
        return level_of(fold) + sign * gain[method] + 0.001 * (seed - 1)

    return grid(gain, FOLDS, range(3), eer)


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(np.random.default_rng(0).permutation(table.num_rows))


def test_a_mean_is_over_folds_of_means_over_seeds() -> None:
    # Fold a has three seeds and fold b one: each counts the same.
    rows = [row("m", "a", seed, eer) for seed, eer in enumerate([0.1, 0.2, 0.3])]
    found = mean_eers(results_of([*rows, row("m", "b", 0, 0.4)]), "logo")
    only = found.table.to_pylist()[0]
    assert found.table.schema == MEANS
    assert only["eer"] == pytest.approx((0.2 + 0.4) / 2)
    assert (only["num_folds"], only["num_seeds"]) == (2, 1)
    assert (only["worst_fold"], only["worst_eer"]) == ("b", 0.4)
    # t(.975, 1) = 12.706; the standard error of .2 and .4 is .1. Cut to a fraction.
    assert (only["eer_low"], only["eer_high"]) == (0, 1)
    assert only["fold_sd"] == pytest.approx(math.sqrt(0.02))
    assert found.remarks == ("m at 1,000 rows has 1 of 3 seeds in some fold.",)


def test_the_interval_is_over_folds_and_the_noise_of_seeds_stands_apart() -> None:
    doss = mean_eers(three_methods(), "logo").table.to_pylist()[0]
    assert doss["arm"] == "doss"
    assert doss["eer"] == pytest.approx(0.09)
    assert doss["seed_sd"] == pytest.approx(0.001)
    # Six folds .02 apart: sd .0374, t(.975, 5) = 2.5706.
    half = 2.570582 * 0.02 * math.sqrt(3.5) / math.sqrt(6)
    assert doss["eer_high"] - doss["eer"] == pytest.approx(half, rel=1e-6)
    assert doss["eer_low"] < doss["bootstrap_low"] < doss["bootstrap_high"] < doss["eer_high"]


def test_nothing_hangs_on_the_order_of_rows() -> None:
    table = three_methods()
    assert mean_eers(shuffled(table), "logo") == mean_eers(table, "logo")
    assert compare(shuffled(table), "logo", ["random"]) == compare(table, "logo", ["random"])


def test_a_gain_in_every_fold_is_found_and_one_of_noise_is_not() -> None:
    found = compare(three_methods(), "logo", ["random"])
    assert found.table.schema == COMPARISONS
    doss, other = found.table.to_pylist()
    assert (doss["arm"], doss["baseline"], doss["num_units"], doss["num_better"]) == (
        "doss", "random", 6, 6,
    )  # fmt: skip
    assert doss["difference"] == pytest.approx(-0.01)
    assert doss["relative"] == pytest.approx(-0.1)
    assert doss["p_value"] == doss["smallest_p"] == 2 / 64
    assert doss["p_holm"] == 4 / 64
    assert doss["difference_high"] < 0
    assert other["p_value"] == 1
    assert other["difference_low"] < 0 < other["difference_high"]
    # Two comparisons of six folds: no p can stay below .05 after the correction.
    assert len(found.remarks) == 1
    assert "0.0625" in found.remarks[0]
    assert "7 suffice" in found.remarks[0]


def test_fewer_questions_need_fewer_folds() -> None:
    found = compare(three_methods(), "logo", ["random"], methods=["doss"])
    assert found.table["arm"].to_pylist() == ["doss"]
    assert found.table["p_holm"].to_pylist() == [2 / 64]
    assert found.remarks == ()
    with pytest.raises(NotFoundError, match="Did you mean doss"):
        compare(three_methods(), "logo", ["random"], methods=["dos"])


def test_five_seeds_of_one_fold_say_that_they_cannot_reach_five_per_cent() -> None:
    table = grid(
        ["a", "b"], ["g"], range(5), lambda method, fold, seed: 0.1 + 0.1 * (method == "b")
    )
    over_seeds = compare(table, "logo", ["b"], over="seed")
    only = over_seeds.table.to_pylist()[0]
    assert (only["num_units"], only["p_value"]) == (5, 0.0625)
    assert "With 5 seeds the smallest p" in over_seeds.remarks[0]
    assert "6 are the fewest" in over_seeds.remarks[0]
    # One fold says nothing of others: no interval, and p is 1.
    over_folds = compare(table, "logo", ["b"]).table.to_pylist()[0]
    assert (over_folds["p_value"], over_folds["difference_low"]) == (1, None)


def test_pairs_are_of_the_same_fold_and_seed() -> None:
    """The baseline lacks the hard fold, and one seed: a mean of all it has would look better."""
    rows = [row("a", fold, seed, eer) for fold, eer in (("x", 0.1), ("y", 0.9)) for seed in (0, 1)]
    rows += [row("b", "x", 1, 0.2)]
    found = compare(results_of(rows), "logo", ["b"])
    only = found.table.to_pylist()[0]
    assert (only["num_folds"], only["num_seeds"]) == (1, 1)
    assert only["difference"] == pytest.approx(-0.1)
    assert any("lacks 1 of 2 folds (y)" in remark for remark in found.remarks)


def test_a_baseline_without_a_budget_is_compared_at_every_budget() -> None:
    rows = [
        row(method, fold, 0, 0.1, budget_rows=budget)
        for method, budget in (("doss", 100), ("doss", 200), ("random", 100), ("naive", None))
        for fold in "xy"
    ]
    found = compare(results_of(rows), "logo", ["naive", "random"])
    pairs = [(r["arm"], r["baseline"], r["budget_rows"]) for r in found.table.to_pylist()]
    assert pairs == [("doss", "naive", 100), ("doss", "naive", 200), ("doss", "random", 100)]
    # Equal is not better.
    assert found.table["num_better"].to_pylist() == [0, 0, 0]
    assert "random was not run at 200 rows: not compared with doss." in found.remarks


def test_arms_are_named_by_what_tells_them_apart() -> None:
    table = results_of(
        row("doss", "x", 0, 0.1, options={"cap": cap, "ratio": 1}) for cap in (50, 100)
    )
    assert sorted(arm_names(table).values()) == ["doss (cap=100)", "doss (cap=50)"]
    with pytest.raises(InputError, match="several arms"):
        compare(table, "logo", ["doss"])
    found = compare(table, "logo", ["doss (cap=50)"]).table.to_pylist()
    assert [r["arm"] for r in found] == ["doss (cap=100)"]
    with pytest.raises(NotFoundError, match="Did you mean"):
        compare(table, "logo", ["dos (cap=50)"])


def test_macro_is_the_mean_over_spoof_domains() -> None:
    rows = [
        row("m", "x", 0, eer, scope="domain", test_domain=domain)
        for domain, eer in (("s/g", 0.1), ("t/g", 0.4))
    ]
    table = results_of([*rows, row("m", "x", 0, 0.9)])
    assert mean_eers(table, "logo", measure="macro").table["eer"].to_pylist() == [0.25]
    assert mean_eers(table, "logo").table["eer"].to_pylist() == [0.9]


def test_the_cross_source_matrix_by_hand() -> None:
    cross = {"protocol": "cross", "scope": "source"}
    rows = [
        row("m", trained, seed, eer + 0.02 * seed, **cross, test_domain=test)
        for (trained, test), eer in {
            ("a", "a"): 0.01, ("a", "b"): 0.2, ("b", "a"): 0.3, ("a", "z"): 0.4,
        }.items()
        for seed in (0, 1)
    ]  # fmt: skip
    found = cross_matrix(results_of(rows), "m", budget_rows=1000)
    assert (found.trained_on, found.tested_on) == (("a", "b"), ("a", "b", "z"))
    assert found.eers == pytest.approx(
        np.array([[0.02, 0.21, 0.41], [0.31, np.nan, np.nan]]), nan_ok=True
    )
    assert found.num_seeds.tolist() == [[2, 2, 2], [2, 0, 0]]
    assert found.seed_sds[0, 0] == pytest.approx(0.01 * math.sqrt(2))
    assert found.off_diagonal == pytest.approx((0.21 + 0.41 + 0.31) / 3)
    # The EER of a fold is that of the sources it did not train on.
    arm = read_arms(results_of(rows), "cross")[0]
    assert arm.fold_means == pytest.approx({"a": (0.21 + 0.41) / 2, "b": 0.31})
    with pytest.raises(NotFoundError):
        cross_matrix(results_of(rows), "m", budget_rows=7)


def test_a_protocol_that_is_not_there() -> None:
    with pytest.raises(NotFoundError, match="protocols logo"):
        mean_eers(three_methods(), "loso")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eer": 1.2}, "fraction"),
        ({"eer": float("nan")}, "fraction"),
        ({"protocol": "lofo"}, "protocol"),
        ({"scope": "all"}, "scope"),
        ({"n_eff": None}, "n_eff"),
        ({"num_spoof": "many"}, "columns"),
    ],
)
def test_results_that_mislead_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        results_of([{**row("m", "x", 0, 0.1), **change}])


def test_a_cell_has_one_result() -> None:
    with pytest.raises(InputError, match="more than one result"):
        results_of([row("m", "x", 0, 0.1), row("m", "x", 0, 0.2)])
    table = three_methods()
    assert check_results(table.select(table.column_names[::-1])).schema == RESULTS
    with pytest.raises(SchemaError, match="n_eff"):
        check_results(table.drop_columns(["n_eff"]))
    assert set(CELL.names) < set(MIXTURES.names)
