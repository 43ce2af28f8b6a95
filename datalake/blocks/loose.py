"""Rows fetched ahead one by one, kept until they are read."""

from __future__ import annotations

import threading
import weakref
from collections import deque

import numpy as np

from datalake.blocks.opened import MediaBlock, Rows

__all__ = ["LooseRows"]


class LooseRows:
    """Rows of media in this process's memory, each until it was read once. Thread-safe.

    The rows belong to whoever asked for them: they go when the last one who holds what `put` was
    given lets go of it, read or not. So no row is dropped while its reader is still to come.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By column: where each row is.
        self._places: dict[str, dict[int, tuple[weakref.ref[MediaBlock], int]]] = {}
        # Blocks die wherever the collector runs, even while this thread holds the lock.
        self._dead: deque[tuple[str, Rows, weakref.ref[MediaBlock]]] = deque()

    def put(self, column: str, rows: Rows, block: MediaBlock) -> None:
        """Know rows, which a block holds in this order, as long as the block lives."""
        reference = weakref.ref(block, lambda dead: self._dead.append((column, rows, dead)))
        with self._lock:
            self._settle()
            places = self._places.setdefault(column, {})
            places.update((row, (reference, index)) for index, row in enumerate(rows.tolist()))

    def unknown(self, column: str, rows: Rows) -> list[int]:
        """Those of the rows that are not here, each once, in order."""
        with self._lock:
            self._settle()
            places = self._places.get(column, {})
            return [row for row in dict.fromkeys(rows.tolist()) if row not in places]

    def take(self, column: str, rows: Rows) -> tuple[MediaBlock, Rows] | None:
        """All these rows out of one block, and where they are in it; None if that is not so."""
        with self._lock:
            self._settle()
            places = self._places.get(column, {})
            found = [places.get(row) for row in rows.tolist()]
            there = [place for place in found if place is not None]
            references = {place[0] for place in there}
            if len(there) < len(found) or len(references) != 1:
                return None
            block = references.pop()()
            if block is None:
                return None
            for row in rows.tolist():
                places.pop(row, None)
            return block, np.array([place[1] for place in there], np.int64)

    def _settle(self) -> None:
        while self._dead:
            column, rows, dead = self._dead.popleft()
            places = self._places[column]
            for row in rows.tolist():
                if places.get(row, (None,))[0] is dead:
                    del places[row]
