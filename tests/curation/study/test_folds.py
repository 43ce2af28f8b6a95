from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curation.probe import hold_out_source, train_on_source
from curation.study.design import ProtocolPlan
from curation.study.folds import Fold, folds_of
from datalake.errors import ConfigError, InputError, NotFoundError
from tests.curation.study.corpora import rows

COLUMNS = ("utt_id", "label", "domain", "source", "generator", "speaker_id", "sha256")


def keys_of(table: list[dict[str, object]]) -> pa.Table:
    keys = pa.table({name: pa.array([row[name] for row in table], pa.string()) for name in COLUMNS})
    return keys.add_column(0, "row_index", pa.array(range(len(table)), pa.uint64()))


def sides(keys: pa.Table, fold: Fold) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    train, test = (
        keys.filter(pa.array(mask)).to_pylist() for mask in (fold.sides.train, fold.sides.test)
    )
    return train, test


def test_each_generator_and_each_source_is_a_fold() -> None:
    keys = keys_of(rows())
    logo = folds_of(keys, ProtocolPlan("logo"))
    assert [fold.name.fold for fold in logo.made] == ["alpha", "beta", "gamma"]
    for fold in logo.made:
        train, test = sides(keys, fold)
        held = {row["utt_id"] for row in keys.to_pylist() if row["generator"] == fold.name.fold}
        assert held == {row["utt_id"] for row in test if row["label"] == "spoof"}
        # 30 % of 72, in whole speakers of 6 rows.
        assert 18 <= sum(row["label"] == "bonafide" for row in test) <= 24
        assert not {row["speaker_id"] for row in test} & {
            row["speaker_id"] for row in train if row["speaker_id"]
        }
    loso = folds_of(keys, ProtocolPlan("loso"))
    assert [fold.name.fold for fold in loso.made] == ["north", "south", "west"]
    assert all(fold.sides.num_dropped == 0 for fold in loso.made)


def test_generators_are_held_out_together() -> None:
    plan = ProtocolPlan("logo", groups={"greek": ("alpha", "beta")}, min_spoof=15)
    found = folds_of(keys_of(rows()), plan)
    assert [fold.name.fold for fold in found.made] == ["greek"]
    assert [each.name.fold for each in found.skipped] == ["gamma"]
    assert "too few spoofs" in found.skipped[0].reason
    assert "15 or more. Found 14" in found.skipped[0].reason
    with pytest.raises(InputError, match=r"too few bona fide rows.*25 or more. Found 24"):
        folds_of(keys_of(rows()), ProtocolPlan("loso", min_bonafide=25))


def test_a_fold_that_cannot_be_made_is_left_out_with_its_reason() -> None:
    lacking = [row for row in rows() if row["source"] != "west" or row["generator"]]
    found = folds_of(keys_of(lacking), ProtocolPlan("loso"))
    assert [fold.name.fold for fold in found.made] == ["north", "south"]
    assert "no bona fide rows" in found.skipped[0].reason


@pytest.mark.parametrize(
    ("plan", "kind", "said"),
    [
        (ProtocolPlan("logo", only=("alpa",)), NotFoundError, "Did you mean alpha"),
        (ProtocolPlan("loso", only=("nort",)), NotFoundError, "Did you mean north"),
        (ProtocolPlan("logo", groups={"g": ("alhpa",)}), NotFoundError, "Did you mean alpha"),
        (
            ProtocolPlan("logo", groups={"g": ("alpha",), "h": ("alpha", "beta")}),
            ConfigError,
            "alpha would be held out twice",
        ),
        (ProtocolPlan("logo", groups={"beta": ("alpha",)}), ConfigError, "beta would be held out"),
        (ProtocolPlan("logo", min_spoof=1000), InputError, "No fold can be made"),
    ],
)
def test_plans_that_cannot_be(plan: ProtocolPlan, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        folds_of(keys_of(rows()), plan)


KEYS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),  # source
        st.sampled_from([None, None, "x", "y"]),  # generator
        st.sampled_from([None, "s1", "s2", "s3", "s4", "s5"]),  # speaker
        st.integers(0, 30),  # file
    ),
    min_size=1,
    max_size=40,
)


def table_of(drawn: list[tuple[str, str | None, str | None, int]]) -> list[dict[str, object]]:
    return [
        {
            "utt_id": f"{number}", "source": source, "generator": generator, "sha256": f"{file}",
            "label": "spoof" if generator else "bonafide",
            "domain": f"{source}/{generator}" if generator else source,
            "speaker_id": speaker,
        }
        for number, (source, generator, speaker, file) in enumerate(drawn)
    ]  # fmt: skip


@given(KEYS, st.randoms(use_true_random=False))
def test_folds_are_disjoint_and_hang_on_no_order(drawn: list, random: object) -> None:  # type: ignore[type-arg]
    table = table_of(drawn)
    shuffled = list(table)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for protocol in ("logo", "loso", "cross"):
        found = []
        for keys in (keys_of(table), keys_of(shuffled)):
            try:
                made = folds_of(keys, ProtocolPlan(protocol)).made
            except InputError:
                made = ()
            parted = {}
            for fold in made:
                train, test = sides(keys, fold)
                assert not {row["sha256"] for row in train} & {row["sha256"] for row in test}
                if fold.sides.bonafide_by == "speaker_id":
                    heard = {row["speaker_id"] for row in train if row["speaker_id"]}
                    tested = {row["speaker_id"] for row in test if row["label"] == "bonafide"}
                    assert not heard & tested
                parted[fold.name.fold] = tuple(
                    sorted(row["utt_id"] for row in side) for side in (train, test)
                )
            found.append(parted)
        assert found[0] == found[1]


@given(KEYS)
def test_sources_are_parted_as_an_obvious_twin_does(drawn: list) -> None:  # type: ignore[type-arg]
    table = table_of(drawn)
    keys = keys_of(table)
    for source in {str(row["source"]) for row in table}:
        inside = [row for row in table if row["source"] == source]
        outside = [row for row in table if row["source"] != source]
        files = {row["sha256"] for row in inside}
        bonafide = {row["speaker_id"] for row in inside if row["label"] == "bonafide"} - {None}
        speakers = {row["speaker_id"] for row in inside} - {None}
        heard = [
            row
            for row in outside
            if row["sha256"] not in files and row["speaker_id"] not in bonafide
        ]
        tested = [
            row
            for row in outside
            if row["sha256"] not in files
            and not (row["label"] == "bonafide" and row["speaker_id"] in speakers)
        ]
        for part, expected in (
            (hold_out_source, (heard, inside)),
            (train_on_source, (inside, tested)),
        ):
            whole = all(
                {row["label"] for row in side} == {"bonafide", "spoof"} for side in expected
            )
            if not whole:
                with pytest.raises(InputError, match="side has no"):
                    part(keys, source)
                continue
            found = part(keys, source)
            names = np.array([row["utt_id"] for row in table])
            for mask, side in zip((found.train, found.test), expected, strict=True):
                assert list(names[mask]) == [row["utt_id"] for row in side]
