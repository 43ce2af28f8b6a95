"""Weights: by the method's own test vector, by hand, and against a slow water-filling."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import curation
import datalake
from curation.domains import Domain
from curation.manifest import num_effective_domains, totals
from curation.selection import (
    CLASS_BALANCED,
    DOSS_WEIGHT,
    NATURAL,
    TEMPERATURE,
    UNIFORM,
    Weighter,
    WeightOptions,
)
from curation.selection.repeats import limit_repeats
from datalake import Lineage, plugins
from datalake.errors import InputError, NotFoundError
from datalake.lake import Selection
from datalake.loader import Weighted
from tests.curation.select.corpora import KEYS, domain_name, key_table, stored

SIZES = {"a": 400, "a/x": 900, "a/y": 7, "b": 30, "b/x": 60, "r": 500, "s/z": 45}
CORPUS = key_table(SIZES)
SPOOFS = [Domain("spoof", "s", f"g{number}") for number in range(4)]
VECTOR = dict(zip(SPOOFS, [50, 500, 5000, 50000], strict=True))


def domain(name: str) -> Domain:
    source, _, generator = name.partition("/")
    return Domain("spoof" if generator else "bonafide", source, generator)


def weigh(**options: object) -> Selection:
    return curation.weigh(stored(CORPUS), table_name="corpus", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weighter", "options", "effective"),
    [
        (NATURAL, {}, 1.434),
        (DOSS_WEIGHT, {"alpha": 1.0}, 1.434),
        (DOSS_WEIGHT, {"alpha": 0.5}, 2.354),
        (TEMPERATURE, {"alpha": 0.5}, 2.354),
        (DOSS_WEIGHT, {"cap": 500}, 3.339),
        (DOSS_WEIGHT, {"alpha": 0.0}, 4.0),
        (UNIFORM, {}, 4.0),
        (CLASS_BALANCED, {"beta": 0.0}, 1.434),
    ],
)
def test_the_test_vector(weighter: Weighter, options: dict[str, float], effective: float) -> None:
    masses = weighter.masses(VECTOR, WeightOptions(**options))  # type: ignore[arg-type]
    assert math.fsum(masses.values()) == pytest.approx(1, abs=1e-12)
    assert num_effective_domains(masses.values()) == pytest.approx(effective, abs=5e-4)


def test_the_cap_of_the_test_vector_by_hand() -> None:
    masses = DOSS_WEIGHT.masses(VECTOR, WeightOptions(cap=500))
    assert list(masses.values()) == pytest.approx([0.0323, 0.3226, 0.3226, 0.3226], abs=5e-5)
    rows = np.array([mass / VECTOR[domain] for domain, mass in masses.items()])
    assert rows / rows[0] == pytest.approx([1, 1, 0.1, 0.01])


def test_class_balanced_weights_are_the_papers() -> None:
    masses = CLASS_BALANCED.masses(VECTOR, WeightOptions(beta=0.999))
    rows = np.array([mass / VECTOR[domain] for domain, mass in masses.items()])
    paper = np.array([(1 - 0.999) / (1 - 0.999**size) for size in VECTOR.values()])
    assert rows / rows[0] == pytest.approx(paper / paper[0])


def test_labels_come_at_the_ratio_and_one_label_has_all() -> None:
    sizes = {domain(name): size for name, size in SIZES.items()}
    masses = DOSS_WEIGHT.masses(sizes, WeightOptions(cap=50, alpha=0.5, ratio=3))
    bonafide = math.fsum(mass for each, mass in masses.items() if each.is_bonafide)
    assert bonafide == pytest.approx(0.75)
    # Within spoofs: sqrt(50), sqrt(7), sqrt(50), sqrt(45).
    total = 2 * 50**0.5 + 7**0.5 + 45**0.5
    assert masses[domain("a/y")] == pytest.approx(0.25 * 7**0.5 / total)
    only = {domain("a"): 3, domain("b"): 1}
    assert DOSS_WEIGHT.masses(only, WeightOptions()) == {domain("a"): 0.75, domain("b"): 0.25}


SOME = st.dictionaries(st.sampled_from(sorted(SIZES)), st.integers(1, 1000), min_size=1)


@given(SOME, st.floats(0, 1), st.floats(0, 5), st.one_of(st.none(), st.integers(1, 50)))
def test_masses_are_shares_whatever_the_options(sizes, alpha, ratio, cap) -> None:
    options = WeightOptions(alpha=alpha, ratio=ratio, cap=cap)
    named = {domain(name): size for name, size in sizes.items()}
    masses = DOSS_WEIGHT.masses(named, options)
    assert masses.keys() == named.keys()
    assert math.fsum(masses.values()) == pytest.approx(1)


@given(SOME, st.floats(0, 1), st.floats(0.1, 5), st.floats(1, 20))
def test_no_row_repeats_more_than_the_limit(sizes, alpha, ratio, most) -> None:
    named = {domain(name): size for name, size in sizes.items()}
    masses = DOSS_WEIGHT.masses(named, WeightOptions(alpha=alpha, ratio=ratio))
    limited = limit_repeats(masses, named, most)
    num_rows = sum(named.values())
    repeats = {each: limited[each] * num_rows / named[each] for each in named}
    assert all(repeat <= most * (1 + 1e-9) for repeat in repeats.values())
    assert math.fsum(limited.values()) == pytest.approx(1)
    # Water: within a label, all that have room have gained by one factor.
    for is_bonafide in (False, True):
        gains = [
            limited[each] / masses[each]
            for each in named
            if each.is_bonafide is is_bonafide
            and repeats[each] < most * (1 - 1e-9)
            and masses[each]
        ]
        assert gains == pytest.approx([gains[0]] * len(gains) if gains else [])


def test_what_a_limit_frees_stays_within_the_label_while_it_can() -> None:
    sizes = {domain("a"): 50, domain("a/x"): 10, domain("a/y"): 40}
    masses = {domain("a"): 0.5, domain("a/x"): 0.25, domain("a/y"): 0.25}
    limited = limit_repeats(masses, sizes, 1.0)
    assert limited == pytest.approx({domain("a"): 0.5, domain("a/x"): 0.1, domain("a/y"): 0.4})
    # All of a/x and a/y at their limits leave .1, which goes to the bona fide rows.
    sizes[domain("a")] = 70
    limited = limit_repeats(masses, sizes, 1.0)
    assert limited[domain("a")] == pytest.approx(7 / 12)


def test_weights_are_expected_draws() -> None:
    selection = weigh(cap=50, alpha=0.5, max_repeat=4, name="mine")
    rows = selection.rows.to_pylist()
    assert len(rows) == CORPUS.num_rows
    assert selection.rows["weight"].to_numpy().mean() == pytest.approx(1)
    assert selection.rows["weight"].to_numpy().max() <= 4 * (1 + 1e-9)
    manifest = {row["domain"]: row for row in selection.manifest.to_pylist()}
    for row in rows[:: CORPUS.num_rows // 50]:
        size, mass = (manifest[row["domain"]][key] for key in ("num_rows", "mass"))
        assert row["weight"] == pytest.approx(mass * CORPUS.num_rows / size)
    assert {name for name, row in manifest.items() if row["binds"]} >= {"a", "a/x", "a/y"}
    assert not any(row["num_rows"] > row["num_kept"] for row in manifest.values())
    sums = totals(selection.manifest)["all"]
    assert sums.num_effective_domains_kept > sums.num_effective_domains
    assert selection.method == "weigh:doss"
    assert selection.parameters["max_repeat"] == 4


def test_the_order_and_blocks_of_the_rows_do_not_matter() -> None:
    table = stored(CORPUS, blocks=4, shuffle=3)
    shuffled = curation.weigh(table, table_name="corpus", cap=50).rows
    plain = weigh(cap=50).rows
    by_id = [("utt_id", "ascending")]
    columns = ["utt_id", "domain", "rank", "weight"]
    assert shuffled.select(columns).sort_by(by_id) == plain.select(columns).sort_by(by_id)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"alpha": 1.5}, InputError, "from 0 .* to 1"),
        ({"beta": 1.0, "method": "class_balanced"}, InputError, "out of range"),
        ({"max_repeat": 0.5}, InputError, "1 or more"),
        ({"max_repeat": math.nan}, InputError, "1 or more"),
        ({"cap": 0}, InputError, "number of rows"),
        ({"method": "temperature"}, InputError, "needs alpha"),
        ({"method": "uniform", "cap": 5}, InputError, "uniform does not use cap"),
        ({"method": "unifrom"}, NotFoundError, "Did you mean uniform"),
    ],
)
def test_wrong_options_are_refused(options, error, said: str) -> None:
    with pytest.raises(error, match=said):
        weigh(**options)


def test_built_in_weighters_are_found_by_name() -> None:
    found = plugins.names("datalake.weighters")
    assert {"doss", "temperature", "class_balanced", "uniform", "natural"} <= set(found)
    assert all(isinstance(plugins.load("datalake.weighters", name), Weighter) for name in found)


def test_the_command_saves_what_the_loader_streams(tmp_path) -> None:
    uri = str(tmp_path / "lake")
    lake = datalake.open_lake(uri)
    lake.create("corpus", KEYS, lineage=Lineage("create")).append(CORPUS)
    command = [sys.executable, "-c", "from curation.cli import main; main()", "weigh", "corpus"]
    options = ["--cap", "50", "--alpha", ".5", "--as", "mine", "--lake", uri]
    done = subprocess.run(
        [*command, *options, "--json"], capture_output=True, text=True, check=True
    )
    facts = json.loads(done.stdout)
    assert facts["ratio_reached"] == pytest.approx(1)
    selection = lake.selection("mine")
    assert lake.log("mine")[-1].operation == "weigh"

    from datalake.loader import Rows

    source = Rows(lake["corpus"], columns=["utt_id"])
    sampler = Weighted(source, selection).sampler()
    shares = {row["domain"]: row["mass"] for row in selection.manifest.to_pylist()}
    assert sampler.shares() == pytest.approx(shares)
    drawn = sampler.picks(0, np.arange(600)).rows
    names = [domain_name(CORPUS.slice(int(row), 1).to_pylist()[0]) for row in drawn]
    for name, share in shares.items():
        assert names.count(name) == pytest.approx(600 * share, abs=8)

    shown = subprocess.run([*command, "--lake", uri], capture_output=True, text=True, check=True)
    assert "weigh:doss" in shown.stdout
    bad = subprocess.run(
        [*command, "--alpha", "2", "--lake", uri], capture_output=True, text=True, check=False
    )
    assert bad.returncode != 0
    assert "Traceback" not in bad.stderr
