"""The numbers themselves: that they are numbers, within their range, and change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.episodes.statistics import numbers_of
from datalake.episodes.validation.faults import error, first_of, warning
from datalake.errors import InputError
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, Feature, Finding

__all__ = ["constant_action", "non_finite", "out_of_range"]

_INPUTS: Final = ("action", "observation", "state")
"""What the names of features begin with that a policy reads or learns."""

# Of the larger bound: a bound in text and a value in float32 are not quite equal.
_RANGE_SLACK: Final = 1e-6


def non_finite(data: EpisodeData) -> Iterator[Finding]:
    """NaN, infinite values and nulls."""
    for feature in _numeric(data):
        column = data.frames[feature.name]
        found = _values(data, feature)
        if found is None:
            continue
        rows, values = found
        bad = np.zeros(len(column), dtype=bool)
        bad[rows] = ~np.isfinite(values).all(axis=1)
        bad |= np.isin(np.arange(len(column)), rows, invert=True)
        if not bad.any():
            continue
        row, more = first_of(bad)
        say = error if feature.name.startswith(_INPUTS) else warning
        detail = f"expected numbers, found {_odd_one(feature, rows, values, row)}{more}"
        yield say(data, Reason.NON_FINITE, detail, frame=row, feature=feature.name)


def out_of_range(data: EpisodeData) -> Iterator[Finding]:
    """Values outside of `min` and `max` of the feature's info (a number, or one an element)."""
    for feature in _numeric(data):
        least, most = (_bound(feature, name) for name in ("min", "max"))
        found = _values(data, feature) if least is not None or most is not None else None
        if found is None or found[1].shape[1] != feature.num_elements:
            continue
        rows, values = found
        low = np.full(values.shape[1], -np.inf) if least is None else least
        high = np.full(values.shape[1], np.inf) if most is None else most
        bounds = np.abs([low, high])
        slack = _RANGE_SLACK * np.where(np.isfinite(bounds), bounds, 0.0).max(axis=0)
        beyond = (values < low - slack) | (values > high + slack)
        if beyond.any():
            at, more = first_of(np.any(beyond, axis=1))
            element = int(np.argmax(beyond[at]))
            detail = (
                f"expected {low[element]:g} to {high[element]:g},"
                f" found {values[at, element]:g}{_called(feature, element)}{more}"
            )
            frame = int(rows[at])
            yield error(data, Reason.OUT_OF_RANGE, detail, frame=frame, feature=feature.name)


def constant_action(data: EpisodeData) -> Iterator[Finding]:
    """Actions of which no element ever changes."""
    actions = [f for f in _numeric(data) if f.name == "action" or f.name.startswith("action.")]
    moved = False
    seen = False
    for feature in actions:
        found = _values(data, feature)
        if found is not None and len(found[1]) > 1:
            seen = True
            moved = moved or bool((found[1] != found[1][0]).any())
    if seen and not moved:
        detail = f"all {data.frames.num_rows:,} actions are the same"
        yield warning(data, Reason.CONSTANT, detail, frame=0, feature=actions[0].name)


def _numeric(data: EpisodeData) -> list[Feature]:
    names = data.frames.column_names
    return [feature for feature in data.features if feature.is_numeric and feature.name in names]


def _values(
    data: EpisodeData, feature: Feature
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]] | None:
    """The rows that are not null, and their numbers; None where they are none of one shape."""
    column = data.frames[feature.name]
    try:
        values = numbers_of(column)
    except InputError:
        # Named by another rule.
        return None
    return np.flatnonzero(column.is_valid().to_numpy()), values


def _odd_one(
    feature: Feature, rows: npt.NDArray[np.int64], values: npt.NDArray[Any], row: int
) -> str:
    at = int(np.searchsorted(rows, row))
    if at == len(rows) or rows[at] != row:
        return "null"
    element = int(np.argmin(np.isfinite(values[at])))
    return f"{values[at, element]}{_called(feature, element)}"


def _called(feature: Feature, element: int) -> str:
    """Which element, unless there is one only."""
    if feature.num_elements == 1:
        return ""
    named = len(feature.names) == feature.num_elements
    return f" in element {element}" + (f" ({feature.names[element]})" if named else "")


def _bound(feature: Feature, name: str) -> npt.NDArray[np.float64] | None:
    """A declared bound, one an element; None where none is declared that can be used."""
    try:
        bound = np.asarray(feature.info.get(name), dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        return None
    if feature.info.get(name) is None or bound.size not in (1, feature.num_elements):
        return None
    return np.broadcast_to(bound, feature.num_elements)
