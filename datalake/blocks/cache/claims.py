"""Who makes which block: an exclusive lock on a byte for each, and a file that names the maker."""

from __future__ import annotations

import os
import threading
from typing import Final

from datalake.blocks.cache.places import Places
from datalake.blocks.cache.ranges import ByteLocks

__all__ = ["Claims"]

_FIRST_OFFSET: Final = 1 << 62
_OFFSET_BITS: Final = 62


class Claims:
    """Claims of one process, by digest; the kernel ends those of a dead one. Thread-safe."""

    def __init__(self, places: Places, locks: ByteLocks) -> None:
        self._places = places
        self._locks = locks
        self._lock = threading.Lock()
        self._mine: set[str] = set()

    def try_claim(self, digest: str) -> bool:
        """Claim a block; false if a thread of this or any process has done so.

        Raises:
            OSError: there are no locks.
        """
        with self._lock:
            if digest in self._mine or not self._locks.try_exclusive(_offset(digest)):
                return False
            self._mine.add(digest)
            return True

    def end(self, digest: str) -> None:
        """Let others claim the block."""
        with self._lock:
            self._mine.discard(digest)
            self._locks.release(_offset(digest))

    def maker(self, digest: str) -> int | None:
        """The process that makes a block, if there is one that says so."""
        for name, pid, _ in self._places.being_made():
            if name.startswith(digest):
                return pid
        return None

    def sign(self, digest: str) -> str:
        """Make the file that names this process as the maker of a claimed block.

        Raises:
            OSError: it cannot be made.
        """
        path = f"{self._places.new}/{digest}.{os.getpid()}.0"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
        return path


def _offset(digest: str) -> int:
    # The last such offset is the largest that a file can have.
    return _FIRST_OFFSET + (int(digest[:16], 16) >> (64 - _OFFSET_BITS))
