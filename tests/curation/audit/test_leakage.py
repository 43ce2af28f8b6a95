"""What two sides share, planted and found."""

from __future__ import annotations

import csv
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curation.audit import near_vectors
from curation.audit.base_corpora import base_of
from curation.audit.leakage import KINDS, Side, audit_leakage, normalized_text
from curation.audit.recordings import RecordingIndex, best_match, bits_apart
from curation.order import place, place_below
from datalake import tables
from datalake.errors import InputError, SchemaError
from datalake.tables import Table
from tests.curation.audit.test_shortcuts import selection_of

_numbers = count()


def table_of(rows: pa.Table, *, blocks: int = 1) -> Table:
    table = tables.create_table(f"memory://leakage/{next(_numbers)}", rows.schema, format="memory")
    size = -(-rows.num_rows // blocks)
    for start in range(0, rows.num_rows, size):
        table = table.append(rows.slice(start, size))
    return table


def words(seed: int, size: int = 200) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 2**32, size, dtype=np.uint32)


def turned(fingerprint: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """The fingerprint with this share of its bits turned; whole words stay, as real ones do."""
    rng = np.random.default_rng(seed)
    bits = rng.random((len(fingerprint), 32)) < share
    bits[rng.random(len(fingerprint)) < 0.4] = False
    return fingerprint ^ np.packbits(bits, axis=1, bitorder="little").view("<u4")[:, 0]


ROWS = {
    # utt_id, source, speaker, sha256, text, fingerprint
    "a/LJ001-0001": ("a", "ljspeech", "x1", "Printing, in the only sense", words(1)),
    "a/p225_001": ("a", "p225", "x2", "Please call Stella.", words(2)),
    "a/three": ("a", None, None, "", words(3)),
    "b/tts_LJ001-0001_gen": ("b", "lj", "x3", "printing in the  only sense!",
                             turned(words(1), 0.15)),
    "b/wav_x1": ("b", "p226", "x1", "Something else", words(4)),
    "b/p225_002": ("b", "p225", "x5", None, words(5)),
    "c/cut": ("c", "other", "x6", "not said elsewhere", words(3)[60:]),
}  # fmt: skip


def corpus(order: list[int] | None = None) -> pa.Table:
    names = list(ROWS)
    names = [names[at] for at in order] if order else names
    columns = list(zip(*(ROWS[name] for name in names), strict=True))
    return pa.table(
        {
            "utt_id": names,
            "source": columns[0],
            "speaker_id": columns[1],
            "sha256": columns[2],
            "text": columns[3],
            "fingerprint": pa.array([each.tobytes() for each in columns[4]], pa.binary()),
        }
    )


def test_every_kind_planted_between_sources_is_found() -> None:
    audit = audit_leakage(table_of(corpus()), bases={"c": ["mystery"], "b": ["mystery"]})
    assert audit.sides == {"a": 3, "b": 3, "c": 1}
    assert audit.not_checked == {"generator": "there is no column generator"}
    found = {(leak.kind, leak.left, leak.right): leak for leak in audit.leaks}
    expected = {
        ("bytes", "a", "b"): (1, 1, 1, ("x1",)),
        ("recording", "a", "b"): (1, 1, 1, ("a/LJ001-0001 = b/tts_LJ001-0001_gen",)),
        ("recording", "a", "c"): (1, 1, 1, ("a/three = c/cut",)),
        ("base_utterance", "a", "b"): (1, 1, 1, ("ljspeech/LJ001-0001",)),
        ("base_speaker", "a", "b"): (2, 2, 2, ("ljspeech/LJ", "vctk/p225")),
        ("base_corpus", "a", "b"): (2, 2, 2, ("ljspeech", "vctk")),
        ("base_corpus", "b", "c"): (1, 3, 1, ("mystery",)),
        ("speaker", "a", "b"): (1, 1, 1, ("p225",)),
        ("text", "a", "b"): (1, 1, 1, ("printing in the only sense",)),
    }
    assert {
        key: (leak.num_values, leak.num_left_rows, leak.num_right_rows, leak.examples)
        for key, leak in found.items()
    } == expected
    assert [leak.kind for leak in audit.leaks] == sorted(
        (leak.kind for leak in audit.leaks), key=list(KINDS).index
    )


def test_layout_and_order_change_nothing() -> None:
    whole = audit_leakage(table_of(corpus()))
    other = audit_leakage(table_of(corpus([6, 2, 5, 0, 3, 1, 4]), blocks=4))
    assert other.leaks == whole.leaks


def test_training_and_test_are_compared_and_what_is_in_neither_is_not() -> None:
    table = table_of(corpus())
    train = selection_of(["a/LJ001-0001", "a/p225_001", "b/p225_002"])
    test = selection_of(["b/tts_LJ001-0001_gen", "c/cut", "b/p225_002"])
    audit = audit_leakage([Side("train", table, train), Side("test", table, test)])
    assert audit.sides == {"test": 3, "train": 3}
    found = {leak.kind: leak for leak in audit.leaks}
    assert found["utterance"].examples == ("b/p225_002",)
    assert found["recording"].num_values == 2  # the row itself, and the speech synthesised anew
    assert {leak.kind for leak in audit.leaks if leak.is_utterance} == {
        "utterance", "bytes", "recording",
    }  # fmt: skip
    clean = [
        Side("train", table, selection_of(["a/three"])),
        Side("test", table, selection_of(["b/wav_x1"])),
    ]
    assert audit_leakage(clean).leaks == ()


def test_what_cannot_be_compared_is_said() -> None:
    table = table_of(corpus())
    with pytest.raises(InputError, match="two or more"):
        audit_leakage([Side("train", table)])
    with pytest.raises(SchemaError, match="no such column of transcripts"):
        audit_leakage(table, text="words")
    with pytest.raises(SchemaError, match="no column spilt"):
        audit_leakage(table, by="spilt")
    bare = audit_leakage(table_of(corpus().select(["utt_id", "source"])))
    assert set(bare.not_checked) == {"bytes", "speaker", "text", "generator", "recording"}


@settings(deadline=None, max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=2, max_size=9))
def test_pairs_are_those_that_comparing_all_finds(rows: list[tuple[int, int]]) -> None:
    """Rows are noisy copies of six recordings, each cut somewhere."""
    prints = [
        turned(words(seed), 0.1, number)[7 * (number % 4) :]
        for number, (seed, _) in enumerate(rows)
    ]
    sides = [side for _, side in rows]
    index = RecordingIndex(sum(map(len, prints)))
    for fingerprint in prints:
        index.add(fingerprint)
    found = {
        (left, right)
        for left, right, offset in index.candidates(sides)
        if best_match(prints[left], prints[right], offset)[0] <= 0.25
    }
    expected = {
        (left, right)
        for right in range(len(rows))
        for left in range(right)
        if sides[left] != sides[right]
        and min(bits_apart(prints[left], prints[right], o) for o in range(-21, 22, 7)) <= 0.25
    }
    assert found == expected


