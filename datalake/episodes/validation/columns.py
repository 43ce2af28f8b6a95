"""Columns against what the features declare."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from datalake.episodes.statistics import numbers_of
from datalake.episodes.validation.faults import error, first_of, warning
from datalake.errors import InputError
from datalake.quarantine import Reason
from datalake.recording import BOOKKEEPING, EpisodeData, Feature, Finding

__all__ = ["absent_columns", "odd_columns", "undeclared_columns"]


def absent_columns(data: EpisodeData) -> Iterator[Finding]:
    """A declared feature that has no column."""
    for feature in _kept(data):
        if feature.name not in data.frames.column_names:
            detail = f"expected {_declared(feature)}, found no such column"
            yield error(data, Reason.SHAPE_CHANGED, detail, feature=feature.name)


def odd_columns(data: EpisodeData) -> Iterator[Finding]:
    """A column of another shape or type than its feature declares."""
    for feature in _kept(data):
        if feature.name not in data.frames.column_names:
            continue
        column = data.frames[feature.name]
        if column.type == feature.arrow_type:
            continue
        detail = f"expected {_declared(feature)}, found {column.type}"
        frame = None
        if feature.is_numeric:
            try:
                values = numbers_of(column)
                detail = (
                    f"expected {_declared(feature)}, found {values.dtype} of {values.shape[1]}"
                    f" {'number' if values.shape[1] == 1 else 'numbers'} ({column.type})"
                )
            except InputError as fault:
                frame, more = _first_odd_row(data, feature)
                detail = f"{detail}: {fault.found}{more}"
        yield error(data, Reason.SHAPE_CHANGED, detail, frame=frame, feature=feature.name)


def undeclared_columns(data: EpisodeData) -> Iterator[Finding]:
    """Columns that are neither features nor bookkeeping."""
    known = {feature.name for feature in data.features} | BOOKKEEPING
    for name in data.frames.column_names:
        if name not in known:
            detail = f"the column {name} is no declared feature: it is left out"
            yield warning(data, Reason.METADATA_MISMATCH, detail, feature=name)


def _kept(data: EpisodeData) -> Iterator[Feature]:
    return (feature for feature in data.features if feature.dtype != "video")


def _declared(feature: Feature) -> str:
    shape = "×".join(map(str, feature.shape)) or "1"
    return f"{feature.dtype} of {shape}"


def _first_odd_row(data: EpisodeData, feature: Feature) -> tuple[int | None, str]:
    sizes = [
        np.size(row) if row is not None else 0 for row in data.frames[feature.name].to_pylist()
    ]
    bad = np.array(sizes) != feature.num_elements
    return first_of(bad) if bad.any() else (None, "")
