"""A file in memory, without a file handle, that says when nobody looks at it any more."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Final

import pyarrow as pa

__all__ = ["Mapping"]

# Python's own mmap keeps a duplicate of the file handle (until 3.13's `trackfd`), and so would run
# out of them at some thousand blocks.
_libc: Final = ctypes.CDLL(None, use_errno=True)
_mmap: Final = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_munmap: Final = _libc.munmap
_munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_PROT_READ: Final = 1
_MAP_SHARED: Final = 1
_FAILED: Final = ctypes.c_void_p(-1).value


class Mapping:
    """The first `size` bytes of an open file, read-only, until the last buffer of it is gone.

    Args:
        fd: the file; it may be closed afterwards.
        size: in bytes, more than 0 and at most the file's.
        released: called once, when the memory is given back, in whichever thread.

    Raises:
        OSError: the kernel refused (too many maps, no such support); nothing is mapped then, and
            `released` is not called.
    """

    __slots__ = ("__weakref__", "_memory", "address", "size")

    def __init__(self, fd: int, size: int, released: Callable[[], None]) -> None:
        address = _mmap(None, size, _PROT_READ, _MAP_SHARED, fd, 0)
        if address == _FAILED or address is None:
            number = ctypes.get_errno()
            raise OSError(number, f"mapping {size} bytes failed: {os.strerror(number)}")
        self.address: int = address
        self.size = size
        self._memory = _Memory(address, size, released)

    def buffer(self, begin: int, size: int) -> pa.Buffer:
        """A part of the memory, which keeps the whole mapped."""
        return pa.foreign_buffer(self.address + begin, size, base=self)


class _Memory:
    """What is unmapped in the end.

    An object of its own, to which nobody has a weak reference: Python runs `__del__` before it
    clears those, so that another thread could get hold of a mapping that is being unmapped.
    """

    __slots__ = ("_address", "_released", "_size")

    def __init__(self, address: int, size: int, released: Callable[[], None]) -> None:
        self._address = address
        self._size = size
        self._released = released

    def __del__(self, _munmap: Callable[[int, int], int] = _munmap) -> None:
        _munmap(self._address, self._size)
        self._released()
