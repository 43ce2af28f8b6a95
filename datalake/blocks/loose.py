"""Rows fetched ahead one by one, kept until they are read."""

from __future__ import annotations

import threading

import numpy as np

from datalake.blocks.opened import MediaBlock, Rows

__all__ = ["LooseRows"]


class LooseRows:
    """Rows of media in this process's memory, each until it was read once. Thread-safe.

    Args:
        most_bytes: kept; what comes when it is full makes those go that came first.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        # By column: where each row is.
        self._places: dict[str, dict[int, tuple[MediaBlock, int]]] = {}
        self._blocks: dict[MediaBlock, tuple[str, Rows]] = {}
        self._num_bytes = 0

    def put(self, column: str, rows: Rows, block: MediaBlock) -> None:
        """Keep rows, which a block holds in this order."""
        with self._lock:
            places = self._places.setdefault(column, {})
            places.update((row, (block, index)) for index, row in enumerate(rows.tolist()))
            self._blocks[block] = (column, rows)
            self._num_bytes += block.batch.nbytes
            while self._num_bytes > self._most_bytes and len(self._blocks) > 1:
                self._drop(next(iter(self._blocks)))

    def unknown(self, column: str, rows: Rows) -> list[int]:
        """Those of the rows that are not here, each once, in order."""
        with self._lock:
            places = self._places.get(column, {})
            return [row for row in dict.fromkeys(rows.tolist()) if row not in places]

    def take(self, column: str, rows: Rows) -> tuple[MediaBlock, Rows] | None:
        """All these rows out of one block, and where they are in it; None if that is not so."""
        with self._lock:
            places = self._places.get(column, {})
            found = [places.get(row) for row in rows.tolist()]
            blocks = {place[0] for place in found if place is not None}
            if None in found or len(blocks) != 1:
                return None
            block = blocks.pop()
            for row in rows.tolist():
                places.pop(row, None)
            if not any(row in places for row in self._blocks[block][1].tolist()):
                self._drop(block)
            local = [place[1] for place in found if place is not None]
            return block, np.array(local, np.int64)

    def _drop(self, block: MediaBlock) -> None:
        column, rows = self._blocks.pop(block)
        places = self._places[column]
        for row in rows.tolist():
            if places.get(row, (None,))[0] is block:
                del places[row]
        self._num_bytes -= block.batch.nbytes
