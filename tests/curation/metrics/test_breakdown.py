from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from curation import metrics
from datalake.errors import InputError

rng = np.random.default_rng(6)
NUM_TRIALS = 400
LABELS = np.where(np.arange(NUM_TRIALS) % 4 == 0, "bonafide", "spoof")
SCORES = np.round(rng.normal(0, 1, NUM_TRIALS) + (LABELS == "bonafide"), 1)
CODECS = rng.choice(["gsm", "opus", "wav"], NUM_TRIALS)
ATTACKS = np.where(LABELS == "spoof", rng.choice(["A01", "A02"], NUM_TRIALS), None)
SPEAKERS = rng.choice([f"s{number}" for number in range(12)], NUM_TRIALS)
IS_BONAFIDE = LABELS == "bonafide"


def _row(table: pa.Table, scope: str, by: str, **values: str) -> dict[str, object]:
    (row,) = [
        row
        for row in table.to_pylist()
        if row["scope"] == scope
        and row["by"] == by
        and all(row[name] == values.get(name) for name in ("attack", "codec"))
    ]
    return row


def test_all_groups_and_margins_are_the_metric_of_their_trials() -> None:
    table = metrics.breakdown(
        SCORES,
        LABELS,
        {"attack": ATTACKS, "codec": CODECS},
        metrics=("eer", "cllr"),
        num_resamples=0,
    )
    assert table["by"].to_pylist() == (
        ["attack,codec"] * 6
        + ["attack"] * 2
        + ["codec"] * 3
        + [""]
        + ["attack,codec", "attack", "codec"]
    )
    # The attack is null for bona fide trials, so only the codec is matched.
    for attack in ("A01", "A02", None):
        for codec in ("gsm", "opus", "wav", None):
            same = np.full(NUM_TRIALS, True) if codec is None else codec == CODECS
            spoof = ~IS_BONAFIDE & same & (True if attack is None else attack == ATTACKS)
            sides = SCORES[IS_BONAFIDE & same], SCORES[spoof]
            named = {"attack": attack, "codec": codec}
            by = ",".join(name for name, value in named.items() if value)
            row = _row(table, "group" if by else "pooled", by, **named)
            assert (row["num_bonafide"], row["num_spoof"]) == (sides[0].size, sides[1].size)
            assert row["eer"] == metrics.eer(*sides)
            assert row["cllr"] == metrics.cllr(*sides)
            assert row["eer_low"] is None
    macro = _row(table, "macro", "attack")
    of_attacks = [_row(table, "group", "attack", attack=name)["eer"] for name in ("A01", "A02")]
    assert macro["eer"] == np.mean(of_attacks)


def test_intervals_are_those_of_each_groups_trials() -> None:
    table = metrics.breakdown(SCORES, LABELS, {"codec": CODECS}, num_resamples=30, seed=4)
    for codec in ("gsm", "wav"):
        here = codec == CODECS
        row = next(row for row in table.to_pylist() if row["codec"] == codec)
        for metric in ("eer", "min_dcf"):
            found = metrics.bootstrap_interval(
                SCORES[here & IS_BONAFIDE],
                SCORES[here & ~IS_BONAFIDE],
                metric,
                num_resamples=30,
                seed=4,
            )
            bounds = found.value, found.low, found.high
            assert (row[metric], row[f"{metric}_low"], row[f"{metric}_high"]) == bounds


def test_matched_columns_can_be_named() -> None:
    groups = {"codec": CODECS}
    row = metrics.breakdown(SCORES, LABELS, groups, matched=(), num_resamples=0).to_pylist()[0]
    assert row["num_bonafide"] == IS_BONAFIDE.sum()
    assert row["eer"] == metrics.eer(SCORES[IS_BONAFIDE], SCORES[~IS_BONAFIDE & (CODECS == "gsm")])


def test_speakers_of_many_alike_trials_widen_the_interval() -> None:
    # Each of 12 speakers says one thing 30 times over: a dozen trials' worth of knowledge.
    offset = rng.normal(0, 1, 12)
    speaker = np.repeat(np.arange(12), 60)
    labels = np.tile(np.repeat(["bonafide", "spoof"], 30), 12)
    scores = offset[speaker] + (labels == "bonafide") + rng.normal(0, 0.05, speaker.size)
    names = np.array([f"speaker {number}" for number in speaker])
    widths = []
    for speakers in (None, names):
        table = metrics.breakdown(scores, labels, {}, speakers=speakers, num_resamples=200)
        (row,) = table.to_pylist()
        widths.append(row["eer_high"] - row["eer_low"])
    assert widths[1] > 2 * widths[0]


def test_the_order_of_trials_and_the_kind_of_column_do_not_matter() -> None:
    turn = rng.permutation(NUM_TRIALS)

    def table(order, column):
        return metrics.breakdown(
            SCORES[order],
            LABELS[order],
            {"codec": column},
            speakers=SPEAKERS[order],
            num_resamples=20,
        )

    plain = table(np.arange(NUM_TRIALS), CODECS)
    assert plain.equals(table(turn, pa.chunked_array([pa.array(CODECS[turn]).dictionary_encode()])))


def test_a_group_without_a_class_has_counts_and_no_metric() -> None:
    labels = ["bonafide", "bonafide", "spoof", "spoof", "bonafide", "spoof"]
    codecs = ["a", "b", "b", "c", "d", "d"]
    table = metrics.breakdown([2, 3, 1, 0, 5, 5], labels, {"codec": codecs}, num_resamples=5)
    rows = table.to_pylist()
    assert [(row["num_bonafide"], row["num_spoof"], row["eer"]) for row in rows[:4]] == [
        (1, 0, None),
        (1, 1, 0.0),
        (0, 1, None),
        # Both scores are 5.
        (1, 1, None),
    ]
    assert rows[-1]["scope"] == "macro"
    assert rows[-1]["eer"] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["spoof"] * NUM_TRIALS}, "no bona fide scores"),
        ({"labels": ["genuine", *LABELS[1:]]}, "genuine at position 0"),
        ({"labels": LABELS[1:]}, "Scores and labels"),
        ({"groups": {"codec": CODECS[1:]}}, "column codec does not belong"),
        ({"groups": {"codec": [None] * NUM_TRIALS}}, "300 spoof trials have no codec"),
        ({"groups": {"attack": ATTACKS}, "matched": ["attack"]}, "100 bona fide trials have no"),
        ({"groups": {"codec": CODECS}, "matched": ["codek"]}, "Did you mean codec"),
        ({"groups": {"by": CODECS}}, "cannot be called by"),
        ({"groups": {"eer": CODECS}}, "cannot be called eer"),
        ({"speakers": [None, *SPEAKERS[1:]]}, "1 trials have no speaker"),
        ({"metrics": ("eer", "mindcf")}, "Did you mean min_dcf"),
        ({"metrics": ()}, "No metric"),
        ({"num_resamples": -1}, "replicates"),
        ({"level": 0}, "between 0 and 1"),
    ],
)
def test_refuses_what_cannot_be_broken_down(change, message) -> None:
    given = {"scores": SCORES, "labels": LABELS, "groups": {}, "num_resamples": 0, **change}
    with pytest.raises(InputError, match=message):
        metrics.breakdown(**given)
