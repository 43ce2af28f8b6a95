"""How a corpus's features meet those of the set: nothing differs unless somebody said it may.

the same                          stored
only one of the two has it        with `union`, null in the other's frames
names, unit or picture size       with `union`; each episode keeps its own description
type or number of elements        never: one column cannot hold both
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from datalake.episodes.fitting import is_storable
from datalake.errors import SchemaError
from datalake.recording import Feature

__all__ = ["Fit", "difference", "fit"]


@dataclass(frozen=True)
class Fit:
    """The features of a set that is to hold a corpus."""

    features: tuple[Feature, ...]
    """All of them: the set's, then what the corpus adds."""
    added: tuple[Feature, ...] = ()
    """Those that the set lacks so far: null in its older frames."""
    unfilled: tuple[str, ...] = ()
    """Those that the corpus lacks: null in its frames."""


def fit(
    held: Sequence[Feature] | None,
    own: Sequence[Feature],
    *,
    union: bool,
    before: Sequence[Feature] | None,
    where: str,
) -> Fit:
    """What becomes of the set's features when the corpus comes in.

    Args:
        held: the features of the set; None if it holds nothing yet.
        own: the features of the corpus.
        union: whether differences are wanted.
        before: the features of the corpus's episodes in the set, if there are some: what differs
            from the set was allowed then, and needs no second word.
        where: the set, for messages.

    Raises:
        SchemaError: they differ and may not, with each difference.
    """
    if held is None:
        return Fit(tuple(own))
    names = {feature.name for feature in own}
    known = {feature.name: feature for feature in held}
    added = tuple(feature for feature in own if feature.name not in known)
    unfilled = tuple(feature.name for feature in held if feature.name not in names)
    shared = [(known[feature.name], feature) for feature in own if feature.name in known]
    if clashes := [pair for pair in shared if not is_storable(*pair)]:
        raise SchemaError(
            "A feature of the corpus is of another kind than the set's feature of that name",
            where=where,
            found="; ".join(difference(*pair, "the set", "the corpus") for pair in clashes),
            fix="Call the corpus's feature otherwise, such as with --rename"
            f" {clashes[0][1].name}={clashes[0][1].name}.mine; or ingest the corpus into a set of"
            " its own",
        )
    news = [
        *(f"{feature.name} (only in the corpus)" for feature in added),
        *(f"{name} (only in the set)" for name in unfilled),
        *(found for pair in shared if (found := difference(*pair, "the set", "the corpus"))),
    ]
    if news and not union and not (before and _same(before, own)):
        raise SchemaError(
            "The corpus has other features than the set",
            where=where,
            found="; ".join(news),
            fix="Add --union, which leaves null what one of the two lacks; or ingest the corpus"
            " into a set of its own",
        )
    return Fit((*held, *added), added, unfilled)


def _same(one: Sequence[Feature], other: Sequence[Feature]) -> bool:
    theirs = {feature.name: feature for feature in other}
    return theirs.keys() == {feature.name for feature in one} and not any(
        difference(feature, theirs[feature.name], "", "") for feature in one
    )


def difference(one: Feature, other: Feature, here: str, there: str) -> str:
    """In what two features of a name differ, for a person; empty if in nothing that matters.

    Args:
        one: a feature.
        other: another.
        here: where the one is, such as `the set`.
        there: where the other is.
    """
    if one.is_numeric and one.num_elements == other.num_elements == 1:
        # (1,) and () are stored alike, and formats differ in what they call it.
        other = replace(other, shape=one.shape)
    pairs = (
        ("type", one.dtype, other.dtype),
        ("shape", one.shape, other.shape),
        ("unit", one.unit or "none", other.unit or "none"),
        ("names", ", ".join(one.names) or "none", ", ".join(other.names) or "none"),
    )
    found = [
        f"its {what} is {_short(theirs)} in {here} and {_short(ours)} in {there}"
        for what, theirs, ours in pairs
        if theirs != ours
    ]
    # Where the type or the shape differs, the rest follows.
    return f"{one.name} ({found[0]})" if found else ""


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
