"""A feature: one named array of each frame, such as `observation.state` or `action`.

Feature names have dots, as LeRobot writes them; stored columns have slashes in their place, since
Lance takes a dot for a path into a struct. LeRobot allows no slash in a name, so the two are one to
one. Everything a user sees has dots.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from datalake.errors import InputError
from datalake.schema import media_field

__all__ = ["NUMERIC_DTYPES", "Feature", "column_of", "feature_of"]

NUMERIC_DTYPES: Final[Mapping[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}
"""The names of numbers, as NumPy has them, and their stored types."""


def column_of(feature: str) -> str:
    """The stored column of a feature: `observation.state` lies in `observation/state`."""
    return feature.replace(".", "/")


def feature_of(column: str) -> str:
    """The feature that a stored column holds."""
    return column.replace("/", ".")


@dataclass(frozen=True)
class Feature:
    """One named array of each frame, and what is known of it."""

    name: str
    dtype: str
    """A key of `NUMERIC_DTYPES`, `string`, `image` (one encoded picture a frame) or `video`."""
    shape: tuple[int, ...] = ()
    """Of one frame's value. Pictures are (height, width, channels)."""
    names: tuple[str, ...] = ()
    """What each element of a vector, or each axis of a larger array, is called; may be empty."""
    unit: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    """What the source says beyond this, as JSON values; its own format's writer gives it back."""

    @property
    def num_elements(self) -> int:
        """Numbers in one frame's value."""
        return math.prod(self.shape)

    @property
    def is_numeric(self) -> bool:
        """Whether a frame's value is an array of numbers."""
        return self.dtype in NUMERIC_DTYPES

    @property
    def column(self) -> str:
        """The column of the frames table; that of a video has no column there."""
        return column_of(self.name)

    @property
    def arrow_type(self) -> pa.DataType:
        """The stored type of a frame's value.

        One element is a scalar whatever its shape; more are a flat list of fixed size, in C order.

        Raises:
            InputError: the dtype is not known, or it is a video's, which is no column.
        """
        if self.dtype in NUMERIC_DTYPES:
            item = NUMERIC_DTYPES[self.dtype]
            return item if self.num_elements == 1 else pa.list_(item, self.num_elements)
        if self.dtype == "string":
            return pa.string()
        if self.dtype == "image":
            return pa.large_binary()
        raise InputError(
            f"The feature {self.name} has no column type",
            expected=f"one of {', '.join([*NUMERIC_DTYPES, 'string', 'image'])}",
            found=self.dtype,
        )

    def field(self) -> pa.Field:
        """The column of the frames table."""
        if self.dtype == "image":
            return media_field(self.column, "image")
        return pa.field(self.column, self.arrow_type)

    def as_row(self) -> dict[str, Any]:
        """The feature as an element of the column `features` of the episodes table."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "names": list(self.names),
            "unit": self.unit,
            "info": json.dumps(self.info, sort_keys=True) if self.info else None,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Feature:
        """The feature that `as_row` made `row` of."""
        return cls(
            row["name"],
            row["dtype"],
            tuple(row["shape"]),
            tuple(row["names"] or ()),
            row["unit"],
            json.loads(row["info"]) if row["info"] else {},
        )

    @staticmethod
    def dump(features: Sequence[Feature]) -> str:
        """Features as text (JSON), for a property of a version."""
        return json.dumps([feature.as_row() for feature in features])

    @staticmethod
    def load(text: str) -> tuple[Feature, ...]:
        """Features from the text that `dump` made."""
        return tuple(Feature.from_row(row) for row in json.loads(text))
