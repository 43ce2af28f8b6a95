"""Blocks that a process keeps mapped, so that using one again costs no system call."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from contextlib import suppress
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
    """The blocks used last, at most `most_bytes` and 4,096 of them. Thread-safe."""

    def __init__(self, places: Places) -> None:
        self.blocks: OrderedDict[Key, HeldBlock] = OrderedDict()
        """By key, the one used last at the end; may be looked up without the lock."""
        self.most_bytes = 0
        self._places = places
        self._num_bytes = 0
        self._keys: dict[str, Key] = {}
        self._lock = threading.Lock()

    def hold(self, key: Key, block: HeldBlock) -> list[HeldBlock]:
        """Hold a block, and let go of those that are too many: these."""
        dropped = []
        with self._lock:
            former = self.blocks.pop(key, None)
            if former is not None:
                self._num_bytes -= former.size
            self.blocks[key] = block
            self._keys[block.relative] = key
            self._num_bytes += block.size
            while self._num_bytes > self.most_bytes or len(self.blocks) > _MOST_BLOCKS:
                _, oldest = self.blocks.popitem(last=False)
                del self._keys[oldest.relative]
                self._num_bytes -= oldest.size
                dropped.append(oldest)
        for oldest in dropped:
            self._drop(oldest)
        return dropped

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

    def write_times(self) -> None:
        """Write down when the held blocks are expected next, for other processes and later ones."""
        for block in list(self.blocks.values()):
            self._drop(block)

    def forget(self) -> None:
        """In a forked child: hold nothing, and leave the files to the parent."""
        self.blocks.clear()
        self._keys.clear()

    def __del__(self) -> None:
        self.write_times()

    def _drop(self, block: HeldBlock) -> None:
        """Write down its time where other processes see it. The lease goes with the last user."""
        with suppress(OSError):  # Removed meanwhile.
            os.utime(self._places.block(block.relative), ns=(block.time_ns, block.time_ns))
