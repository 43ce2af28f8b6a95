"""Decoded frames kept for the windows that want them next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, TypeAlias

__all__ = ["FrameKey", "KeptFrames"]

FrameKey: TypeAlias = tuple[int, int]
"""A row of the videos table, and the number of a frame in it."""

# What is expected is remembered for so many frames, should nobody ever come for them.
_MOST_EXPECTED: Final = 1 << 20


class KeptFrames:
    """Frames as the decoder left them, up to so many bytes. Thread-safe.

    To get to one frame means to decode others of its group of pictures. They stay until they are
    used, for an epoch wants each frame about once: those that were used go first, then the oldest.
    A frame that is expected counts as not used.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._fresh: OrderedDict[FrameKey, tuple[Any, int]] = OrderedDict()
        self._used: OrderedDict[FrameKey, tuple[Any, int]] = OrderedDict()
        self._expected: OrderedDict[FrameKey, int] = OrderedDict()
        self._turns: dict[tuple[int, int], tuple[Lock, int]] = {}
        self._num_bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._fresh) + len(self._used)

    @property
    def num_bytes(self) -> int:
        """What the kept frames take."""
        return self._num_bytes

    def take(self, key: FrameKey) -> Any | None:
        """A kept frame, which counts as used then; None where it has to be decoded."""
        with self._lock:
            is_expected = self._came(key)
            found = self._fresh.pop(key, None) or self._used.pop(key, None)
            if found is None:
                return None
            (self._fresh if is_expected else self._used)[key] = found
            return found[0]

    def put(self, key: FrameKey, frame: Any, *, is_used: bool) -> None:
        """Keep a frame that was just decoded, and drop others beyond the budget."""
        num_bytes = sum(plane.buffer_size for plane in frame.planes)
        with self._lock:
            for kept in (self._fresh, self._used):
                if old := kept.pop(key, None):
                    self._num_bytes -= old[1]
            is_fresh = not is_used or key in self._expected
            (self._fresh if is_fresh else self._used)[key] = frame, num_bytes
            self._num_bytes += num_bytes
            while self._num_bytes > self.budget_bytes:
                _, (_, dropped) = (self._used or self._fresh).popitem(last=False)
                self._num_bytes -= dropped

    def expect(self, keys: Iterable[FrameKey]) -> None:
        """These frames will be taken soon, once for each time they are named."""
        with self._lock:
            for key in keys:
                self._expected[key] = self._expected.get(key, 0) + 1
                if key in self._used:
                    self._fresh[key] = self._used.pop(key)
            while len(self._expected) > _MOST_EXPECTED:
                self._expected.popitem(last=False)

    def expected_of(self, video: int, numbers: range) -> list[int]:
        """Which frames of a video are expected and not yet here."""
        with self._lock:
            if not self._expected:
                return []
            keys = [(video, number) for number in numbers]
            return [key[1] for key in keys if key in self._expected and key not in self._fresh]

    @contextmanager
    def turn(self, video: int, group: int) -> Iterator[None]:
        """One thread at a time decodes a group; the next finds its frames here."""
        key = video, group
        with self._lock:
            lock, num_waiting = self._turns.get(key, (Lock(), 0))
            self._turns[key] = lock, num_waiting + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, num_waiting = self._turns.pop(key)
                if num_waiting > 1:
                    self._turns[key] = lock, num_waiting - 1

    def _came(self, key: FrameKey) -> bool:
        """Somebody came for a frame; whether somebody else is expected."""
        count = self._expected.pop(key, 0) - 1
        if count > 0:
            self._expected[key] = count
        return count > 0
