"""Blocks that a reader keeps open: as many as it may, those used last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from datalake.blocks.opened import Block

__all__ = ["OpenBlocks"]

_MOST_BLOCKS: Final = 8192  # A process may have 65,530 maps.


class OpenBlocks:
    """Open blocks by column and number. Thread-safe; looking one up takes no lock.

    Args:
        most_mapped: gives the bytes of blocks that lie in the cache, which cannot evict them
            meanwhile. Asked once there is such a block, so that the cache is not opened in vain.
        most_memory: bytes of blocks that lie in this process's memory.
    """

    def __init__(self, *, most_mapped: Callable[[], int], most_memory: int) -> None:
        self._most_mapped = most_mapped
        self._most_memory = most_memory
        self._lock = threading.Lock()
        self._blocks: dict[tuple[str, int], Block] = {}
        # In the order of opening; one that is used again meanwhile gets a second chance.
        self._sizes: dict[bool, dict[tuple[str, int], int]] = {True: {}, False: {}}
        self._num_bytes = {True: 0, False: 0}
        self._used: set[tuple[str, int]] = set()

    def get(self, column: str, number: int) -> Block | None:
        """A block, if it is open."""
        place = (column, number)
        block = self._blocks.get(place)
        if block is not None:
            self._used.add(place)
        return block

    def put(
        self, column: str, number: int, block: Block, num_bytes: int, *, is_mapped: bool
    ) -> None:
        """Keep a block open, and close those for which there is no room then."""
        place = (column, number)
        most_bytes = self._most_mapped() if is_mapped else self._most_memory
        with self._lock:
            for kind, known in self._sizes.items():
                self._num_bytes[kind] -= known.pop(place, 0)
            sizes = self._sizes[is_mapped]
            self._blocks[place] = block
            sizes[place] = num_bytes
            self._num_bytes[is_mapped] += num_bytes
            while len(sizes) > 1 and (
                len(sizes) > _MOST_BLOCKS or self._num_bytes[is_mapped] > most_bytes
            ):
                oldest, held = next(iter(sizes.items()))
                del sizes[oldest]
                if oldest in self._used and oldest != place:
                    self._used.discard(oldest)
                    sizes[oldest] = held
                elif oldest == place:
                    sizes[oldest] = held  # The one just opened goes last.
                    self._used.clear()
                else:
                    del self._blocks[oldest]
                    self._num_bytes[is_mapped] -= held

    def pin(self, column: str, number: int, block: Block) -> None:
        """Keep a block open whatever comes."""
        place = (column, number)
        with self._lock:
            for kind, known in self._sizes.items():
                self._num_bytes[kind] -= known.pop(place, 0)
            self._blocks[place] = block

    def drop(self, column: str, number: int) -> None:
        """Close a block; one that is pinned stays."""
        place = (column, number)
        with self._lock:
            for kind, known in self._sizes.items():
                size = known.pop(place, None)
                if size is not None:
                    self._num_bytes[kind] -= size
                    self._blocks.pop(place, None)
            self._used.discard(place)

    def reset_lock(self) -> None:
        """In a forked child: another thread of the parent may have held it."""
        self._lock = threading.Lock()
