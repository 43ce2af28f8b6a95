"""Writes that may be repeated on a newer version when another writer was faster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from datalake.errors import ConflictError

__all__ = ["MAX_ATTEMPTS", "until_landed"]

_R = TypeVar("_R")

MAX_ATTEMPTS: Final = 20


def until_landed(write: Callable[[], _R]) -> _R:
    """Call `write`, which opens the latest version and writes to it, until no one is faster.

    Raises:
        ConflictError: others were faster every time.
    """
    for attempt in range(1, MAX_ATTEMPTS):
        try:
            return write()
        except ConflictError:
            # Writers that collided must not come back at the same moment.
            time.sleep(random.uniform(0, 0.05 * attempt))
    return write()
