"""Budgets: never exceeded, spent as far as whole steps of the knob allow."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import curation
from curation.domains import Domain
from curation.manifest import totals
from curation.selection import DOSS, RANDOM, Budget, Options
from curation.selection.amounts import Amount
from curation.selection.budgets import spend
from datalake.lake import Lake, Selection, open_lake
from tests.curation.select.corpora import key_table, stored
from tests.robots import write_robots

SIZES = {"a": 40, "a/x": 90, "a/y": 7, "b": 30, "b/x": 60, "r": 50, "s/z": 45}
SIZED = key_table(SIZES).append_column(
    "num_bytes", pa.array([100 + 7 * (n % 13) for n in range(sum(SIZES.values()))], pa.int64())
)
DOMAINS = [Domain("spoof", "s", name) for name in "abc"] + [Domain("bonafide", "s")]


def select(**options: object) -> Selection:
    return curation.select(stored(SIZED), table_name="corpus", **options)  # type: ignore[arg-type]


def bytes_of(selection: Selection) -> int:
    sizes = SIZED["num_bytes"].to_pylist()
    return sum(sizes[row] for row in selection.rows["row_index"].to_pylist())


@given(
    st.lists(st.integers(1, 40), min_size=4, max_size=4),
    st.integers(1, 120),
    st.sampled_from([DOSS, RANDOM]),
)
def test_the_knob_is_the_largest_that_fits(sizes, budget, selector) -> None:
    available = {d: Amount(n, n, 0) for d, n in zip(DOMAINS, sizes, strict=True)}
    counts = dict(zip(DOMAINS, sizes, strict=True))

    def kept(value: int) -> int:
        turned = Options(**{selector.knob: value})
        return sum(
            min(p.keep, sum(map(counts.get, p.domains))) for p in selector.pools(counts, turned)
        )

    fitting = [value for value in range(1, sum(sizes) + 1) if kept(value) <= budget]
    if not fitting:
        return
    found = spend(Budget(budget), selector, Options(), available)
    assert kept(getattr(found, selector.knob)) == kept(max(fitting))


@pytest.mark.parametrize(("unit", "budget"), [("rows", 99), ("hours", 0.05), ("bytes", 20_000)])
@pytest.mark.parametrize("method", ["doss", "random"])
def test_a_budget_is_kept_and_spent(unit: str, budget: float, method: str) -> None:
    selection = select(method=method, budget=budget, unit=unit)
    everything = totals(selection.manifest)["all"]
    spent = {
        "rows": everything.num_kept,
        "hours": everything.hours_kept,
        "bytes": bytes_of(selection),
    }[unit]
    assert spent is not None
    # Seven domains: one step of the cap is at most so many rows.
    assert 0.85 * budget < spent <= budget
    assert (selection.parameters["budget"], selection.parameters["unit"]) == (budget, unit)
    knob = "cap" if method == "doss" else "num_rows"
    given_ = {"method": method, "cap": selection.parameters["cap"]} if method == "doss" else None
    assert selection.parameters[knob] >= 1
    if given_:
        assert select(**given_).digest == selection.digest


@settings(max_examples=10, deadline=None)
@given(st.integers(20, 300), st.integers(0, 40))
def test_budgets_nest(budget: int, more: int) -> None:
    smaller, larger = (
        set(select(budget=amount).rows["utt_id"].to_pylist()) for amount in (budget, budget + more)
    )
    assert smaller <= larger


def test_episodes_are_capped_by_source_embodiment_and_task(tmp_path) -> None:
    lake: Lake = open_lake(tmp_path / "lake")
    write_robots(lake, lengths=[5 + n % 7 for n in range(12)], video=False)
    episodes = lake["g1.episodes"]
    selection = curation.select(episodes, table_name="g1.episodes", cap=2)
    names = episodes.scan(["episode_id", "domain"]).read_all().to_pylist()
    domain_of = {row["episode_id"]: row["domain"] for row in names}
    kept = selection.rows.to_pylist()
    assert all(domain_of[row["utt_id"]] == row["domain"] for row in kept)
    by_domain = [row["domain"] for row in kept]
    wanted = {name: min(2, size) for name, size in Counter(domain_of.values()).items()}
    assert {name: by_domain.count(name) for name in wanted} == wanted
    assert set(totals(selection.manifest)) == {"all"}
    weights = curation.weigh(episodes, table_name="g1.episodes", alpha=0.0)
    masses = weights.manifest["mass"].to_pylist()
    assert masses == pytest.approx([1 / len(masses)] * len(masses))
    assert len(weights) == episodes.count_rows()
