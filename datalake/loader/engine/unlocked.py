"""Copies without Python's lock, for threads that make batches. See `datalake.blocks.gather`."""

from __future__ import annotations

import atexit
import ctypes
import time
import warnings
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from datalake import forks
from datalake.blocks.gather import ONE_BY_ONE, set_gatherer

__all__ = ["Unlocked", "begin_unlocked"]

Arrays = Sequence[npt.NDArray[Any]]

# torch says once that a tensor of memory that is read-only must not be written. None is.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.frombuffer(b"\0", dtype=torch.uint8)
    _read_only = np.zeros(1, np.uint8)
    _read_only.flags.writeable = False
    torch.from_numpy(_read_only)


# How long the end of the process waits for a copy that is under way.
_EXIT_S: Final = 2.0


class Unlocked:
    """A `Gatherer` of torch's calls on lists of tensors, which hold the lock for none of it.

    Of one thread. At the end of the process it copies one by one: torch aborts a process in which
    it comes back to an interpreter that is being taken apart, as a thread of a stream that nobody
    closed does.
    """

    is_ending = False

    def __init__(self) -> None:
        self.is_busy = False
        _ALIVE.add(self)
        forks.register(self)

    def _after_fork(self) -> None:
        self.is_busy = False  # The thread is the parent's.

    def copy(self, into: Arrays, values: Arrays, factor: float | None = None) -> None:
        """Fill arrays from others of the same shapes, cast, times a factor if there is one."""
        if not len(into):
            return
        # Busy first, and then a look whether it ends: the end does both the other way round.
        self.is_busy = True
        try:
            if Unlocked.is_ending:
                ONE_BY_ONE.copy(into, values, factor)
                return
            out = list(map(torch.from_numpy, into))
            torch._foreach_copy_(out, list(map(torch.from_numpy, values)))
            if factor is not None:
                torch._foreach_mul_(out, factor)
        finally:
            self.is_busy = False

    def zero(self, arrays: Arrays) -> None:
        """Fill arrays with zeros."""
        if not len(arrays):
            return
        self.is_busy = True
        try:
            if Unlocked.is_ending:
                ONE_BY_ONE.zero(arrays)
                return
            torch._foreach_zero_(list(map(torch.from_numpy, arrays)))
        finally:
            self.is_busy = False


_ALIVE: Final[weakref.WeakSet[Unlocked]] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    Unlocked.is_ending = True
    deadline = time.monotonic() + _EXIT_S
    for one in list(_ALIVE):
        while one.is_busy and time.monotonic() < deadline:
            time.sleep(1e-3)


def begin_unlocked() -> None:
    """Let this thread copy without the lock, if it can do so alone.

    torch shares large copies out among threads of its own, a team of them for each thread that
    asks. A thread that makes batches is one of several already: it gets no team, which touches no
    other thread. Where torch has no such setting copies go one by one.
    """
    torch.get_num_threads()  # Sets the thread up; what is set before is lost.
    with suppress(AttributeError, OSError):
        ctypes.CDLL(torch._C.__file__).omp_set_num_threads(1)
    if torch.get_num_threads() == 1 and hasattr(torch, "_foreach_copy_"):
        set_gatherer(Unlocked())
