"""The shortcut audit against features whose error rate is known."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curation.audit.shortcuts import FeatureResult, ShortcutAudit, audit_shortcuts
from curation.audit.weighted_roc import binned_eer
from curation.metrics import eer
from datalake import tables
from datalake.errors import InputError, SchemaError
from datalake.lake import Selection
from datalake.lake.selection import SELECTION_ROWS
from datalake.tables import Table

_numbers = count()


def table_of(columns: Mapping[str, object], *, blocks: int = 1) -> Table:
    rows = pa.table(dict(columns))
    table = tables.create_table(f"memory://audit/{next(_numbers)}", rows.schema, format="memory")
    size = -(-rows.num_rows // blocks)
    for start in range(0, rows.num_rows, size):
        table = table.append(rows.slice(start, size))
    return table


def keys(num_rows: int, source: str = "s", generators: int = 2) -> dict[str, list[str]]:
    """Every other row is a spoof, by one generator after the other."""
    labels = ["spoof" if row % 2 else "bonafide" for row in range(num_rows)]
    return {
        "utt_id": [f"{source}/{row}" for row in range(num_rows)],
        "source": [source] * num_rows,
        "label": labels,
        "domain": [
            f"{source}/g{row // 2 % generators}" if label == "spoof" else source
            for row, label in enumerate(labels)
        ],
    }


def is_spoof(num_rows: int) -> np.ndarray:
    return np.arange(num_rows) % 2 == 1


def pooled(audit: ShortcutAudit, feature: str) -> FeatureResult:
    return next(r for r in audit.results if (r.scope, r.feature) == ("pooled", feature))


def selection_of(ids: list[str], weights: list[float] | None = None) -> Selection:
    rows = pa.table(
        {
            "row_index": range(len(ids)),
            "utt_id": ids,
            "domain": ["d"] * len(ids),
            "rank": range(len(ids)),
            "weight": weights or [1.0] * len(ids),
        }
    ).cast(SELECTION_ROWS)
    return Selection("mine", "t", 1, rows, pa.table({}), "test", {})


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=40))
def test_binned_eer_breaks_ties_evenly(trials: list[tuple[bool, int]]) -> None:
    """As the mean over many random orders of the tied, by the official rule; near enough."""
    scores = np.array([score for _, score in trials], float)
    bonafide = np.array([label for label, _ in trials])
    if bonafide.all() or not bonafide.any():
        return
    cells = np.arange(7)
    mass = [np.bincount(scores[side].astype(int), minlength=7) for side in (bonafide, ~bonafide)]
    found = float(binned_eer(cells, *mass))
    # The ROC's straight lines, walked in small steps.
    grid = np.linspace(0, 7, 200_001)
    miss, rejected = (np.interp(grid, range(8), [0, *np.cumsum(m)]) / m.sum() for m in mass)
    best = np.abs(miss - (1 - rejected)).argmin()
    assert found == pytest.approx((miss[best] + 1 - rejected[best]) / 2, abs=1e-3)


def test_binned_eer_without_ties_is_near_the_official_one() -> None:
    rng = np.random.default_rng(0)
    bonafide, spoof = rng.normal(1, 1, 800), rng.normal(0, 1, 900)
    scores = np.concatenate([bonafide, spoof])
    found = binned_eer(scores, np.arange(1700) < 800, np.arange(1700) >= 800)
    assert float(found) == pytest.approx(eer(bonafide, spoof), abs=1 / 800)


def test_binned_eer_by_hand() -> None:
    # Two values of a score: 3 of 4 bona fide high, 1 of 4 spoofs high.
    assert float(binned_eer([0, 1], [1, 3], [3, 1])) == 0.25
    assert float(binned_eer([5], [4], [4])) == 0.5
    assert float(binned_eer([0, 1], [0, 4], [4, 0])) == 0
    assert float(binned_eer([0, 1], [4, 0], [0, 4])) == 1


def test_known_features_reach_what_they_must() -> None:
    n, rng = 4000, np.random.default_rng(1)
    spoof = is_spoof(n)
    audit = audit_shortcuts(
        table_of(
            {
                **keys(n),
                # Two normal distributions 2 sd apart cross at Phi(-1).
                "shifted": rng.normal(0, 1, n) + 2 * spoof,
                # The same means: only a rule that is not monotone sees it.
                "wide": rng.normal(0, 1, n) * np.where(spoof, 6, 1),
                "noise": rng.normal(0, 1, n),
                "constant": np.ones(n, np.int32),
                # Nine spoofs of ten and one bona fide row of ten.
                "codec": np.where(rng.random(n) < np.where(spoof, 0.9, 0.1), "mp3", "flac"),
                "missing": pa.array(rng.normal(0, 1, n), mask=spoof & (rng.random(n) < 0.8)),
            }
        ),
        features=["shifted", "wide", "noise", "constant", "codec", "missing"],
    )
    assert pooled(audit, "shifted").eer == pytest.approx(NormalDist().cdf(-1), abs=0.025)
    # |x| of sd 1 and 6: the densities cross where both tails are equal.
    assert pooled(audit, "wide").eer == pytest.approx(0.19, abs=0.03)
    assert pooled(audit, "noise").eer == pytest.approx(0.5, abs=0.03)
    assert pooled(audit, "constant").eer == 0.5
    assert pooled(audit, "codec").eer == pytest.approx(0.1, abs=0.02)
    # A row without the value is a spoof: 1 / (1 + 1 + .8).
    assert pooled(audit, "missing").eer == pytest.approx(1 / 1.8 / 2 * 0.36, abs=0.1)
    assert [r.feature for r in audit.warnings if r.scope == "pooled"][:1] == ["codec"]
    for result in audit.results:
        assert result.eer_low <= result.eer <= result.eer_high
    assert (pooled(audit, "codec").bonafide_typical, pooled(audit, "codec").spoof_typical) == (
        "flac", "mp3",
    )  # fmt: skip


@pytest.mark.parametrize("num_rows", [40, 200])
def test_noise_on_few_rows_is_about_one_half(num_rows: int) -> None:
    found = [
        pooled(
            audit_shortcuts(
                table_of(
                    {**keys(num_rows), "x": np.random.default_rng(seed).normal(0, 1, num_rows)}
                ),
                features=["x"],
                num_resamples=10,
            ),
            "x",
        ).eer
        for seed in range(20)
    ]
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)


def test_the_domain_at_fault_is_named() -> None:
    n, rng = 3000, np.random.default_rng(2)
    table = keys(n, generators=5)
    guilty = np.array([domain == "s/g3" for domain in table["domain"]])
    value = rng.normal(0, 1, n) + 8 * guilty
    rows = {**table, "x": value}
    # Most spoofs are of the guilty generator.
    picked = [row for row in range(n) if not is_spoof(n)[row] or guilty[row] or row % 40 == 1]
    audit = audit_shortcuts(
        table_of({name: pa.array(column).take(pa.array(picked)) for name, column in rows.items()}),
        features=["x"],
    )
    result = pooled(audit, "x")
    assert result.warns
    assert result.domains[0].domain == "s/g3"
    assert result.domains[0].eer < 0.05
    assert result.domains[0].eer_without == pytest.approx(0.5, abs=0.1)


def test_sources_are_judged_for_themselves() -> None:
    n = 400
    rng = np.random.default_rng(3)
    clean, leaky, single = keys(n, "clean"), keys(n, "leaky"), keys(20, "single")
    single["label"], single["domain"] = ["bonafide"] * 20, ["single"] * 20
    columns = {name: [*clean[name], *leaky[name], *single[name]] for name in clean}
    columns["x"] = np.concatenate(
        [rng.normal(0, 1, n), rng.normal(0, 1, n) + 5 * is_spoof(n), np.zeros(20)]
    )
    audit = audit_shortcuts(table_of(columns), features=["x"])
    by_scope = {result.scope: result for result in audit.results}
    assert list(by_scope) == ["pooled", "clean", "leaky"]
    assert not by_scope["clean"].warns
    assert by_scope["leaky"].eer < 0.05
    assert by_scope["clean"].eer == pytest.approx(0.5, abs=0.08)


def test_a_scope_with_few_rows_is_counted_and_not_judged() -> None:
    rows = {**keys(12), "x": np.arange(12.0)}
    result = audit_shortcuts(table_of(rows), features=["x"], least_rows=10).results[0]
    assert (result.num_bonafide, result.num_spoof, result.eer, result.warns) == (6, 6, None, False)


def test_a_selection_and_its_weights_are_honoured() -> None:
    n = 1000
    rng = np.random.default_rng(4)
    columns = {**keys(n), "x": rng.normal(0, 1, n) + 4 * is_spoof(n) * (np.arange(n) < 800)}
    table = table_of(columns)
    assert pooled(audit_shortcuts(table, features=["x"]), "x").warns
    fair = selection_of(columns["utt_id"][800:])
    audit = audit_shortcuts(table, features=["x"], selection=fair)
    assert (audit.num_rows, audit.num_audited) == (200, 200)
    assert not pooled(audit, "x").warns
    # Weight 0 is as good as left out; little weight is nearly so.
    for small in (0.0, 1e-6):
        weighted = selection_of(columns["utt_id"], [small] * 800 + [1.0] * 200)
        found = pooled(audit_shortcuts(table, features=["x"], selection=weighted), "x")
        assert found.eer == pytest.approx(0.5, abs=0.1)
    gone = selection_of([*columns["utt_id"][:100], "s/none"])
    assert audit_shortcuts(table, features=["x"], selection=gone).num_left_out == 1


def test_layout_and_order_change_nothing_and_a_sample_is_enough() -> None:
    n = 3000
    columns = {**keys(n), "x": np.random.default_rng(5).normal(0, 1, n) + is_spoof(n)}
    order = pa.array(np.random.default_rng(6).permutation(n))
    shuffled = {name: pa.array(column).take(order) for name, column in columns.items()}
    whole = audit_shortcuts(table_of(columns), features=["x"])
    assert audit_shortcuts(table_of(shuffled, blocks=7), features=["x"]) == whole
    sample = audit_shortcuts(table_of(columns), features=["x"], max_rows=1000)
    assert sample.num_rows == 3000
    assert 900 < sample.num_audited < 1100
    assert pooled(sample, "x").eer == pytest.approx(pooled(whole, "x").eer, abs=0.05)


def test_what_cannot_be_audited_is_said() -> None:
    rows = {**keys(40), "x": np.arange(40.0), "lists": [[1]] * 40}
    table = table_of(rows)
    with pytest.raises(SchemaError, match="no column y"):
        audit_shortcuts(table, features=["y"])
    with pytest.raises(SchemaError, match=r"no feature to audit.*curate measure"):
        audit_shortcuts(table)
    with pytest.raises(SchemaError, match="Found list"):
        audit_shortcuts(table, features=["lists"])
    with pytest.raises(InputError, match="needs both classes"):
        audit_shortcuts(table, features=["x"], where="label = 'spoof'")
    with pytest.raises(InputError, match="threshold"):
        audit_shortcuts(table, features=["x"], threshold=0.9)
    unlabelled = table_of({**rows, "label": [None, None, *rows["label"][2:]]})
    assert audit_shortcuts(unlabelled, features=["x"]).num_left_out == 2
