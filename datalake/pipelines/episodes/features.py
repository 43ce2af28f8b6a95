"""How a corpus's features meet those of the set: nothing differs unless somebody said it may.

the same                          stored
only one of the two has it        with `union`, null in the other's frames
names, unit or picture size       with `union`; each episode keeps its own description
type or number of elements        never: one column cannot hold both
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from datalake.errors import SchemaError
from datalake.recording import Feature

__all__ = ["Fit", "differences", "fit"]


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
    is_known: bool,
    where: str,
) -> Fit:
    """What becomes of the set's features when the corpus comes in.

    Args:
        held: the features of the set; None if it is yet to be made.
        own: the features of the corpus.
        union: whether differences are wanted.
        is_known: whether the set has episodes of this corpus: what the set has beyond the corpus's
            features was allowed then, and needs no second word.
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
    clashes, differing = [], []
    for feature in own:
        if feature.name in known:
            found = differences(known[feature.name], feature)
            if found and not _storable(known[feature.name], feature):
                clashes.append(f"{feature.name} ({found})")
            elif found:
                differing.append(f"{feature.name} ({found})")
    if clashes:
        raise SchemaError(
            "A feature of the corpus is of another kind than the set's feature of that name",
            where=where,
            found="; ".join(clashes),
            fix="Ingest the corpus into a set of its own, and rename the feature in one of the two"
            " (datalake episodes rename-feature) before they are merged",
        )
    if not union:
        news = [*(f"{feature.name} (only in the corpus)" for feature in added), *differing]
        if not is_known:
            news += [f"{name} (only in the set)" for name in unfilled]
        if news:
            raise SchemaError(
                "The corpus has other features than the set",
                where=where,
                found="; ".join(news),
                fix="Add --union, which leaves null what one of the two lacks; or ingest the corpus"
                " into a set of its own",
            )
    return Fit((*held, *added), added, unfilled)


def _storable(held: Feature, own: Feature) -> bool:
    """Whether one column can hold both."""
    if held.dtype != own.dtype:
        return False
    return (
        not held.is_numeric or held.shape == own.shape or held.num_elements == own.num_elements == 1
    )


def differences(held: Feature, own: Feature) -> str:
    """In what `own` differs from `held`, for a person; empty if in nothing that matters."""
    if held == replace(own, info=held.info):
        return ""
    if held.is_numeric and held.num_elements == own.num_elements == 1:
        held = replace(held, shape=own.shape)
    pairs = (
        ("the type", held.dtype, own.dtype),
        ("the shape", held.shape, own.shape),
        ("the unit", held.unit or "none", own.unit or "none"),
        ("the names", ", ".join(held.names) or "none", ", ".join(own.names) or "none"),
    )
    return ", ".join(
        f"{what} is {_short(theirs)} in the set and {_short(ours)} in the corpus"
        for what, theirs, ours in pairs
        if theirs != ours
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
