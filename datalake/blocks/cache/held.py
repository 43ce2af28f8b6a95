"""Blocks that a process keeps mapped, so that using one again costs no system call."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from datalake.blocks.cache.key import Key
from datalake.blocks.cache.places import Places

__all__ = ["Held", "HeldBlock"]

_MOST_BLOCKS: Final = 4096  # A process may have 65,530 maps, and few thousand locks are quick.


class HeldBlock:
    """A mapped block. `time_ns`: when it was used last or is expected next."""

    __slots__ = ("batch", "relative", "size", "time_ns")

    def __init__(self, batch: pa.RecordBatch, relative: str, size: int, time_ns: int) -> None:
        self.batch = batch
        self.relative = relative
        self.size = size
        self.time_ns = time_ns


class Held:
    """The blocks used last, at most so many bytes and 4,096 of them. Thread-safe.

    Args:
        places: the directory.
        most_bytes: bound of the sum of their sizes.
        noted: told the time of a block that is held no longer.
    """

    def __init__(self, places: Places, most_bytes: int, noted: Callable[[str, int], None]) -> None:
        self.blocks: OrderedDict[Key, HeldBlock] = OrderedDict()
        """By key, the one used last at the end; may be looked up without the lock."""
        self._places = places
        self._most_bytes = most_bytes
        self._noted = noted
        self._num_bytes = 0
        self._keys: dict[str, Key] = {}
        self._lock = threading.Lock()

    def hold(self, key: Key, block: HeldBlock) -> None:
        """Hold a block, and let go of those that are too many."""
        dropped = []
        with self._lock:
            former = self.blocks.pop(key, None)
            if former is not None:
                self._num_bytes -= former.size
            self.blocks[key] = block
            self._keys[block.relative] = key
            self._num_bytes += block.size
            while self._num_bytes > self._most_bytes or len(self.blocks) > _MOST_BLOCKS:
                _, oldest = self.blocks.popitem(last=False)
                del self._keys[oldest.relative]
                self._num_bytes -= oldest.size
                dropped.append(oldest)
        for oldest in dropped:
            self._drop(oldest)

    def time_ns(self, relative: str) -> int | None:
        """When a held block was used last or is expected next."""
        key = self._keys.get(relative)
        block = self.blocks.get(key) if key is not None else None
        return None if block is None else block.time_ns

    def let_go(self, relative: str) -> None:
        """Hold a block no longer."""
        with self._lock:
            key = self._keys.pop(relative, None)
            block = self.blocks.pop(key, None) if key is not None else None
            if block is None:
                return
            self._num_bytes -= block.size
        self._drop(block)

    def let_all_go(self) -> None:
        """Hold nothing any more."""
        for relative in list(self._keys):
            self.let_go(relative)

    def _drop(self, block: HeldBlock) -> None:
        """Write down its time where other processes see it. The lease goes with the last user."""
        try:
            os.utime(self._places.blocks / block.relative, ns=(block.time_ns, block.time_ns))
        except OSError:
            return  # Removed meanwhile.
        self._noted(block.relative, block.time_ns)
