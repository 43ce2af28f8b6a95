"""Threads of an encoder at the priority of everybody else.

SVT-AV1 asks for real-time scheduling (SCHED_FIFO, priority 99) of its own threads and of the one
that opens it, and where the process is root's, as in most containers, it gets that. The calling
thread then keeps it, and so does every thread and process that it starts: any loop of theirs holds
a core against the whole machine, whose other processes are left with a twentieth.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["ordinary_scheduling"]


@contextmanager
def ordinary_scheduling() -> Iterator[None]:
    """Threads of this process that turn real-time within the block, or come up so, are put back.

    The calling thread gets back what it had; others, which are the encoder's, become ordinary. Does
    nothing where a process cannot look at its threads' scheduling.
    """
    if not (hasattr(os, "sched_setscheduler") and os.path.isdir(_THREADS)):
        yield
        return
    own, own_priority = os.sched_getscheduler(0), os.sched_getparam(0)
    before = _real_time()
    try:
        yield
    finally:
        for thread in _real_time() - before:
            with suppress(OSError):  # It may have ended.
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
        if os.sched_getscheduler(0) != own:
            os.sched_setscheduler(0, own, own_priority)


_THREADS = "/proc/self/task"


def _real_time() -> set[int]:
    """The threads of this process that are scheduled before all ordinary ones."""
    found = set()
    for name in os.listdir(_THREADS):
        with suppress(OSError):
            if os.sched_getscheduler(int(name)) in (os.SCHED_FIFO, os.SCHED_RR):
                found.add(int(name))
    return found
