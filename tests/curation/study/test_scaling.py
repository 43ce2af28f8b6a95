"""Scaling laws: known parameters found again, a slow twin, and designs that say nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.optimize

from curation.study.laws import LAWS, Law, bounds, evaluate, num_parameters, starts
from curation.study.results import results_of
from curation.study.robust_fit import fit_batch, huber
from curation.study.scaling import fit_laws
from curation.study.scaling_points import POINTS, scaling_points
from datalake.errors import InputError, SchemaError
from tests.curation.study.tables import grid, row

TRUTHS: dict[Law, tuple[Callable[[float, float, float], float], dict[str, float]]] = {
    "A": (
        lambda n, s, g: 0.01 + 2 * n**-0.6 + 0.05 * s**-0.8 + 0.08 * g**-0.5,
        {"E0": 0.01, "a": 2, "p": 0.6, "b": 0.05, "q": 0.8, "c": 0.08, "r": 0.5},
    ),
    "B": (
        lambda n, s, g: 0.01 + 1.5 * n**-0.3 * s**-0.4 * g**-0.5,
        {"E0": 0.01, "a": 1.5, "p": 0.3, "q": 0.4, "r": 0.5},
    ),
    "C": (
        lambda n, s, g: 1.5 * n**-0.3 * s**-0.1 * g**-0.2,
        {"a": 1.5, "p": 0.3, "q": 0.1, "r": 0.2},
    ),
}
NS, SS, GS = (500, 2000, 8000), (1, 2, 4), (1, 2, 4, 8)


def points_of(
    eer: Callable[[float, float, float], float],
    *,
    noise: float = 0.0,
    design: Any = None,
    seed: int = 0,
) -> pa.Table:
    cells = list(design or itertools.product(NS, SS, GS))
    errors = np.exp(noise * np.random.default_rng(seed).standard_normal(len(cells)))
    rows = [
        {"num_rows": n, "hours": n / 900, "num_sources": s, "num_generators": g,
         "eer": eer(n, s, g) * error}
        for (n, s, g), error in zip(cells, errors, strict=True)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=POINTS)


@pytest.mark.parametrize("law", LAWS)
def test_a_law_without_noise_is_found_again(law: Law) -> None:
    eer, truth = TRUTHS[law]
    found = fit_laws(points_of(eer), num_resamples=0, num_starts=12)
    # B can be C, with a floor of 0; of equals the one with fewer parameters comes first.
    assert found.best.law == law
    assert found.best.parameters == pytest.approx(truth, rel=1e-3)
    assert found.best.loo_error < 1e-5
    assert not found.best.intervals


def test_under_noise_the_intervals_hold_the_truth() -> None:
    eer, truth = TRUTHS["B"]
    found = fit_laws(points_of(eer, noise=0.03), laws=["B"], num_resamples=100, num_starts=8)
    fit = found.best
    for name, value in truth.items():
        low, high = fit.intervals[name]
        assert low < value < high
        assert low < fit.parameters[name] < high
    assert fit.fit_error == pytest.approx(0.03, rel=0.35)
    assert fit.loo_error > fit.fit_error
    inside = fit.predict(num_rows=1000, num_sources=2, num_generators=3)
    assert inside.eer == pytest.approx(eer(1000, 2, 3), rel=0.05)
    assert inside.low is not None
    assert inside.high is not None
    assert inside.low < inside.eer < inside.high
    assert inside.extrapolates == ()
    outside = fit.predict(num_rows=80_000, num_sources=2, num_generators=0.5)
    assert outside.extrapolates == (
        "num_rows is 10 times the largest seen",
        "num_generators is 0.5 times the smallest seen",
    )
    with pytest.raises(InputError, match="num_sources"):
        fit.predict(num_rows=1000)


def test_leave_one_out_tells_the_sum_from_the_product() -> None:
    for law in ("A", "B"):
        points = points_of(TRUTHS[law][0], noise=0.02)
        found = fit_laws(points, laws=["A", "B"], num_resamples=0, num_starts=12)
        assert [fit.law for fit in found.fits] == [law, *({"A", "B"} - {law})]


def test_leave_one_out_is_that_of_a_slow_twin() -> None:
    points = points_of(TRUTHS["C"][0], noise=0.1, design=itertools.product(NS, (1, 4), (2, 8)))
    found = fit_laws(points, laws=["C"], num_resamples=0, delta=100)
    # With so large a delta the loss is of squares, and without bounds met C is a linear regression.
    columns = [np.log(points[name].to_numpy()) for name in POINTS.names if name != "hours"]
    x = np.stack([np.ones(points.num_rows), *columns[:3]], axis=1)
    y = columns[3]
    squares = []
    for left_out in range(len(y)):
        kept = np.arange(len(y)) != left_out
        coefficients, *_ = np.linalg.lstsq(x[kept], y[kept], rcond=None)
        squares.append((y[left_out] - x[left_out] @ coefficients) ** 2)
    assert found.best.loo_error == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-6)


@pytest.mark.parametrize("law", LAWS)
def test_a_fit_is_as_good_as_that_of_scipy(law: Law) -> None:
    points = points_of(TRUTHS["B"][0], noise=0.15, seed=2)
    logs = np.log(np.stack([points[name].to_numpy() for name in POINTS.names if name != "hours"]))
    logs, y = (logs[:3] - logs[:3].mean(axis=1, keepdims=True)).T, logs[3]
    places = starts(law, y, 3, 8, 0)
    _, loss = fit_batch(
        law, logs, np.tile(y, (8, 1)), np.ones((8, len(y))), places, delta=0.1
    )  # fmt: skip
    low, high = bounds(law, 3)
    twins = [
        scipy.optimize.least_squares(
            lambda theta: (y - evaluate(law, theta[None], logs)[0][0]),
            np.clip(place, low + 1e-6, high - 1e-6), bounds=(low, high), loss="huber", f_scale=0.1,
        ).cost
        for place in places[:4]
    ]  # fmt: skip
    assert loss.min() <= min(twins) * (1 + 1e-6)


@pytest.mark.parametrize("law", LAWS)
def test_derivatives_are_those_of_small_steps(law: Law) -> None:
    rng = np.random.default_rng(0)
    theta = rng.uniform(0.2, 1.5, size=num_parameters(law, 2)) - (law != "C")
    logs = rng.normal(size=(5, 2))
    _, jacobian = evaluate(law, theta[None], logs)
    for index in range(len(theta)):
        step = np.zeros(len(theta))
        step[index] = 1e-6
        up, down = (evaluate(law, (theta + sign * step)[None], logs)[0][0] for sign in (1, -1))
        assert jacobian[0, :, index] == pytest.approx((up - down) / 2e-6, abs=1e-6)


def test_huber_by_hand() -> None:
    assert huber(np.array([0.5, -2.0]), 1.0).tolist() == [0.125, 1.5]


def test_one_wild_point_moves_little() -> None:
    eer, truth = TRUTHS["C"]
    points = points_of(eer, noise=0.02)
    values = points["eer"].to_numpy().copy()
    values[7] *= 5
    wild = points.set_column(points.schema.get_field_index("eer"), "eer", pa.array(values))
    robust = fit_laws(wild, laws=["C"], num_resamples=0).best.parameters
    squares = fit_laws(wild, laws=["C"], num_resamples=0, delta=100).best.parameters
    off = {name: abs(robust[name] - truth[name]) for name in "pqr"}
    assert max(off.values()) < 0.03
    assert max(abs(squares[name] - truth[name]) for name in "pqr") > 2 * max(off.values())


def test_exponents_are_never_below_0_and_say_so() -> None:
    found = fit_laws(
        points_of(lambda n, s, g: 0.3 * n**-0.2 * s**0.3, noise=0.05), laws=["C"], num_resamples=50
    )  # fmt: skip
    assert found.best.parameters["q"] == 0
    assert any(remark.startswith("q: no gain from more sources") for remark in found.best.remarks)


def test_the_order_of_points_decides_nothing() -> None:
    points = points_of(TRUTHS["B"][0], noise=0.1)
    turned = points.take(np.random.default_rng(1).permutation(points.num_rows))
    options: dict[str, Any] = {"laws": ["B"], "num_resamples": 20, "num_starts": 6}
    one, other = (fit_laws(table, **options).best for table in (points, turned))
    assert one.parameters == other.parameters
    assert one.intervals == other.intervals
    assert one.loo_error == other.loo_error


def test_what_does_not_vary_is_left_out_and_named() -> None:
    """The usual design: N fixed, S and G on a grid."""
    points = points_of(
        TRUTHS["A"][0], noise=0.01, design=itertools.product([1000], [1, 2, 4, 8], [1, 2, 4, 8])
    )
    found = fit_laws(points, num_resamples=0, num_starts=8)
    assert found.best.variables == ("num_sources", "num_generators")
    assert found.best.formula == "E = E0 + a S^-p + b G^-q"
    assert "num_rows hardly varies (about 1,000)" in found.remarks[0]


def test_laws_that_a_design_cannot_identify_are_refused() -> None:
    two_levels = itertools.product((100, 1000), (1, 2), (1, 4))
    found = fit_laws(points_of(TRUTHS["C"][0], design=two_levels), num_resamples=0)
    assert [fit.law for fit in found.fits] == ["C"]
    assert "3 levels of num_rows; there are 2" in found.refused["A"]
    assert "3 levels of num_rows; there are 2" in found.refused["B"]


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ([(1000, 2, 3)] * 9, "something varies"),
        ([(100 * k, k, k) for k in (1, 2, 4, 8, 16, 32, 64, 128, 256)], "rise together"),
        ([(100, 1, 1), (1000, 2, 1), (10_000, 4, 3)], "it needs 5 cells"),
    ],
)
def test_designs_that_say_nothing(design: list[tuple[int, int, int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_laws(points_of(TRUTHS["C"][0], design=design), num_resamples=0)


def test_values_without_a_log() -> None:
    points = points_of(TRUTHS["C"][0])
    zero = points.to_pylist()
    zero[3]["eer"] = 0.0
    found = fit_laws(pa.Table.from_pylist(zero), laws=["C"], num_resamples=0)
    assert found.num_points == points.num_rows - 1
    assert "1 of 36 points have an EER of 0" in found.remarks[0]
    zero[3]["num_sources"] = 0.0
    with pytest.raises(InputError, match="num_sources"):
        fit_laws(pa.Table.from_pylist(zero))
    with pytest.raises(SchemaError, match="hours"):
        fit_laws(points.drop_columns(["hours"]), variables=["hours"])


def test_points_are_means_over_the_folds_of_a_seed() -> None:
    table = grid(
        ["m"], ["x", "y"], [0, 1], lambda method, fold, seed: 0.1 + 0.2 * (fold == "y") + seed / 10
    )
    rows = [*table.to_pylist(), row("m", "x", 2, 0.9), row("n", "x", 0, 0.9)]
    rows[0]["num_generators"] = 4
    found = scaling_points(results_of(rows), "logo", methods=["m"])
    assert found.schema == POINTS
    assert found["eer"].to_pylist() == pytest.approx([0.2, 0.3])
    assert found["num_generators"].to_pylist() == [4.5, 5]
    assert found["hours"].to_pylist() == [1.5, 1.5]
    with pytest.raises(InputError, match="nothing to fit"):
        scaling_points(results_of(rows), "logo", methods=["o"])
