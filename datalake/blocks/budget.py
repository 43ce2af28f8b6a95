"""So many requests a second to one store, shared by all processes of a node.

A token bucket in a small file under a lock. Who takes tokens that are not there yet is told how
long to wait and has his place: nobody is overtaken for ever. A store that refuses halves the rate
for all; it grows back to what was set within a minute (additive increase, multiplicative decrease,
as TCP does: Chiu and Jain, 1989).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from datalake import forks

__all__ = ["DEFAULT_RATE", "RequestBudget"]

DEFAULT_RATE: Final = 2000.0
"""Reads a second. S3 grants one prefix 5,500: several nodes at once ask for more than that only
while all of them read single rows, and then the first refusal halves it for each."""

_RECOVERY_S: Final = 60.0
_LEAST_RATE: Final = 1.0
_MAGIC: Final = b"DLBUDG1\n"
_STATE: Final = struct.Struct("<8sdddd")


@dataclass(frozen=True)
class _State:
    rate: float
    """Requests a second at the moment."""
    tokens: float
    """Requests that may be made at once; below 0, requests that wait."""
    at: float
    """When that was so, by the clock that runs since the machine started."""
    cut_at: float
    """When the rate was halved last."""


class RequestBudget:
    """The requests of all processes that name the same file. Thread-safe, picklable, fork-safe.

    Args:
        path: the file, made if it is not there; None for this process alone.
        rate: requests a second that are granted when nobody complains.
    """

    def __init__(self, path: Path | None, *, rate: float = DEFAULT_RATE) -> None:
        self._path = path
        self._rate = rate
        self._own: bytes = b""
        self._lock = threading.Lock()
        self._fd: int | None = None
        """Of the file, while its lock is held or waited for."""
        forks.register(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        # With a copy of the descriptor the child would go on to hold a lock of the parent.
        fd, self._fd = self._fd, None
        if fd is not None:
            with suppress(OSError):
                os.close(fd)

    @classmethod
    def of(cls, directory: Path | None, store: str, *, rate: float = DEFAULT_RATE) -> RequestBudget:
        """The budget for a store (an endpoint and bucket), kept in a directory."""
        if directory is None:
            return cls(None, rate=rate)
        name = hashlib.blake2b(store.encode(), digest_size=8).hexdigest()
        return cls(directory / "requests" / name, rate=rate)

    def __reduce__(self) -> tuple[object, ...]:
        return _remade, (self._path, self._rate)

    def take(self, count: int = 1) -> float:
        """Take tokens for some requests; how many seconds to wait before they are made."""
        with self._state() as state:
            now = self._grown(state[0])
            state[0] = replace(now, tokens=now.tokens - count)
            return max(0.0, (count - now.tokens) / now.rate) if count > now.tokens else 0.0

    def refused(self, asked_at: float) -> None:
        """The store refused what was asked at a time (of `time.monotonic`): halve the rate.

        What was asked before the rate was halved last says nothing about the new one.
        """
        with self._state() as state:
            now = self._grown(state[0])
            if asked_at >= now.cut_at:
                halved = max(_LEAST_RATE, now.rate / 2)
                state[0] = _State(halved, min(now.tokens, 0.0), now.at, time.monotonic())

    @property
    def rate(self) -> float:
        """Requests a second that are granted now."""
        with self._state() as state:
            return self._grown(state[0]).rate

    def _grown(self, state: _State) -> _State:
        now = time.monotonic()
        passed = max(0.0, now - state.at)
        rate = min(self._rate, state.rate + passed * self._rate / _RECOVERY_S)
        return _State(rate, min(rate, state.tokens + passed * rate), now, state.cut_at)

    @contextmanager
    def _state(self) -> Iterator[list[_State]]:
        """The state, of which the block changes the one entry, alone among all processes."""
        with self._lock:
            # Opened each time: a descriptor that a fork shares would share its lock as well.
            fd = self._fd = self._open()
            try:
                if fd is not None:
                    fcntl.flock(fd, fcntl.LOCK_EX)
                state = [self._parsed(self._own if fd is None else os.pread(fd, _STATE.size, 0))]
                yield state
                packed = _STATE.pack(_MAGIC, *vars(state[0]).values())
                if fd is None:
                    self._own = packed
                else:
                    os.pwrite(fd, packed, 0)
            finally:
                self._fd = None
                if fd is not None:
                    # Closing alone leaves it locked where a fork made a copy a moment ago.
                    with suppress(OSError):
                        fcntl.flock(fd, fcntl.LOCK_UN)
                    os.close(fd)

    def _open(self) -> int | None:
        if self._path is None:
            return None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(self._path, flags, 0o666)
        except FileNotFoundError:
            pass
        except OSError:
            return None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self._path, flags, 0o666)
        except OSError:
            return None  # No directory of its own: this process counts for itself.

    def _parsed(self, packed: bytes) -> _State:
        now = time.monotonic()
        full = _State(self._rate, self._rate, now, 0.0)
        if len(packed) < _STATE.size:
            return full
        magic, *numbers = _STATE.unpack(packed)
        state = _State(*numbers)
        # A time that is yet to come was written before the machine started anew.
        return state if magic == _MAGIC and 0 <= state.at <= now and state.rate > 0 else full


def _remade(path: Path | None, rate: float) -> RequestBudget:
    return RequestBudget(path, rate=rate)
