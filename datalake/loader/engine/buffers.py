"""Memory for batches, used over and over.

Fresh memory costs a page fault for every 4 KiB, on many machines more than filling it. An array of
a batch goes back by itself when the trainer has let go of it and of all views of it.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake import forks

__all__ = ["Buffers"]

# Smaller arrays are cheap to make, and the allocator recycles them itself.
_LEAST_BYTES: Final = 1 << 16
_ALIGNMENT: Final = 64

Block = npt.NDArray[np.uint8]


def _num_uses(blocks: list[Block], index: int) -> int:
    return sys.getrefcount(blocks[index])


# Of a block that only the pool holds. Asked of Python, as versions may count their own uses.
_UNUSED: Final = _num_uses([np.empty(0, np.uint8)], 0)


class Buffers:
    """A pool of blocks of memory. Thread-safe; what is free and no longer wanted is let go.

    Args:
        new: makes a block of so many bytes (page-locked or shared memory, say); None for plain
            memory.
    """

    def __init__(self, new: Callable[[int], Block] | None = None) -> None:
        self._new = new or _plain
        self._lock = threading.Lock()
        self._blocks: list[Block] = []
        forks.register(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()

    def allocate(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An uninitialised array. Its memory is used again once nothing refers to it any more."""
        kind = np.dtype(dtype)
        num_bytes = math.prod(shape) * kind.itemsize
        if num_bytes < _LEAST_BYTES:
            return np.empty(shape, kind)
        block = self._block(num_bytes + _ALIGNMENT)
        start = -block.ctypes.data % _ALIGNMENT
        return block[start : start + num_bytes].view(kind).reshape(shape)

    @property
    def num_bytes(self) -> int:
        """Memory that the pool holds, in use or free."""
        with self._lock:
            return sum(block.nbytes for block in self._blocks)

    def _block(self, num_bytes: int) -> Block:
        with self._lock:
            free = [i for i in range(len(self._blocks)) if _num_uses(self._blocks, i) == _UNUSED]
            fitting = [index for index in free if self._blocks[index].nbytes >= num_bytes]
            best = min(fitting, key=lambda index: self._blocks[index].nbytes, default=None)
            if best is not None and self._blocks[best].nbytes <= 2 * num_bytes:
                return self._blocks[best]
            # Batches changed their size: what is free will not be wanted again soon.
            for index in reversed(free):
                del self._blocks[index]
            # Some room, as lengths vary from batch to batch.
            block = self._new(num_bytes + num_bytes // 8)
            self._blocks.append(block)
            return block


def _plain(num_bytes: int) -> Block:
    # It must own its memory: numpy makes views refer to the owner, and so does the count of uses.
    return np.empty(num_bytes, np.uint8)
