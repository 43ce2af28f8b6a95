"""Which well-known corpus a recording came from, read from the names that derived corpora keep."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Base", "base_of"]


@dataclass(frozen=True)
class Base:
    """What a name says about where a recording came from."""

    corpus: str
    speaker: str
    """`<corpus>/<the corpus's own speaker>`."""
    utterance: str
    """`<corpus>/<the corpus's own utterance>`."""


# Not within a longer word or number; the first group is the utterance, the second the speaker.
_PATTERNS: Final = tuple(
    (corpus, re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![0-9])"))
    for corpus, pattern in (
        ("ljspeech", r"((LJ)\d{3}-\d{4})"),
        ("vctk", r"((p[2-3]\d{2}|s5)_\d{3})"),
        # Before LibriSpeech, whose names are beginnings of these.
        ("libritts", r"((\d{2,5})_\d{2,7}_\d{6}_\d{6})"),
        ("librispeech", r"((\d{2,5})-\d{3,7}-\d{4})"),
        ("aishell3", r"((SSB\d{4})\d{4})"),
        ("aishell1", r"(BAC\d{3}(S\d{4})W\d{4})"),
        ("commonvoice", r"(common_voice_[a-z]{2}_\d+)()"),
        ("asvspoof2019", r"((LA|PA)_[TDE]_\d{7})"),
    )
)


def base_of(texts: Iterable[str | None]) -> Base | None:
    """The base of a recording by the first of its names that has the shape of a corpus's ids.

    LJ Speech (LJ001-0001), VCTK (p225_001), LibriTTS, LibriSpeech (1234-5678-0001), AISHELL-1 and
    -3, Common Voice, ASVspoof 2019. A name that was changed is not found, and an id of another
    corpus may have such a shape by chance: a hint to look at, not a proof.
    """
    for text in texts:
        for corpus, pattern in _PATTERNS if text else ():
            if found := pattern.search(str(text)):
                utterance, speaker = found[1], found[2] or found[1]
                return Base(corpus, f"{corpus}/{speaker}", f"{corpus}/{utterance}")
    return None
