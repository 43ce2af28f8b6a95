"""Domains at rates: exact or by chance, each example as often as the rule says."""

from __future__ import annotations

import json
import pickle
from math import sqrt
from typing import Any

import numpy as np
import pytest

from datalake.errors import InputError
from datalake.loader.sampling import Realised, Weighted
from tests.loader.sampling.fakes import Counted, selection, stream

GOLDEN = [6, 5, 16, 2, 29, 13, 18, 8]


def thirds(num_rows: int = 90, **arguments: Any) -> Weighted:
    """Domains a, b, c in turn, with rows of weight 1, 2 and 3."""
    rows = list(range(num_rows))
    chosen = selection(rows, ["abc"[row % 3] for row in rows], [1.0 + row % 3 for row in rows])
    return Weighted(Counted(num_rows), chosen, **arguments)


def test_proportions_are_exact_everywhere() -> None:
    sampler = thirds().sampler(seed=4)
    domains = stream(sampler, 50)[1] % 3
    counts = np.cumsum(domains[:, np.newaxis] == np.arange(3), axis=0)
    shares = np.arange(1, len(domains) + 1)[:, np.newaxis] * np.array([1, 2, 3]) / 6
    assert np.abs(counts - shares).max() < 1 + 3 / 2
    # As many in a batch as the rates say, within one or two.
    per_batch = np.diff(counts[5::60], axis=0)
    assert np.abs(per_batch - [10, 20, 30]).max() <= 2


def test_each_domain_goes_through_its_rows_before_any_comes_again() -> None:
    sampler = thirds().sampler(seed=4)
    _, rows, visits = stream(sampler, 20)
    for domain in range(3):
        own = np.flatnonzero(rows % 3 == domain)
        rounds = rows[own][: len(own) // 30 * 30].reshape(-1, 30)
        for number, once in enumerate(rounds):
            assert sorted(once.tolist()) == list(range(domain, 90, 3))
            assert set(visits[own[number * 30 : (number + 1) * 30]].tolist()) == {number}
        assert not np.array_equal(rounds[0], rounds[1])


def test_rates_by_name() -> None:
    sampler = thirds(rates={"a": 3, "c": 1, "b": 0}, examples_per_epoch=400).sampler()
    assert sampler.num_examples == 400
    rows = stream(sampler, 1)[1]
    assert sampler.shares() == {"a": 0.75, "c": 0.25}
    assert abs((rows % 3 == 0).sum() - 300) <= 2
    assert not (rows % 3 == 1).any()


def test_any_pieces_give_the_same() -> None:
    for draw in ("even", "iid"):
        sampler = thirds(draw=draw).sampler(seed=2)
        whole = sampler.picks(7, np.arange(90))
        positions = np.array([89, 3, 3, 60, 0])
        some = thirds(draw=draw).sampler(seed=2).picks(7, positions)
        assert some.rows.tolist() == whole.rows[positions].tolist()
        assert some.visits.tolist() == whole.visits[positions].tolist()


@pytest.mark.parametrize("draw", ["even", "iid"])
def test_with_replacement_rows_come_by_their_weights(draw: str) -> None:
    rows = list(range(12))
    weights = [float(1 + row) for row in rows]
    chosen = selection(rows, ["ab"[row % 2] for row in rows], weights)
    spec = Weighted(
        Counted(12),
        chosen,
        rates={"a": 1, "b": 3},
        draw=draw,  # type: ignore[arg-type]
        replace=True,
        examples_per_epoch=40_000,
    )
    found = stream(spec.sampler(seed=1), 1)[1]
    counts = np.bincount(found, minlength=12)
    share = np.array(weights)
    share[::2] *= 0.25 / share[::2].sum()
    share[1::2] *= 0.75 / share[1::2].sum()
    chi = float(((counts - 40_000 * share) ** 2 / (40_000 * share)).sum())
    freedom = 10 if draw == "even" else 11
    assert abs(chi - freedom) < 4 * sqrt(2 * freedom)
    if draw == "even":
        assert abs(counts[::2].sum() - 10_000) <= 2


def test_independent_draws_are_independent() -> None:
    sampler = thirds(draw="iid", examples_per_epoch=30_000).sampler(seed=1)
    domains = stream(sampler, 1)[1] % 3
    pairs = np.bincount(domains[:-1:2] * 3 + domains[1::2], minlength=9)
    rates = np.array([1, 2, 3]) / 6
    expected = 15_000 * np.outer(rates, rates).ravel()
    chi = float(((pairs - expected) ** 2 / expected).sum())
    assert abs(chi - 8) < 4 * sqrt(16)


def test_repeats_have_words_of_their_own() -> None:
    _, rows, visits = stream(thirds(num_rows=6, draw="iid").sampler(), 30)
    assert len(set(zip(rows.tolist(), visits.tolist(), strict=True))) == len(rows)


def test_thousands_of_domains() -> None:
    num_domains = 2000
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(num_domains), rng.integers(1, 9, num_domains))
    rows = np.arange(len(domains))
    weights = rng.gamma(0.5, size=num_domains)[domains] + 1e-3
    chosen = selection(rows.tolist(), [f"d{d:04}" for d in domains], weights.tolist())
    sampler = Weighted(Counted(len(rows)), chosen, examples_per_epoch=20_000).sampler(seed=3)
    drawn = stream(sampler, 1)[1]
    counts = np.bincount(domains[drawn], minlength=num_domains)
    rates = np.bincount(domains, weights) / weights.sum()
    assert np.abs(counts - 20_000 * rates).max() < 3
    later = sampler.picks(10**6, np.arange(100))
    assert np.array_equal(sampler.picks(10**6, np.array([99])).rows, later.rows[99:])
    assert len(json.dumps(sampler.identity())) < 500


