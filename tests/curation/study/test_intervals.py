"""Intervals and sign flips against scipy, tables of the books, and slow obvious twins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from curation.study.intervals import bca_interval, t_interval, t_quantile
from curation.study.sign_flips import (
    MAX_EXACT_UNITS,
    holm,
    sign_flip_test,
    smallest_p_value,
)
from datalake.errors import InputError

NUMBERS = st.floats(-1, 1).map(lambda value: round(value, 6))


@pytest.mark.parametrize("num_freedoms", [1, 2, 3, 4, 5, 9, 30, 301])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.975, 0.9995])
def test_quantiles_of_student_are_those_of_scipy(num_freedoms: int, share: float) -> None:
    assert t_quantile(share, num_freedoms) == pytest.approx(
        scipy.stats.t.ppf(share, num_freedoms), rel=1e-11, abs=1e-11
    )


def test_the_quantile_that_every_textbook_prints() -> None:
    assert round(t_quantile(0.975, 4), 3) == 2.776


@pytest.mark.parametrize(("share", "num_freedoms"), [(0.4, 3), (1.0, 3), (0.9, 0)])
def test_no_quantile_outside_of_its_range(share: float, num_freedoms: int) -> None:
    with pytest.raises(InputError):
        t_quantile(share, num_freedoms)


def test_the_t_interval_is_scipys() -> None:
    values = [0.02, 0.031, 0.08, 0.044]
    twin = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert t_interval(values, level=0.9) == pytest.approx((twin.low, twin.high), rel=1e-12)


def test_one_value_has_no_interval() -> None:
    assert t_interval([0.1]) is None
    assert bca_interval([0.1]) is None


def test_equal_values_have_an_interval_without_width() -> None:
    assert bca_interval([0.25] * 4) == t_interval([0.25] * 4) == (0.25, 0.25)


def test_bca_is_near_that_of_scipy_on_skewed_values() -> None:
    values = np.random.default_rng(3).exponential(0.05, size=12)
    twin = scipy.stats.bootstrap(
        (values,), np.mean, method="BCa", n_resamples=20_000, rng=np.random.default_rng(5)
    ).confidence_interval
    found = bca_interval(values, num_resamples=20_000)
    assert found == pytest.approx((twin.low, twin.high), rel=0.02)
    # It leans to the long tail, as the t interval cannot.
    assert found is not None
    assert found[1] - values.mean() > 1.15 * (values.mean() - found[0])


def test_bca_without_skew_is_the_percentile_interval_of_all_draws() -> None:
    values = [0.1, 0.2, 0.3, 0.4]
    every = sorted(sum(draw) / 4 for draw in itertools.product(values, repeat=4))
    found = bca_interval(values, level=0.9, num_resamples=50_000)
    assert found == pytest.approx(np.quantile(every, [0.05, 0.95]), abs=0.0126)


def test_bootstraps_do_not_hang_on_order() -> None:
    values = [0.3, 0.1, 0.25, 0.2, 0.9]
    assert bca_interval(values, seed=4) == bca_interval(values[::-1], seed=4)
    assert bca_interval(values, seed=4) != bca_interval(values, seed=5)


@given(st.lists(NUMBERS, min_size=1, max_size=8))
def test_sign_flips_are_those_of_a_slow_twin(differences: list[float]) -> None:
    seen = abs(sum(differences))
    patterns = list(itertools.product((-1, 1), repeat=len(differences)))
    far = sum(
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        >= seen - 1e-9
        for signs in patterns
    )
    found = sign_flip_test(differences)
    assert found.p_value == far / len(patterns)
    assert found.num_patterns == len(patterns)
    assert found.exact


def test_sign_flips_are_the_permutation_test_of_scipy() -> None:
    differences = np.random.default_rng(0).normal(0.4, 1, size=11)
    twin = scipy.stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip_test(differences).p_value == pytest.approx(twin.pvalue, abs=1e-12)


def test_darwins_maize() -> None:
    """Fisher's own example (The Design of Experiments, 21): of 2^15 patterns 863 reach 314 on a
    side, so two-sided p = 1726 / 32768."""
    eighths = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sum(eighths) == 314
    assert sign_flip_test(eighths).p_value == 1726 / 32768


def test_many_units_are_drawn_and_never_give_zero() -> None:
    num_units = MAX_EXACT_UNITS + 2
    found = sign_flip_test(np.ones(num_units), num_draws=5_000)
    assert not found.exact
    assert found.p_value == found.smallest == 1 / 5_001
    even = sign_flip_test([1.0, -1.0] * (num_units // 2), num_draws=5_000)
    assert even.p_value == 1


def test_drawn_patterns_agree_with_all_of_them() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, size=MAX_EXACT_UNITS + 2)
    twin = scipy.stats.ttest_1samp(values, 0).pvalue
    assert sign_flip_test(values).p_value == pytest.approx(twin, abs=0.03)


def test_five_seeds_alone_do_not_reach_five_per_cent() -> None:
    found = sign_flip_test([-0.1, -0.2, -0.3, -0.4, -0.5])
    assert found.p_value == found.smallest == smallest_p_value(5) == 0.0625
    assert smallest_p_value(6) < 0.05
    assert smallest_p_value(1) == 1


def test_holm_by_hand() -> None:
    # Holm's steps: .01 * 4, .02 * 3, max(.06, .03 * 2), max(.06, .5 * 1).
    assert holm([0.5, 0.01, 0.03, 0.02]) == pytest.approx([0.5, 0.04, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.8, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize("differences", [[], [0.1, float("nan")]])
def test_a_test_needs_numbers(differences: list[float]) -> None:
    with pytest.raises(InputError):
        sign_flip_test(differences)
