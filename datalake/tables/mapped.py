"""A binary column of a local table, read in place: mapped into memory, nothing copied."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bytes", "Mapped"]

Bytes: TypeAlias = npt.NDArray[np.uint8]


class Mapped(Protocol):
    """The values of one media column of one version, by row index, where they lie.

    Thread-safe and picklable (a copy maps the files again). A view stays valid as long as it is
    referenced, whatever becomes of the table. Memory does not grow with the table.
    """

    def views(self, rows: npt.NDArray[np.int64]) -> list[Bytes | None]:
        """Each row's bytes, read-only, (size,) each; None for null. Some .5 microseconds a row.

        Raises:
            StoreError: the file is cut, or what lies there is no value of this column.
        """
        ...

    def sizes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Each row's number of bytes, (n,); 0 for null."""
        ...

    def advise(self, rows: npt.NDArray[np.int64]) -> int:
        """Tell the kernel that these rows are wanted soon; returns how many bytes that is."""
        ...

    def prepare(self) -> None:
        """Look up all that reading needs, so that a forked process needs the format no more.

        Raises:
            StoreError: some rows are stored in a way that only the format's own library reads.
        """
        ...

    def __getstate__(self) -> Any: ...
