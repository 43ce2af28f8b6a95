from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from curation.manifest import MANIFEST
from curation.study.choice import choose, first_by_weight
from curation.study.design import Method
from curation.study.job import read_side_keys
from datalake.lake import Lake
from tests.curation.study.corpora import SPOOFS, lake_at, rows

METHODS = {
    "naive": Method("naive", "select", "naive", {}, (None,)),
    "random": Method("random", "select", "random", {}, (40,)),
    "doss": Method("doss", "select", "doss", {}, (40,)),
    "quality": Method(
        "quality", "select", "doss", {"order": "quality", "quality": "duration_s"}, (40,)
    ),
    "doss_weight": Method("doss_weight", "weigh", "doss", {"alpha": 0.5}, (40,)),
    "temperature": Method("temperature", "weigh", "temperature", {"alpha": 0.5}, (40,)),
    "class_balanced": Method("class_balanced", "weigh", "class_balanced", {}, (40,)),
    "semdedup": Method("semdedup", "dedup", "semdedup", {"embedding": "vector"}, (40,)),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_at(tmp_path_factory.mktemp("choice"))


@pytest.fixture(scope="module")
def side(lake: Lake) -> pa.Table:
    """All but the source `south`."""
    keys = read_side_keys(lake["pool"], None)
    return keys.filter(pc.field("source") != "south")


_NEED_A_BUDGET = ("random", "doss", "quality")
_PAIRS: list[tuple[str, int | None]] = [(name, 40) for name in METHODS if name != "naive"]
_PAIRS += [(name, None) for name in METHODS if name not in _NEED_A_BUDGET]


@pytest.mark.parametrize(("name", "budget"), _PAIRS)
def test_choices_keep_to_the_side_and_the_budget(
    lake: Lake, side: pa.Table, name: str, budget: int | None
) -> None:
    method = METHODS[name]
    found = choose(lake["pool"], "pool", side, method, budget, 3)
    again = choose(lake["pool"], "pool", side, method, budget, 3)
    assert found.keys.equals(again.keys)
    ids = found.keys["utt_id"].to_pylist()
    assert len(set(ids)) == len(ids) <= (budget or side.num_rows)
    assert len(ids) > (budget or side.num_rows) * 0.8
    assert set(ids) <= set(side["utt_id"].to_pylist())
    assert found.mixture.schema.equals(MANIFEST)
    assert {row["domain"] for row in found.mixture.to_pylist()} == set(side["domain"].to_pylist())
    kept = Counter(found.keys["domain"].to_pylist())
    for row in found.mixture.to_pylist():
        assert row["num_kept"] == kept[row["domain"]]
        assert row["num_rows"] == 24 if row["label"] == "bonafide" else True
    # Labels are drawn alike often, whatever the method.
    for label in ("bonafide", "spoof"):
        masses = found.mixture.filter(pc.field("label") == label)["mass"].to_pylist()
        assert math.isclose(math.fsum(masses), 0.5)
    assert found.hours == pytest.approx(math.fsum(found.keys["duration_s"].to_pylist()) / 3600)


def test_seeds_choose_other_rows(lake: Lake, side: pa.Table) -> None:
    for name in ("random", "doss", "doss_weight"):
        chosen = {
            tuple(
                choose(lake["pool"], "pool", side, METHODS[name], 40, seed)
                .keys["utt_id"]
                .to_pylist()
            )
            for seed in range(3)
        }
        assert len(chosen) == 3


def test_a_subset_has_no_other_source_or_generator(lake: Lake, side: pa.Table) -> None:
    method = Method(
        "diversity", "subset", "diversity", {"num_sources": 1, "num_generators": 2}, (16,)
    )
    found = choose(lake["pool"], "pool", side, method, 16, 0)
    kept = Counter(found.keys["label"].to_pylist())
    assert (kept["bonafide"], kept["spoof"]) == (8, 8)
    assert len(set(found.keys["source"].to_pylist())) == 1
    assert found.mixture["num_kept"].to_pylist().count(0) > 0
    assert sum(found.mixture["num_kept"].to_pylist()) == 16


def test_weights_are_those_of_the_weigher_with_labels_alike(lake: Lake, side: pa.Table) -> None:
    found = choose(lake["pool"], "pool", side, METHODS["temperature"], None, 0)
    assert found.is_weighted
    weights = np.array(found.keys["weight"].to_pylist())
    assert weights.mean() == pytest.approx(1)
    by_domain = {
        row["domain"]: row["mass"] for row in found.mixture.to_pylist() if row["label"] == "spoof"
    }
    roots = {f"{s}/{g}": math.sqrt(n) for (s, g), n in SPOOFS.items() if s != "south"}
    total = math.fsum(roots.values())
    assert by_domain == pytest.approx({name: root / total / 2 for name, root in roots.items()})
    # 2 bona fide domains of a quarter each, and the spoofs.
    expected = math.exp(
        -2 * 0.25 * math.log(0.25) - math.fsum(mass * math.log(mass) for mass in by_domain.values())
    )
    assert found.num_effective_domains == pytest.approx(expected)


def test_rows_are_drawn_in_proportion_to_their_weights() -> None:
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    keys = pa.table(
        {
            "utt_id": [f"u{number}" for number in range(4)],
            "label": ["spoof"] * 4,
            "weight": weights,
        }
    )
    drawn = Counter(first_by_weight(keys, 1, seed)["utt_id"][0].as_py() for seed in range(4000))
    shares = np.array([drawn[f"u{number}"] for number in range(4)]) / 4000
    # Four standard deviations of a binomial share.
    assert (np.abs(shares - weights / 10) < 4 * np.sqrt(0.24 / 4000)).all()


def test_a_label_gets_what_the_other_lacks() -> None:
    keys = pa.table(
        {
            "utt_id": [f"u{number}" for number in range(12)],
            "label": ["bonafide"] * 2 + ["spoof"] * 10,
            "weight": [1.0] * 12,
        }
    )
    for budget, expected in ((4, (2, 2)), (8, (2, 6)), (12, (2, 10)), (99, (2, 10)), (1, (0, 1))):
        counts = Counter(first_by_weight(keys, budget, 0)["label"].to_pylist())
        assert (counts["bonafide"], counts["spoof"]) == expected


def test_a_duplicate_outside_the_side_drops_nothing(tmp_path: Path) -> None:
    table = rows()
    # Each row of the south is a copy of one of the north.
    north = [row for row in table if row["source"] == "north" and not row["generator"]]
    south = [row for row in table if row["source"] == "south" and not row["generator"]]
    for one, other in zip(north, south, strict=True):
        other["vector"] = one["vector"]
    lake = lake_at(tmp_path, table)
    keys = read_side_keys(lake["pool"], None)
    method = Method(
        "semdedup", "dedup", "semdedup", {"embedding": "vector", "threshold": 0.999999}, (None,)
    )
    whole = choose(lake["pool"], "pool", keys, method, None, 0)
    assert whole.facts["num_dropped"] == len(north)
    side = keys.filter(pc.field("source") != "south")
    assert choose(lake["pool"], "pool", side, method, None, 0).facts["num_dropped"] == 0
