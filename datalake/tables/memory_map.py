"""Files mapped into memory without a file handle each.

`mmap.mmap` of Python before 3.13 keeps a handle as long as the map lives, and a table of some
thousand files would use them all up. Here the C library is called, and the file is closed at once.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from datalake.tables.mapped import Bytes

__all__ = ["can_map", "map_file", "will_need"]

_WILL_NEED: Final = getattr(mmap, "MADV_WILLNEED", 3)


@cache
def _libc() -> Any:
    """The C library, with the calls declared."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_ssize_t,  # off_t, of 64 bits on the systems that `can_map` lets pass.
    ]
    libc.munmap.restype = ctypes.c_int
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.restype = ctypes.c_int
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def can_map() -> bool:
    """Whether this system maps files: a 64-bit, little-endian Unix."""
    return os.name == "posix" and sys.byteorder == "little" and sys.maxsize > 1 << 32


class _Region:
    """A mapped range of addresses, let go when nothing refers to it any more."""

    def __init__(self, address: int, size: int) -> None:
        self._address, self._size = address, size
        # Held here, since at the end of the process the module may go first.
        self._unmap: Callable[[int, int], int] = _libc().munmap
        self.__array_interface__: Final = {
            "version": 3,
            "data": (address, True),
            "shape": (size,),
            "typestr": "|u1",
        }

    def __del__(self) -> None:
        self._unmap(self._address, self._size)


def map_file(descriptor: int, size: int) -> Bytes:
    """The first `size` bytes of an open file, (size,), read-only; the file may be closed then.

    The caller knows that the file is as long as that: a byte beyond its end, or one that the disk
    cannot give, ends the process (SIGBUS), whatever anybody does about it.

    Raises:
        OSError: the system refused.
    """
    shared, readable = mmap.MAP_SHARED, mmap.PROT_READ
    address = _libc().mmap(None, size, readable, shared, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return np.asarray(_Region(address, size))


def will_need(start: int, stop: int) -> None:
    """Let the kernel read these mapped addresses ahead. It is advice: a refusal is silent."""
    start -= start % mmap.PAGESIZE
    if start < stop:
        _libc().madvise(start, stop - start, _WILL_NEED)
