"""The byte budget: what is there, what is set aside, and what goes when there is no room."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from datalake.blocks.cache.claims import Claims
from datalake.blocks.cache.leases import Leases
from datalake.blocks.cache.places import Places, on_disk
from datalake.blocks.cache.ranges import ByteLocks
from datalake.blocks.cache.victims import Victims

__all__ = ["BusyError", "Room", "Spares"]

_MAGIC: Final = b"DLUSAGE\n"
_USAGE: Final = struct.Struct("<8sqq")
_LOCK_BYTE: Final = 1 << 61  # Beyond the file's content; claims lie above.
_PATIENCE_S: Final = 30.0
# Listing may take a twentieth of the time.
_LISTING_SHARE: Final = 20
_LEAST_AGE_S: Final = 0.02
# So many blocks in use are looked at again before the next listing.
_MOST_PASSED_OVER: Final = 256


class BusyError(OSError):
    """Another process holds the lock of the directory and does not let go; it may be stopped."""


class Spares(Protocol):
    """Blocks that this process keeps mapped though nobody looks at them."""

    def time_ns(self, relative: str) -> int | None:
        """When a block was used last or is expected next; None if the file knows best."""
        ...

    def let_go(self, relative: str) -> None:
        """Keep a block mapped no longer than somebody looks at it."""
        ...


class Room:
    """The number of bytes in a directory, kept under a budget by all of its processes together.

    The number stands in the lock file. It is raised before a file is made and lowered after one is
    removed, so that a process killed in between leaves it too large, never too small; listing the
    folder, which precedes evictions, puts it right. Folders are not counted. Thread-safe; every
    method may raise an OSError if the directory cannot be used.
    """

    def __init__(
        self, places: Places, locks: ByteLocks, leases: Leases, claims: Claims, spares: Spares
    ) -> None:
        self._places = places
        self._locks = locks
        self._leases = leases
        self._claims = claims
        self._spares = spares
        self._lock = threading.Lock()
        self._news_lock = threading.Lock()
        self._victims: Victims | None = None
        self._listed_at = -float("inf")
        self._listing_s = 0.0

    def held_bytes(self) -> int:
        """Bytes of blocks there and being made. May be too large after a crash."""
        with self._alone():
            return self._total()

    def pressure(self) -> int:
        """How often nothing could be evicted: a process that sees it grow lets go of spares."""
        return self._read()[1]

    def sweep(self) -> None:
        """Remove what dead processes were making."""
        if any(True for _ in self._places.being_made()):
            with self._alone():
                self._write(self._total() - self._sweep())

    def set_aside(self, size: int, budget: int, begin: Callable[[int], None]) -> tuple[bool, int]:
        """Make room for a file and count it as there.

        Args:
            size: of the file.
            budget: the most that may be there.
            begin: called with the bytes set aside while nobody else counts: gives the file that
                is being made a name that says so.

        Returns:
            Whether there is room now, and how many blocks went for it.
        """
        needed = on_disk(size)
        if needed > budget:
            return False, 0
        with self._alone():
            total = self._total()
            num_evicted = 0
            if total + needed > budget:
                total, num_evicted = self._evict(total, budget - needed)
            if total + needed > budget:
                self._write(total, more_pressure=1)
                return False, num_evicted
            self._write(total + needed)
            begin(needed)
            return True, num_evicted

    def finish(self, made: str, relative: str, time_ns: int) -> None:
        """Give a finished file its place."""
        target = self._places.block(relative)
        try:
            os.rename(made, target)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(made, target)
        self.note(relative, time_ns)

    def remove(self, path: str, size: int) -> None:
        """Remove a file and count `size` bytes as gone."""
        with self._alone():
            total = self._total()
            try:
                os.unlink(path)
            except FileNotFoundError:
                return  # Who removed it counted it, or it was no process of ours.
            self._write(total - on_disk(size))

    def note(self, relative: str, time_ns: int) -> None:
        """A block was used, or is expected, at another time than was known."""
        with self._news_lock:
            if self._victims is not None:
                self._victims.note(relative, time_ns)
                if self._victims.is_outdated:
                    self._victims = None

    def clear(self, table_folder: str | None = None) -> tuple[int, int]:
        """Remove all blocks (of a table) that nobody uses: how many went, how many stayed."""
        gone = stayed = 0
        with self._alone():
            total = self._total() - self._sweep()
            for found in self._places.listing(table_folder):
                if self._remove_unused(found.relative):
                    total -= found.size
                    gone += 1
                else:
                    stayed += 1
            self._write(total)
        return gone, stayed

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep all other threads and processes from changing the number of bytes.

        Raises:
            BusyError: somebody else does not let go.
        """
        deadline = time.monotonic() + _PATIENCE_S
        if not self._lock.acquire(timeout=_PATIENCE_S):
            raise BusyError("a thread of this process does not let go of the directory")
        try:
            pause = 0.0001
            while not self._locks.try_exclusive(_LOCK_BYTE):
                if time.monotonic() > deadline:
                    raise BusyError(f"another process has kept it locked for {_PATIENCE_S:.0f} s")
                time.sleep(pause)
                pause = min(2 * pause, 0.005)
            try:
                yield
            finally:
                self._locks.release(_LOCK_BYTE)
        finally:
            self._lock.release()

    # Below, the caller is alone.

    def _evict(self, total: int, wanted: int) -> tuple[int, int]:
        """Evict until at most `wanted` bytes are there: how many are, how many blocks went."""
        num_evicted = 0
        passed_over: list[tuple[str, int]] = []
        is_listed = False
        with self._news_lock:
            is_unknown = self._victims is None
        if is_unknown or self._may_list():
            total, is_listed = self._list(), True
        while total > wanted:
            taken = self._farthest()
            if taken is None:
                if is_listed or not self._may_list():
                    break
                total, is_listed = self._list(), True
                continue
            relative, known_ns = taken
            try:
                status = os.stat(self._places.block(relative))
            except OSError:
                continue
            time_ns = self._spares.time_ns(relative) or status.st_mtime_ns
            if time_ns != known_ns:
                self.note(relative, time_ns)
            elif self._remove_unused(relative):
                total -= on_disk(status.st_size)
                num_evicted += 1
            elif len(passed_over) < _MOST_PASSED_OVER:
                passed_over.append(taken)
        for relative, time_ns in passed_over:
            self.note(relative, time_ns)
        return total, num_evicted

    def _farthest(self) -> tuple[str, int] | None:
        with self._news_lock:
            return None if self._victims is None else self._victims.farthest(time.time_ns())

    def _remove_unused(self, relative: str) -> bool:
        digest = relative[relative.rfind("/") + 1 :]
        self._spares.let_go(relative)
        if not self._leases.begin_eviction(digest):
            return False
        try:
            os.unlink(self._places.block(relative))
        except FileNotFoundError:
            return False
        finally:
            self._leases.end_eviction(digest)
        return True

    def _may_list(self) -> bool:
        age = time.monotonic() - self._listed_at
        return age > max(_LEAST_AGE_S, _LISTING_SHARE * self._listing_s)

    def _list(self) -> int:
        """Count what is there, and sort it for evictions."""
        begin = time.monotonic()
        self._sweep()
        # In this order: a file that is finished meanwhile is counted twice rather than not at all.
        total = sum(size for _, _, size in self._places.being_made())
        found = list(self._places.listing())
        total += sum(each.size for each in found)
        with self._news_lock:
            self._victims = Victims(found)
        self._listed_at = time.monotonic()
        self._listing_s = self._listed_at - begin
        self._write(total)
        return total

    def _sweep(self) -> int:
        """Remove what dead processes were making: how many bytes were set aside for it."""
        gone = 0
        for name, _, size in list(self._places.being_made()):
            digest = name.partition(".")[0]
            # Who makes it has claimed it as long as it lives.
            if not self._claims.try_claim(digest):
                continue
            try:
                os.unlink(f"{self._places.new}/{name}")
                gone += size
            except FileNotFoundError:
                pass
            finally:
                self._claims.end(digest)
        return gone

    def _total(self) -> int:
        total, _ = self._read()
        return self._list() if total is None else total

    def _read(self) -> tuple[int | None, int]:
        data = os.pread(self._locks.fd, _USAGE.size, 0)
        if len(data) < _USAGE.size or not data.startswith(_MAGIC):
            return None, 0
        _, total, pressure = _USAGE.unpack(data)
        return total, pressure

    def _write(self, total: int, more_pressure: int = 0) -> None:
        pressure = self._read()[1] + more_pressure
        os.pwrite(self._locks.fd, _USAGE.pack(_MAGIC, max(total, 0), pressure), 0)
