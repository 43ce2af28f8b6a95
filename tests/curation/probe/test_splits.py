from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from curation.probe import find_overlaps, hold_out_generators, leaked, refuse_leaks, validation_mask
from curation.probe.keys import KEYS, is_bonafide
from datalake.errors import InputError, NotFoundError


def keys_of(rows: list[dict[str, object]]) -> pa.Table:
    columns = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in KEYS}
    return pa.table({"row_index": pa.array(range(len(rows)), pa.uint64()), **columns})


def rows_of(domain: str, count: int, **others: object) -> list[dict[str, object]]:
    source, _, generator = domain.partition("/")
    return [
        {
            "utt_id": f"{domain}/{index}",
            "label": "spoof" if generator else "bonafide",
            "domain": domain,
            "source": source,
            "generator": generator or None,
            "sha256": f"{domain}/{index}/bytes",
            **others,
        }
        for index in range(count)
    ]


def test_validation_takes_a_share_of_every_domain() -> None:
    keys = keys_of([*rows_of("s", 100), *rows_of("s/big", 200), *rows_of("s/tiny", 3)])
    mask = validation_mask(keys, fraction=0.1, max_rows=1000, seed=0)
    assert [int(mask[:100].sum()), int(mask[100:300].sum()), int(mask[300:].sum())] == [10, 20, 1]


def test_validation_leaves_the_only_row_of_a_domain_to_training() -> None:
    keys = keys_of([*rows_of("s", 10), *rows_of("s/one", 1)])
    assert not validation_mask(keys, fraction=0.5, max_rows=1000, seed=0)[-1]


def test_validation_does_not_depend_on_the_order_of_rows() -> None:
    keys = keys_of([*rows_of("s", 50), *rows_of("s/g", 50)])
    order = np.random.default_rng(0).permutation(100)
    straight = validation_mask(keys, fraction=0.2, max_rows=1000, seed=3)
    shuffled = validation_mask(keys.take(order), fraction=0.2, max_rows=1000, seed=3)
    assert (shuffled == straight[order]).all()
    assert (validation_mask(keys, fraction=0.2, max_rows=1000, seed=4) != straight).any()


def test_validation_keeps_near_its_bound() -> None:
    keys = keys_of([*rows_of("s", 1000), *rows_of("s/g", 1000)])
    assert validation_mask(keys, fraction=0.5, max_rows=100, seed=0).sum() == 100


def test_hold_out_parts_generators_and_speakers() -> None:
    rows = [
        *(row for n in range(10) for row in rows_of(f"s{n}", 10, speaker_id=f"v{n}")),
        *rows_of("s0/known", 30, speaker_id="v0"),
        *rows_of("s1/known", 30, speaker_id="v1"),
        *rows_of("s0/new", 20, speaker_id="v0"),
    ]
    keys = keys_of(rows)
    parted = hold_out_generators(keys, ["new"], bonafide_fraction=0.3, seed=1)
    generators = np.array([row["generator"] for row in rows])
    speakers = np.array([row["speaker_id"] for row in rows])
    assert parted.bonafide_by == "speaker_id"
    assert (parted.test == (generators == "new"))[~is_bonafide(keys)].all()
    heard = set(speakers[parted.test & is_bonafide(keys)])
    assert len(heard) == 3
    assert not heard & set(speakers[parted.train])
    assert not (parted.train & parted.test).any()


def test_hold_out_without_speakers_parts_utterances() -> None:
    keys = keys_of([*rows_of("s", 100), *rows_of("s/a", 20), *rows_of("s/b", 20)])
    parted = hold_out_generators(keys, ["b"], bonafide_fraction=0.25)
    assert parted.bonafide_by == "utt_id"
    assert int((parted.test & is_bonafide(keys)).sum()) == 25
    assert parted.num_dropped == 0


def test_one_speaker_who_says_nearly_all_is_no_hold_out() -> None:
    rows = [
        *rows_of("s", 97, speaker_id="star"),
        *rows_of("t", 3, speaker_id="extra"),
        *rows_of("s/a", 9, speaker_id="star"),
        *rows_of("s/b", 9, speaker_id="star"),
    ]
    assert hold_out_generators(keys_of(rows), ["b"]).bonafide_by == "utt_id"


def test_hold_out_drops_twins_of_test_files_from_training() -> None:
    twin = {"sha256": "the same bytes"}
    rows = [
        *rows_of("s", 40),
        *rows_of("s/a", 9),
        *rows_of("t/a", 1, **twin),
        *rows_of("s/b", 1, **twin),
    ]
    parted = hold_out_generators(keys_of(rows), ["b"])
    assert not parted.train[49]
    assert parted.num_dropped == 1


def test_hold_out_names_the_nearest_generator() -> None:
    keys = keys_of([*rows_of("s", 9), *rows_of("s/hifigan", 9)])
    with pytest.raises(NotFoundError, match="Did you mean hifigan"):
        hold_out_generators(keys, ["hifi-gan"])


def test_holding_out_every_generator_is_refused() -> None:
    keys = keys_of([*rows_of("s", 9), *rows_of("s/only", 9)])
    with pytest.raises(InputError, match="training side has no spoof rows"):
        hold_out_generators(keys, ["only"])


def test_overlaps_by_column() -> None:
    train = keys_of([*rows_of("s", 5, speaker_id="ann"), *rows_of("s/g", 5)])
    test = keys_of([*rows_of("t", 4, speaker_id="ann"), *rows_of("t/g", 3)])
    found = {each.column: each for each in find_overlaps(train, test)}
    assert set(found) == {"generator", "speaker_id"}
    assert (found["generator"].num_values, found["generator"].num_test_rows) == (1, 3)
    refuse_leaks(list(found.values()))


def test_the_same_utterance_on_both_sides_is_refused_and_found() -> None:
    train = keys_of([*rows_of("s", 5), *rows_of("s/g", 5)])
    test = keys_of([*rows_of("s", 2), *rows_of("t", 2), *rows_of("t/g", 3)])
    with pytest.raises(InputError, match="trained on") as caught:
        refuse_leaks(find_overlaps(train, test))
    assert "--drop-overlap" in caught.value.fix
    mask = leaked(train, test)
    assert mask.tolist() == [True, True] + [False] * 8
    refuse_leaks(find_overlaps(train.filter(pa.array(~mask)), test))


def test_the_same_bytes_under_another_id_are_a_leak() -> None:
    train = keys_of(rows_of("s/g", 2, sha256="x"))
    test = keys_of(rows_of("t/h", 1, sha256="x"))
    assert [each.column for each in find_overlaps(train, test) if each.is_leak] == ["sha256"]
