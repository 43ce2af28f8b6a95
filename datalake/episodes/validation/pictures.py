"""Encoded pictures, one a frame."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from datalake.episodes.validation.faults import error, first_of
from datalake.quarantine import Reason
from datalake.recording import EpisodeData, Finding

__all__ = ["empty_pictures"]


def empty_pictures(data: EpisodeData) -> Iterator[Finding]:
    """Pictures without bytes."""
    for feature in data.features:
        if feature.dtype != "image" or feature.name not in data.frames.column_names:
            continue
        column = data.frames[feature.name]
        if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
            continue
        sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy()
        if (bad := sizes == 0).any():
            row, more = first_of(bad)
            detail = f"expected a picture, found no bytes{more}"
            yield error(data, Reason.EMPTY, detail, frame=row, feature=feature.name)
