"""A binary column of a table on an object store, by parts of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["Range", "Ranged"]

Range: TypeAlias = tuple[int, int, int]
"""A row, and the first byte of its value and the one after the last."""


class Ranged(Protocol):
    """Values of one binary column of one version that a store gives by ranges.

    Thread-safe and picklable. Holds some 100 bytes a row that was asked for.
    """

    def read(self, ranges: Sequence[Range]) -> list[bytes]:
        """The bytes of each range, in order.

        Raises:
            StoreError: the store does not give them, or what lies there is no value.
            NotFoundError: a file is gone, since the version was cleaned up.
        """
        ...

    def __getstate__(self) -> Any: ...
