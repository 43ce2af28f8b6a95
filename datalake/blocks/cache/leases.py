"""Who uses which block: a shared lock on a byte for each block that a process has mapped."""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from datalake.blocks.cache.ranges import ByteLocks

__all__ = ["Leases"]

# The kernel keeps a file's locks in a list: 1,000 of them cost 10 microseconds a call, 8,000 cost
# 160. So they are spread over files.
_NUM_FILES: Final = 32
_OFFSET_BITS: Final = 62


class Leases:
    """Counted leases of one process, by digest. Thread-safe.

    Raises:
        OSError: as `ByteLocks` does.
    """

    def __init__(self, folder: str) -> None:
        self._files = [ByteLocks(f"{folder}/{index:02x}") for index in range(_NUM_FILES)]
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._evicting: set[str] = set()
        # Mappings die wherever the collector runs, even while this thread holds the lock.
        self._returned: deque[str] = deque()
        self._is_closed = False

    def take(self, digest: str) -> bool:
        """Keep a block from being evicted until it is given back; false while it is evicted."""
        with self._lock:
            self._settle()
            if digest in self._evicting:
                return False
            count = self._counts.get(digest, 0)
            if not count and not self._file(digest).try_shared(_offset(digest)):
                return False
            self._counts[digest] = count + 1
            return True

    def give_back(self, digest: str) -> None:
        """End a lease. Safe in finalizers: what cannot be done at once is done by the next call."""
        self._returned.append(digest)
        if self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def begin_eviction(self, digest: str) -> bool:
        """Keep everybody from leasing a block; false if somebody has it leased."""
        with self._lock:
            self._settle()
            if digest in self._counts or digest in self._evicting:
                return False
            if not self._file(digest).try_exclusive(_offset(digest)):
                return False
            self._evicting.add(digest)
            return True

    def end_eviction(self, digest: str) -> None:
        """Let the block be leased again."""
        with self._lock:
            self._evicting.discard(digest)
            self._file(digest).release(_offset(digest))

    def num_held(self) -> int:
        """How many blocks this process has leased."""
        with self._lock:
            self._settle()
            return len(self._counts)

    def abandon(self) -> None:
        """In a forked child: close the files, whose locks are the parent's."""
        self._is_closed = True
        for file in self._files:
            file.close()

    def _settle(self) -> None:
        while self._returned:
            digest = self._returned.popleft()
            count = self._counts.get(digest, 0) - 1
            if count > 0:
                self._counts[digest] = count
                continue
            self._counts.pop(digest, None)
            if not self._is_closed:
                self._file(digest).release(_offset(digest))

    def _file(self, digest: str) -> ByteLocks:
        return self._files[int(digest[-2:], 16) % _NUM_FILES]


def _offset(digest: str) -> int:
    return int(digest[:16], 16) >> (64 - _OFFSET_BITS)
