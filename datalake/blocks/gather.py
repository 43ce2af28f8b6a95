"""Many arrays copied to their places in a batch: one by one, or all in one call.

numpy gives Python's lock back for each copy and takes it again. Where several threads make batches
they wait for it after nearly every one, and on an idle machine it takes a sleeping thread longer to
wake than a clip or a picture takes to copy. A thread may have a `Gatherer` that needs the lock once
for all of them; the loader's threads do, as torch has such calls.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["ONE_BY_ONE", "Gatherer", "gatherer", "set_gatherer"]

Arrays = Sequence[npt.NDArray[Any]]


class Gatherer(Protocol):
    """Works on several arrays at once. They do not overlap."""

    def copy(self, into: Arrays, values: Arrays, factor: float | None = None) -> None:
        """Fill arrays from others of the same shapes, cast, times a factor if there is one."""
        ...

    def zero(self, arrays: Arrays) -> None:
        """Fill arrays with zeros."""
        ...


class _OneByOne:
    def copy(self, into: Arrays, values: Arrays, factor: float | None = None) -> None:
        # Two passes over an array, of which the second finds all in the cache, are quicker than
        # one that converts and scales at once.
        for out, value in zip(into, values, strict=True):
            out[...] = value
            if factor is not None:
                np.multiply(out, out.dtype.type(factor), out=out)

    def zero(self, arrays: Arrays) -> None:
        for array in arrays:
            array[...] = 0


ONE_BY_ONE: Final[Gatherer] = _OneByOne()
"""numpy's own copies, one after the other."""

_own = threading.local()


def gatherer() -> Gatherer:
    """What this thread copies with."""
    found: Gatherer = getattr(_own, "gatherer", ONE_BY_ONE)
    return found


def set_gatherer(other: Gatherer) -> None:
    """Let this thread copy with another one from now on. The results are the same."""
    _own.gatherer = other
