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

_Frames: TypeAlias = OrderedDict[FrameKey, tuple[Any, int]]

# What is expected is remembered for so many frames, should nobody ever come for them.
_MOST_EXPECTED: Final = 1 << 20


class KeptFrames:
    """Frames as the decoder left them, up to so many bytes. Thread-safe.

    To get to one frame means to decode others of its group of pictures. An epoch wants each frame
    about once, so those that were used go first, then the oldest of those that only passed by, and
    last what is expected: of that the newest, since the others are waited for longer.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._used: _Frames = OrderedDict()
        self._passed: _Frames = OrderedDict()
        self._awaited: _Frames = OrderedDict()
        self._expected: OrderedDict[FrameKey, int] = OrderedDict()
        self._turns: dict[tuple[int, int], tuple[Lock, int]] = {}
        self._num_bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._used) + len(self._passed) + len(self._awaited)

    @property
    def num_bytes(self) -> int:
        """What the kept frames take."""
        return self._num_bytes

    def take(self, key: FrameKey) -> Any | None:
        """A kept frame, which counts as used then; None where it has to be decoded."""
        with self._lock:
            self._came(key)
            if (found := self._pop(key)) is None:
                return None
            (self._awaited if key in self._expected else self._used)[key] = found
            return found[0]

    def put(self, key: FrameKey, frame: Any, *, is_used: bool) -> None:
        """Keep a frame that was just decoded, and drop others beyond the budget."""
        num_bytes = sum(plane.buffer_size for plane in frame.planes)
        with self._lock:
            if (old := self._pop(key)) is not None:
                self._num_bytes -= old[1]
            kept = self._used if is_used else self._passed
            (self._awaited if key in self._expected else kept)[key] = frame, num_bytes
            self._num_bytes += num_bytes
            while self._num_bytes > self.budget_bytes:
                dropped = (
                    self._used.popitem(last=False)
                    if self._used
                    else self._passed.popitem(last=False)
                    if self._passed
                    else self._awaited.popitem()
                )
                self._num_bytes -= dropped[1][1]

    def expect(self, keys: Iterable[FrameKey]) -> None:
        """These frames will be taken soon, once for each time they are named."""
        with self._lock:
            for key in keys:
                self._expected[key] = self._expected.get(key, 0) + 1
                if (found := self._pop(key)) is not None:
                    self._awaited[key] = found
            while len(self._expected) > _MOST_EXPECTED:
                self._expected.popitem(last=False)

    def expected_of(self, video: int, numbers: range) -> list[int]:
        """Which frames of a video are expected and not yet here."""
        with self._lock:
            if not self._expected:
                return []
            keys = [(video, number) for number in numbers]
            return [key[1] for key in keys if key in self._expected and key not in self._awaited]

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

    def _pop(self, key: FrameKey) -> tuple[Any, int] | None:
        for frames in (self._awaited, self._passed, self._used):
            if key in frames:
                return frames.pop(key)
        return None

    def _came(self, key: FrameKey) -> None:
        """Somebody came for a frame that may be expected by others still."""
        count = self._expected.pop(key, 0) - 1
        if count > 0:
            self._expected[key] = count