def test_words_that_all_rows_have_lead_nowhere_and_silence_neither() -> None:
    hum = np.concatenate([np.zeros(300, np.uint32), np.arange(1, 100, dtype=np.uint32)])
    index = RecordingIndex(100 * len(hum))
    for _ in range(100):
        index.add(hum)
    assert list(index.candidates(np.arange(100))) == []
    assert bits_apart(np.zeros(100, np.uint32), np.zeros(100, np.uint32), 0) == 1


def test_a_part_of_the_words_finds_long_clips() -> None:
    index = RecordingIndex(300_000_000)
    assert index.share_indexed == 0.1
    for seed in range(20):
        index.add(words(seed % 10, 1000))
    found = {(left, right) for left, right, _ in index.candidates(np.arange(20) // 10)}
    assert found == {(seed, seed + 10) for seed in range(10)}


@pytest.mark.parametrize(
    ("name", "utterance", "speaker"),
    [
        ("x/LJ001-0001_gen", "ljspeech/LJ001-0001", "ljspeech/LJ"),
        ("vits/p225_001_mic1", "vctk/p225_001", "vctk/p225"),
        ("19_198_000000_000000", "libritts/19_198_000000_000000", "libritts/19"),
        ("a/1272-128104-0003.flac", "librispeech/1272-128104-0003", "librispeech/1272"),
        ("SSB00050001", "aishell3/SSB00050001", "aishell3/SSB0005"),
        ("BAC009S0002W0122", "aishell1/BAC009S0002W0122", "aishell1/S0002"),
        ("common_voice_en_42", "commonvoice/common_voice_en_42", None),
        ("LA_E_2834763", "asvspoof2019/LA_E_2834763", None),
        ("XLJ001-0001", None, None),
        ("p225_0011", None, None),
        ("2024-10-01", None, None),
        ("", None, None),
    ],
)
def test_names_say_where_a_recording_came_from(name, utterance, speaker) -> None:
    base = base_of([None, name])
    assert (base.utterance if base else None) == utterance
    if speaker:
        assert base is not None
        assert base.speaker == speaker


def test_transcripts_are_compared_without_case_and_punctuation() -> None:
    assert normalized_text("  It’s “NOW”,\n ﬁve—ok_? ") == "its now fiveok"


def test_the_real_pool_shares_what_is_known(shared_dir) -> None:
    with (shared_dir / "data/speech/manifest.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = table_of(
        pa.table(
            {
                "utt_id": [row["path"] for row in rows],
                "source": [row["source"] for row in rows],
                "speaker_id": [row["speaker"] for row in rows],
            }
        )
    )
    audit = audit_leakage(table)
    lj = {
        (x.left, x.right) for x in audit.leaks if x.kind == "speaker" and "ljspeech" in x.examples
    }
    assert len(lj) == 6  # all pairs of the four demo sites


def embedded(rng: np.random.Generator, num_rows: int, num_sides: int) -> pa.Table:
    """Rows of which many are turned copies of others, some have no vector."""
    bases = rng.normal(size=(max(num_rows // 3, 1), 8))
    vectors = bases[rng.integers(0, len(bases), num_rows)] + rng.normal(0, 0.2, (num_rows, 8))
    stored: list[list[float] | None] = [
        None if rng.random() < 0.1 else vector.tolist() for vector in vectors * 3
    ]
    return pa.table(
        {
            "utt_id": [f"u{number}" for number in range(num_rows)],
            "source": [f"s{side}" for side in rng.integers(0, num_sides, num_rows)],
            "voice": pa.array(stored, pa.list_(pa.float32(), 8)),
        }
    )


@pytest.mark.parametrize("held_numbers", [None, 160])
@pytest.mark.parametrize("seed", range(4))
def test_near_embeddings_are_those_of_every_pair(
    seed: int, held_numbers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = embedded(np.random.default_rng(seed), 60, 3)
    if held_numbers:
        monkeypatch.setattr(near_vectors, "_MOST_NUMBERS", held_numbers)
    monkeypatch.setattr(near_vectors, "_TILE", 7)
    found = audit_leakage(table_of(rows, blocks=4), embedding="voice", least_cosine=0.9)
    pairs: dict[tuple[str, str], list[tuple[float, str, str]]] = {}
    listed = [row for row in rows.to_pylist() if row["voice"]]
    share = 1 if held_numbers is None else held_numbers / 8 / 60
    for one in listed:
        for other in listed:
            first, second = np.array(one["voice"]), np.array(other["voice"])
            cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
            held = place(0, one["utt_id"]) < place_below(share)
            if one["source"] < other["source"] and cosine >= 0.9 and held:
                pairs.setdefault((one["source"], other["source"]), []).append(
                    (cosine, one["utt_id"], other["utt_id"])
                )
    leaks = {(leak.left, leak.right): leak for leak in found.leaks if leak.kind == "embedding"}
    assert {sides: leak.num_values for sides, leak in leaks.items()} == {
        sides: len(each) for sides, each in pairs.items()
    }
    assert len(pairs) > 0
    for sides, each in pairs.items():
        assert leaks[sides].num_left_rows == len({one for _, one, _ in each})
        assert leaks[sides].num_right_rows == len({other for _, _, other in each})
        assert leaks[sides].examples[0] == "{1} = {2}".format(*max(each))
    assert ("embedding" in found.not_checked) == (held_numbers is not None)


def test_embeddings_of_two_sizes_are_refused() -> None:
    rows = embedded(np.random.default_rng(0), 9, 1)
    other = rows.set_column(2, "voice", pa.array([[1.0, 2.0]] * 9, pa.list_(pa.float32(), 2)))
    sides = [Side("train", table_of(rows)), Side("test", table_of(other))]
    with pytest.raises(SchemaError, match="differ in size"):
        audit_leakage(sides, embedding="voice")
    with pytest.raises(SchemaError, match="voise"):
        audit_leakage(sides, embedding="voise")
