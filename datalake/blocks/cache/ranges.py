"""Locks on single bytes of a file, which the kernel lets go of when a process dies."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Final

__all__ = ["ByteLocks"]

# struct flock of 64-bit Linux: type, whence, start, length, pid.
_FLOCK: Final = struct.Struct("hhqqi4x")
# Absent where the system has no such locks; the first use then fails as an OSError.
_SETLK: Final = getattr(fcntl, "F_OFD_SETLK", None)


class ByteLocks:
    """One open file description: what it has locked, every other one (in any process) must not.

    Threads share it and see no locks of each other. A forked child shares it as well and must
    `close` it without unlocking. Locking never waits.

    Raises:
        OSError: the file cannot be made, or the file system has no such locks.
    """

    def __init__(self, path: str) -> None:
        self._fd = -1
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    @property
    def fd(self) -> int:
        """The file's descriptor, for reading and writing what the file holds."""
        return self._fd

    def try_exclusive(self, offset: int) -> bool:
        """Lock a byte against all others; false if somebody has it."""
        return self._set(fcntl.F_WRLCK, offset)

    def try_shared(self, offset: int) -> bool:
        """Lock a byte against exclusive locks; false if somebody has such a one."""
        return self._set(fcntl.F_RDLCK, offset)

    def release(self, offset: int) -> None:
        """Let a byte go."""
        self._set(fcntl.F_UNLCK, offset)

    def _set(self, kind: int, offset: int) -> bool:
        if _SETLK is None:
            raise OSError(errno.ENOLCK, "this system has no locks of open file descriptions")
        try:
            fcntl.fcntl(self._fd, _SETLK, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))
        except OSError as error:
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                return False
            raise
        return True

    def is_at(self, path: str) -> bool:
        """Whether the file still is the one at `path`: false once somebody removed it."""
        try:
            there = os.stat(path)
        except OSError:
            return False
        mine = os.fstat(self._fd)
        return (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev)

    def close(self) -> None:
        """Close the file. The locks go with its last descriptor in any process."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()
