"""What LeRobot cannot hold, refused before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from datalake.errors import InputError
from datalake.recording import BOOKKEEPING, Feature

__all__ = ["check_features", "check_same_features"]

_MOST_AXES: Final = 5
# Keys that LeRobot adds to every frame.
_TAKEN: Final = BOOKKEEPING | {"task", "subtask"}


def check_features(features: Sequence[Feature], where: str) -> None:
    """See that LeRobot can hold these features.

    Raises:
        InputError: it cannot hold one; says why and what would help.
    """
    for feature in features:
        if problem := _problem(feature):
            why, fix = problem
            raise InputError(
                f"LeRobot cannot hold the feature {feature.name}",
                where=where,
                found=why,
                fix=fix,
            )


def check_same_features(
    first: Sequence[Feature], first_id: str, other: Sequence[Feature], other_id: str, where: str
) -> None:
    """See that two episodes of one dataset have the same features.

    Raises:
        InputError: they have not, and one dataset cannot hold both.
    """
    firsts, others = ({f.name: f for f in features} for features in (first, other))
    for name in [*firsts, *(name for name in others if name not in firsts)]:
        if name not in firsts or name not in others:
            has, lacks = (first_id, other_id) if name in firsts else (other_id, first_id)
            found = f"{has} has {name}, {lacks} has not"
        elif _meaning(firsts[name]) != _meaning(others[name]):
            found = (
                f"{name} is {_said(firsts[name])} in {first_id}"
                f" and {_said(others[name])} in {other_id}"
            )
        else:
            continue
        raise InputError(
            "A LeRobot dataset has the same features in every episode",
            where=where,
            found=found,
            fix="Export the episodes apart with --where, such as by embodiment or source, or drop"
            " the feature",
        )


def _problem(feature: Feature) -> tuple[str, str] | None:
    """Why a feature cannot be held, and what would help."""
    rename = "Rename it: datalake episodes rename-feature"
    drop = "Drop it: datalake episodes drop-feature"
    if "/" in feature.name:
        return "a slash in its name, which LeRobot uses to nest columns", rename
    if feature.name in _TAKEN:
        return "LeRobot gives a column of its own this name", rename
    if feature.dtype in ("image", "video"):
        if len(feature.shape) != 3:
            return f"a picture of shape {feature.shape}, not (height, width, channels)", drop
    elif feature.dtype == "string":
        if feature.num_elements != 1:
            return f"texts of shape {feature.shape}; it knows one text a frame", drop
    elif not feature.is_numeric:
        return f"its dtype {feature.dtype!r}", drop
    elif len(feature.shape) > _MOST_AXES:
        return f"an array of {len(feature.shape)} axes; it knows {_MOST_AXES} at most", drop
    elif feature.num_elements == 0:
        return f"an empty array, of shape {feature.shape}", drop
    return None


def _meaning(feature: Feature) -> tuple[object, ...]:
    """What must be the same for two episodes to share a column."""
    # Axes of pictures are called channel or channels, as it came.
    names = feature.names if feature.is_numeric else ()
    return feature.dtype, feature.shape or (1,), names


def _said(feature: Feature) -> str:
    named = f" ({', '.join(feature.names)})" if feature.is_numeric and feature.names else ""
    return f"{feature.dtype} of shape {feature.shape or (1,)}{named}"
