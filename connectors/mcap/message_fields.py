"""A message of any encoding as fields: what decoders make and the plan of an episode reads.

Fields are named by their path, such as `header.stamp` or `pose.position.x`. A value is

- a NumPy array of the message's own type, () for a number and (n,) for an array (matrices in C
  order; bytes are uint8),
- a `Nanoseconds` for a time,
- a str, or a list of them.

Of an array of messages each field becomes one array, its elements one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Fields", "Nanoseconds", "merged", "stamp_of"]

Fields: TypeAlias = dict[str, Any]

_STAMPS = ("header.stamp", "timestamp", "stamp", "header.timestamp")


class Nanoseconds(int):
    """A point in time or a span, told apart from numbers that are data."""


def merged(rows: Sequence[Fields]) -> Fields:
    """The fields of an array of messages."""
    found: Fields = {}
    for key in rows[0] if rows else ():
        values = [row[key] for row in rows if key in row]
        if isinstance(values[0], Nanoseconds):
            continue
        if isinstance(values[0], str):
            found[key] = values
        elif isinstance(values[0], list):
            found[key] = [text for texts in values for text in texts]
        else:
            found[key] = np.concatenate([np.atleast_1d(value) for value in values])
    return found


def stamp_of(fields: Fields) -> int | None:
    """When the message says that it was made, in nanoseconds; None if it does not, or says 0."""
    for name in _STAMPS:
        value = fields.get(name)
        if isinstance(value, Nanoseconds) and value > 0:
            return int(value)
    return None
