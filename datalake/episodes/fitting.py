"""Whether features of one name fit into one set."""

from __future__ import annotations

from datalake.recording import Feature

__all__ = ["is_storable"]


def is_storable(one: Feature, other: Feature) -> bool:
    """Whether one column can hold both: they have one type and, of numbers, one shape.

    (1,) and () are stored alike, and formats differ in what they call it. Sizes of pictures may
    differ.
    """
    if one.dtype != other.dtype:
        return False
    is_scalar = one.num_elements == other.num_elements == 1
    return is_scalar or not one.is_numeric or one.shape == other.shape
