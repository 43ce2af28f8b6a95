"""Whether it pays to tell the kernel what is read next.

Telling costs two microseconds a value. Where files are not in the page cache that saves waiting for
the device; where they are, which is the rule from the second epoch on, it saves nothing.
"""

from __future__ import annotations

import resource
from typing import Final

__all__ = ["Warmth"]

# Reads whose pages came from the device since the last look, in numbers that chance does not reach.
_FEW_FAULTS: Final = 4
_FIRST: Final = 32
_MOST: Final = 4096


class Warmth:
    """Judges by the process's major page faults. Any thread may ask; errors of a race cost little.

    After faults the next looks are told of, twice as many as the time before: faults are gone as
    soon as the kernel is told, and come back when it no longer is and the files are still cold.
    """

    def __init__(self) -> None:
        self._left = self._next = _FIRST
        self._faults = _faults()

    def is_cold(self) -> bool:
        """Whether to tell the kernel of what is about to be read. A microsecond."""
        faults = _faults()
        if faults - self._faults >= _FEW_FAULTS and self._left <= 0:
            self._left = self._next
            self._next = min(2 * self._next, _MOST)
        self._faults = faults
        self._left -= 1
        return self._left >= 0


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
