"""Columns of a table of frames as arrays, in the shapes of their features."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.blocks.reader import TableReader
from datalake.errors import InputError
from datalake.recording import NUMERIC_DTYPES, Feature, feature_of
from datalake.schema import is_media

__all__ = ["feature_of_field", "read_feature", "refuse_gaps", "value_shape"]


def read_feature(
    reader: TableReader, feature: Feature, rows: npt.NDArray[np.int64]
) -> npt.NDArray[Any]:
    """Values of a feature of numbers, (*rows.shape, *shape), or of strings, objects.

    Raises:
        InputError: some frame has no value.
    """
    if not feature.is_numeric:
        texts = reader.texts(feature.column, rows.ravel())
        if None in texts:
            raise refuse_gaps(feature)
        found = np.empty(len(texts), dtype=object)
        found[:] = texts
        return found.reshape(rows.shape)
    try:
        values = reader.numbers(feature.column, rows.ravel())
    except InputError as error:
        raise refuse_gaps(feature) from error
    if values.dtype.kind == "f" and _has_gaps(reader, feature, rows.ravel(), values):
        raise refuse_gaps(feature)
    return values.reshape(*rows.shape, *value_shape(feature))


def _has_gaps(
    reader: TableReader,
    feature: Feature,
    rows: npt.NDArray[np.int64],
    values: npt.NDArray[Any],
) -> bool:
    """Whether some row is null; the reader gives NaN there, which may be a value, too."""
    firsts = values if values.ndim == 1 else values[:, 0]
    if not np.isnan(firsts).any():
        return False
    filled = reader.numbers(feature.column, rows, fill=0)
    return bool((np.isnan(firsts) & ~np.isnan(filled if values.ndim == 1 else filled[:, 0])).any())


def value_shape(feature: Feature) -> tuple[int, ...]:
    """The shape of one value. A vector of one element is a scalar, as LeRobot has it."""
    return () if len(feature.shape) <= 1 and feature.num_elements == 1 else feature.shape


def refuse_gaps(feature: Feature) -> InputError:
    """The error for frames without a value."""
    return InputError(
        f"Some of these frames have no {feature.name}",
        found="episodes that lack the feature, or null in it",
        fix="Leave the feature out with columns=…, or take other rows",
    )


def feature_of_field(field: pa.Field) -> Feature | None:
    """The feature that a column of a plain table is; None where it is no kind of feature."""
    kind, shape = field.type, (1,)
    if pa.types.is_fixed_size_list(kind):
        kind, shape = kind.value_type, (kind.list_size,)
    if pa.types.is_string(kind) and shape == (1,):
        return Feature(feature_of(field.name), "string", (1,))
    names = [name for name, numeric in NUMERIC_DTYPES.items() if numeric == kind]
    if not names or is_media(field):
        return None
    return Feature(feature_of(field.name), names[0], shape)