def test_is_pinned() -> None:
    """Saved states name `even/1`: these values never change under that name."""
    assert thirds(30).sampler(seed=7).picks(3, np.arange(8)).rows.tolist() == GOLDEN


def test_identity_tells_apart_and_a_copy_is_the_same() -> None:
    specs = [
        thirds(),
        thirds(draw="iid"),
        thirds(replace=True),
        thirds(rates={"a": 1}),
        thirds(rates={"b": 1}),
        thirds(examples_per_epoch=7),
    ]
    samplers = [spec.sampler() for spec in specs] + [thirds().sampler(seed=1)]
    assert len({json.dumps(sampler.identity()) for sampler in samplers}) == len(samplers)
    for sampler in samplers:
        assert np.array_equal(stream(pickle.loads(pickle.dumps(sampler)), 2), stream(sampler, 2))
    assert samplers[0].resumed(0, 5, samplers[0].progress(0, 5)) is samplers[0]


def test_the_realised_mix() -> None:
    sampler = thirds().sampler()
    realised = Realised(sampler)
    assert realised.shares()["a"].num_examples == 0
    for begin in range(0, 90, 30):
        realised.observe(sampler.picks(0, np.arange(begin, begin + 30)))
    shares = realised.shares()
    assert sum(share.num_examples for share in shares.values()) == 90
    assert shares["c"].asked == 0.5
    assert abs(shares["c"].num_examples - 45) <= 1
    assert shares["c"].realised == shares["c"].num_examples / 90


def test_rows_without_weight_stay_out() -> None:
    chosen = selection([0, 1, 2, 3], ["a", "a", "b", "c"], [1.0, 0.0, 2.0, 0.0])
    sampler = Weighted(Counted(4), chosen).sampler()
    assert sampler.shares() == {"a": 1 / 3, "b": 2 / 3}
    assert set(stream(sampler, 5)[1].tolist()) == {0, 2}


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InputError, match="Did you mean even"):
        thirds(draw="evn")
    with pytest.raises(InputError, match="without replacement"):
        thirds(draw="iid", replace=False)
    with pytest.raises(InputError, match="length of an epoch"):
        thirds(examples_per_epoch=0)
    with pytest.raises(InputError, match="names no domain"):
        thirds(rates={"x": 1}).sampler()
    with pytest.raises(InputError, match="out of range"):
        thirds(rates={"a": -1}).sampler()
    with pytest.raises(InputError, match="nothing to stream"):
        thirds(rates={"a": 0}).sampler()
    with pytest.raises(InputError, match="order 'blocks'"):
        thirds().sampler(order="blocks")
    with pytest.raises(InputError, match="weight that is out of range"):
        Weighted(Counted(4), selection([0], ["a"], [-1.0])).sampler()
    chosen = selection([0, 1], ["a", "b"], [1.0, 0.0])
    with pytest.raises(InputError, match="no row with a weight"):
        Weighted(Counted(4), chosen, rates={"a": 1, "b": 1}).sampler()
