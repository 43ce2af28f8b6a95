"""Every spelling of bona fide and spoof that corpora use, in one place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from datalake.schema import BONAFIDE, SPOOF

__all__ = ["UNKNOWN_GENERATOR", "BadLabelError", "generator_of", "label_of"]

UNKNOWN_GENERATOR: Final = "unknown"
"""The generator of a spoof whose corpus does not say what made it."""

_SPELLINGS: Final = {
    **dict.fromkeys(
        ("bonafide", "genuine", "real", "human", "authentic", "truthful", "nonspoof"), BONAFIDE
    ),
    **dict.fromkeys(
        ("spoof", "spoofed", "fake", "deepfake", "synthetic", "synthesized", "generated"), SPOOF
    ),
}
_SEPARATORS: Final = re.compile(r"[\s_-]+")
_NOTHING: Final = frozenset({"", "-", "bonafide"})


class BadLabelError(ValueError):
    """A label that is none of the spellings. Becomes a refused row and leaves no connector."""


def label_of(spelling: str | None, own: Mapping[str, str] | None = None) -> str | None:
    """`bonafide` or `spoof` for a corpus's spelling; None for none ("", "-").

    Case, spaces, hyphens and underscores do not count. Numbers mean opposite things in different
    corpora, so they count only where `own` says.

    Args:
        spelling: what the corpus wrote.
        own: spellings of this corpus alone, in lower case, and the label that each means.

    Raises:
        BadLabelError: it is no spelling of either.
    """
    if spelling is None:
        return None
    word = spelling.strip().lower()
    if own and word in own:
        return own[word]
    if word in ("", "-"):
        return None
    label = _SPELLINGS.get(word) or _SPELLINGS.get(_SEPARATORS.sub("", word))
    if label is None:
        raise BadLabelError(f"{spelling!r} is no spelling of bona fide or spoof")
    return label


def generator_of(label: str | None, name: str | None) -> str | None:
    """The generator to store: None for bona fide, and a spoof always has one.

    Corpora put "-", "" or "bonafide" where there is no attack.
    """
    if label == BONAFIDE:
        return None
    known = None if name is None or name.strip().lower() in _NOTHING else name.strip()
    return known or (UNKNOWN_GENERATOR if label == SPOOF else None)
