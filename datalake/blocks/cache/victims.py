"""Which block to evict: the one whose next use is farthest away.

A block's file says when that is by one number, its modification time: in the future, the moment
when it is expected; in the past, when it was used last, and then it counts as expected after as
long again as it has been unused. So the distance is |mtime - now|, for both kinds: Belady's rule
where the order is known, least recently used where it is not. The farthest of all has either the
earliest or the latest time, whatever the time is now.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

import numpy as np

from datalake.blocks.cache.places import Found

__all__ = ["Victims"]

_FEWEST_NEWS: Final = 1024


class Victims:
    """Blocks by their times. Not thread-safe.

    The listing lies in arrays (some 80 bytes a block); what changed since, in two heaps. A time
    may be out of date: whoever takes a block compares it with the file's, and `note`s it anew.
    """

    def __init__(self, found: Iterable[Found]) -> None:
        listed = sorted(found, key=lambda each: each.mtime_ns)
        self._times = np.array([each.mtime_ns for each in listed], np.int64)
        self._names = np.array([each.relative.encode() for each in listed], "S64")
        self._first, self._stop = 0, len(listed)
        self._oldest: list[tuple[int, str]] = []
        self._latest: list[tuple[int, str]] = []
        self._most_news = max(_FEWEST_NEWS, len(listed) // 4)

    def note(self, relative: str, mtime_ns: int) -> None:
        """Record a block's time, be it known already or not."""
        heapq.heappush(self._oldest, (mtime_ns, relative))
        heapq.heappush(self._latest, (-mtime_ns, relative))

    @property
    def is_outdated(self) -> bool:
        """Whether so much was noted that listing the folder anew takes less memory."""
        return len(self._oldest) > self._most_news or len(self._latest) > self._most_news

    def farthest(self, now_ns: int) -> tuple[str, int] | None:
        """Take the block out whose time is farthest from now: its path and time.

        A block may come more than once. None when there is no other.
        """
        ends: list[tuple[int, int]] = []
        if self._first < self._stop:
            ends.append((now_ns - int(self._times[self._first]), 0))
            ends.append((int(self._times[self._stop - 1]) - now_ns, 1))
        if self._oldest:
            ends.append((now_ns - self._oldest[0][0], 2))
        if self._latest:
            ends.append((-self._latest[0][0] - now_ns, 3))
        if not ends:
            return None
        _, end = max(ends)
        if end == 0:
            self._first += 1
            return self._listed(self._first - 1)
        if end == 1:
            self._stop -= 1
            return self._listed(self._stop)
        if end == 2:
            time_ns, relative = heapq.heappop(self._oldest)
            return relative, time_ns
        time_ns, relative = heapq.heappop(self._latest)
        return relative, -time_ns

    def _listed(self, index: int) -> tuple[str, int]:
        return self._names[index].decode(), int(self._times[index])
