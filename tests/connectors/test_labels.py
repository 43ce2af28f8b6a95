from __future__ import annotations

import pytest

from connectors.speech.labels import BadLabelError, generator_of, label_of


@pytest.mark.parametrize(
    "word",
    ["bonafide", "bona-fide", "bona fide", "Bona_Fide", "genuine", "REAL", "human", " real "],
)
def test_bona_fide(word: str) -> None:
    assert label_of(word) == "bonafide"


@pytest.mark.parametrize("word", ["spoof", "Fake", "spoofed", "deep-fake", "synthetic"])
def test_spoof(word: str) -> None:
    assert label_of(word) == "spoof"


@pytest.mark.parametrize("word", [None, "", "-", "  "])
def test_no_label(word: str | None) -> None:
    assert label_of(word) is None


@pytest.mark.parametrize("word", ["0", "1", "true", "unrealistic", "nofake", "bonafide spoof"])
def test_what_is_no_label(word: str) -> None:
    with pytest.raises(BadLabelError, match=word):
        label_of(word)


def test_spellings_of_one_corpus() -> None:
    own = {"1": "bonafide", "0": "spoof", "-": "spoof", "real": "spoof"}
    assert [label_of(word, own) for word in ("1", "0", "-", "Real")] == [
        "bonafide",
        "spoof",
        "spoof",
        "spoof",
    ]


def test_generators() -> None:
    assert generator_of("bonafide", "A01") is None
    assert generator_of("spoof", " A01 ") == "A01"
    assert generator_of("spoof", "-") == generator_of("spoof", None) == "unknown"
    assert generator_of(None, "bonafide") is None
    assert generator_of(None, "A01") == "A01"
