"""How many refused rows a run puts up with."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["is_hopeless"]

_SAMPLE: Final = 1000


def is_hopeless(num_bad: int, num_seen: int, num_total: int, max_fraction: float) -> bool:
    """Whether a run should stop because too many of its rows are bad.

    It should if more are bad than `max_fraction` allows of all rows; or if so many are bad of those
    seen that the rest can hardly make up for it. Parts are drawn by a hash, so what was seen is a
    fair sample: after 1,000 rows, 4 standard deviations above the expected number are enough.

    Args:
        num_bad: rows refused so far, those that the plan knows of included.
        num_seen: rows dealt with so far.
        num_total: rows of the run.
        max_fraction: the largest fraction of bad rows that is put up with.
    """
    if num_bad > max_fraction * num_total:
        return True
    expected = max_fraction * num_seen
    return num_seen >= _SAMPLE and num_bad > expected + 4 * math.sqrt(expected)
