"""Locks in forked children: one that another thread held at the fork stays locked there for ever.

Who has a lock that threads share registers itself, and gets a call in each forked child.
"""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol

__all__ = ["HasLocks", "register"]


class HasLocks(Protocol):
    """What has locks of its own. Told apart by identity."""

    def _after_fork(self) -> None:
        """In a forked child, whose one thread this is: make the locks anew. Raises nothing."""


_REGISTERED: Final[weakref.WeakSet[HasLocks]] = weakref.WeakSet()


def register(one: HasLocks) -> None:
    """Call its `_after_fork` in each child that is forked as long as it lives; a microsecond."""
    _REGISTERED.add(one)


def _after_fork() -> None:
    for one in list(_REGISTERED):
        one._after_fork()


os.register_at_fork(after_in_child=_after_fork)
