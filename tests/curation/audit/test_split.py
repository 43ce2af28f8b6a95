"""Splits are disjoint, near their shares, and the same however the table is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import datalake
from curation.audit.split import Split, split_rows
from datalake import Lineage
from datalake.errors import InputError, SchemaError
from tests.curation.audit.test_leakage import table_of
from tests.patience import PATIENCE_S

SHARES = {"train": 0.8, "test": 0.2}
KEYS = ("speaker_id", "generator")


def corpus(pairs: Sequence[tuple[int | None, int | None]]) -> pa.Table:
    """Rows of (speaker, generator)."""
    return pa.table(
        {
            "utt_id": [f"u{row}" for row in range(len(pairs))],
            "source": ["s"] * len(pairs),
            "speaker_id": [None if s is None else f"spk{s}" for s, _ in pairs],
            "generator": pa.array([None if g is None else f"g{g}" for _, g in pairs], pa.string()),
            "label": ["bonafide" if g is None else "spoof" for _, g in pairs],
        }
    )


def many(num_rows: int = 1000, num_speakers: int = 60, seed: int = 0) -> pa.Table:
    """Speakers of very different size, each with a generator of its own or none."""
    speakers = np.random.default_rng(seed).zipf(1.5, num_rows) % num_speakers
    return corpus([(int(s), int(s) if row % 2 else None) for row, s in enumerate(speakers)])


def ids(split: Split) -> dict[str, set[str]]:
    return {part: set(kept["utt_id"].to_pylist()) for part, kept in split.parts.items()}


def slow_components(rows: list[dict[str, str | None]]) -> set[frozenset[str]]:
    """Groups joined until nothing changes."""
    groups = [({row["utt_id"]}, {(k, row[k]) for k in KEYS if row[k]}) for row in rows]
    changed = True
    while changed:
        changed = False
        for i in range(len(groups)):
            for j in range(i):
                if groups[i][1] & groups[j][1]:
                    groups[j] = (groups[i][0] | groups[j][0], groups[i][1] | groups[j][1])
                    del groups[i]
                    changed = True
                    break
            if changed:
                break
    return {frozenset(members) for members, _ in groups}


key = st.one_of(st.none(), st.integers(0, 8))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(key, key), min_size=2, max_size=25))
def test_what_shares_a_key_stays_together(pairs) -> None:
    rows = corpus(pairs)
    expected = slow_components(rows.to_pylist())
    if len(expected) < 2:
        with pytest.raises(InputError, match="would be empty"):
            split_rows(table_of(rows), by=KEYS, shares=SHARES)
        return
    split = split_rows(table_of(rows), by=KEYS, shares=SHARES)
    assert split.num_components == len(expected)
    for group in expected:
        assert sum(bool(group & kept) for kept in ids(split).values()) == 1
    assert sum(map(len, ids(split).values())) == len(pairs)


def test_shares_are_reached_for_both_labels() -> None:
    rows = many()
    shares = {"train": 0.7, "validation": 0.1, "test": 0.2}
    split = split_rows(table_of(rows), by=KEYS, shares=shares)
    labels = dict(zip(rows["utt_id"].to_pylist(), rows["label"].to_pylist(), strict=True))
    for part, kept in ids(split).items():
        for label in ("bonafide", "spoof"):
            share = sum(labels[each] == label for each in kept) / 500
            assert share == pytest.approx(shares[part], abs=0.04)
    assert split.remarks == ()


def test_layout_changes_nothing_and_the_seed_does() -> None:
    rows = many()
    one = ids(split_rows(table_of(rows), by=KEYS, shares=SHARES))
    order = pa.array(np.random.default_rng(1).permutation(rows.num_rows))
    other = table_of(rows.take(order), blocks=5)
    assert ids(split_rows(other, by=KEYS, shares=SHARES)) == one
    assert ids(split_rows(other, by=KEYS, shares=SHARES, seed=1)) != one


def test_what_was_parted_stays_when_rows_come_in() -> None:
    rows = many(400)
    before = split_rows(table_of(rows), by=KEYS, shares=SHARES)
    previous = {part: kept["utt_id"].combine_chunks() for part, kept in before.parts.items()}
    grown = many(1000)  # the same draws, and more of them
    assert grown.slice(0, 400)["speaker_id"].to_pylist() == rows["speaker_id"].to_pylist()
    after = ids(split_rows(table_of(grown), by=KEYS, shares=SHARES, previous=previous))
    for part, kept in ids(before).items():
        assert kept <= after[part]
    train, test = (before.parts[part]["utt_id"][0].as_py() for part in SHARES)
    speakers = dict(zip(rows["utt_id"].to_pylist(), rows["speaker_id"].to_pylist(), strict=True))
    joined = pa.table(
        {
            "utt_id": ["bridge0", "bridge1"],
            "source": ["s", "s"],
            "speaker_id": [speakers[train], speakers[test]],
            "generator": ["bridge", "bridge"],
            "label": ["spoof", "spoof"],
        }
    )
    with pytest.raises(InputError, match=r"connect what the earlier split.*generator=bridge"):
        split_rows(
            table_of(pa.concat_tables([rows, joined])), by=KEYS, shares=SHARES, previous=previous
        )


def test_what_cannot_be_split_and_what_is_odd_is_said() -> None:
    table = table_of(corpus([(0, None), (0, 1), (1, 1), (1, None)]))
    with pytest.raises(InputError, match=r"1 groups that share no key, the largest 100%"):
        split_rows(table, by=KEYS, shares=SHARES)
    with pytest.raises(InputError, match="sum to 1"):
        split_rows(table, by=KEYS, shares={"train": 0.8, "test": 0.1})
    with pytest.raises(SchemaError, match="Did you mean speaker_id"):
        split_rows(table, by=["speaker"], shares=SHARES)
    odd = split_rows(
        table_of(corpus([(0, 0)] * 9 + [(1, None), (None, None)])), by=KEYS, shares=SHARES
    )
    assert (
        odd.remarks[0] == "1 rows have no speaker_id, and may share it with rows of another part."
    )
    assert "The part test has no spoof rows." in odd.remarks


def test_split_on_the_command_line(tmp_path) -> None:
    lake = datalake.open_lake(tmp_path / "lake")
    rows = many(300)
    table = lake.create("corpus", rows.schema, lineage=Lineage("create")).append(rows)

    def curate(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from curation.cli import main; main()", *arguments,
             "--lake", str(tmp_path / "lake")],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    done = curate("split", "corpus", "--by", "speaker_id, generator", "--as", "a", "--json")
    assert done.returncode == 0, done.stderr
    assert [part["selection"] for part in json.loads(done.stdout)["parts"]] == ["a.train", "a.test"]
    train, test = lake.selection("a.train"), lake.selection("a.test")
    assert len(train) + len(test) == 300
    assert (test.method, test.parameters["split"], test.parameters["part"]) == (
        "split", "a", "test",
    )  # fmt: skip
    audit = curate("audit", "leakage", "corpus", "--train", "a.train", "--test", "a.test", "--json")
    assert json.loads(audit.stdout)["leaks"] == []
    table.append(many(400).slice(300))
    assert curate("split", "corpus", "--by", "speaker_id", "--as", "a", "--extend").returncode == 2
    grown = curate("split", "corpus", "--by", "speaker_id,generator", "--as", "a", "--extend")
    assert grown.returncode == 0, grown.stderr
    assert set(train.rows["utt_id"].to_pylist()) <= set(
        lake.selection("a.train").rows["utt_id"].to_pylist()
    )
    assert curate("split", "corpus", "--by", "source", "--as", "b").returncode == 2
