"""A cache directory as one process has it open."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import xxhash

from datalake.blocks.cache.claims import Claims
from datalake.blocks.cache.entry import (
    HEAD_BYTES,
    CorruptEntryError,
    Head,
    Kind,
    read_head,
    write_all,
)
from datalake.blocks.cache.held import Held, HeldBlock
from datalake.blocks.cache.key import Key
from datalake.blocks.cache.leases import Leases
from datalake.blocks.cache.mapping import Mapping
from datalake.blocks.cache.places import Places, default_budget, on_disk
from datalake.blocks.cache.ranges import ByteLocks
from datalake.blocks.cache.room import Room

__all__ = ["Admission", "Opened"]

# One of so many bytes of the budget may be held by a process that has no use of it just now. It
# takes no memory that others need: the pages are clean, and `Room.pressure` frees the leases.
_SPARE_SHARE: Final = 4
_MOST_VERIFIED: Final = 1 << 16


@dataclass(frozen=True)
class Admission:
    """What became of an entry that was to be admitted: mapped, or None for want of room."""

    mapping: Mapping | None
    num_evicted: int


class Opened:
    """Locks, leases and maps of one process. Thread-safe.

    Raises:
        OSError: the directory cannot be used.
    """

    def __init__(self, directory: Path, budget_bytes: int | None) -> None:
        self.places = Places(directory)
        self.places.make()
        self._locks = ByteLocks(self.places.lock)
        self._leases = Leases(self.places.leases)
        self.claims = Claims(self.places, self._locks)
        # None of these refers to this object, so that all handles are closed with its last user.
        self.held = Held(self.places)
        self.room = Room(self.places, self._locks, self._leases, self.claims, self.held)
        if budget_bytes is None:
            budget_bytes = default_budget(directory, self.room.held_bytes())
        self.budget_bytes = budget_bytes
        self.held.most_bytes = budget_bytes // _SPARE_SHARE
        self.room.sweep()
        self._pressure = self.room.pressure()
        self._live: weakref.WeakValueDictionary[str, Mapping] = weakref.WeakValueDictionary()
        self._live_lock = threading.Lock()
        self._verified: dict[str, bytes] = {}

    def hold(self, key: Key, block: HeldBlock) -> None:
        """Keep a block mapped until others are used more."""
        for dropped in self.held.hold(key, block):
            self.room.note(dropped.relative, dropped.time_ns)

    def is_at_place(self) -> bool:
        """Whether the directory still is the one that was opened."""
        return self._locks.is_at(self.places.lock)

    def num_leased(self) -> int:
        """How many blocks this process keeps from being evicted."""
        return self._leases.num_held()

    def look(self, relative: str) -> tuple[Mapping, Head] | None:
        """Map an entry; None if it is not there.

        Raises:
            CorruptEntryError: what is there cannot be used.
            OSError: it cannot be read.
        """
        self._heed_pressure()
        digest = relative[relative.rfind("/") + 1 :]
        mapping = self._mapped(digest)
        if mapping is None:
            mapping = self._map(relative, digest)
            if mapping is None:
                return None
        data = memoryview(mapping.buffer(0, mapping.size))
        head = read_head(data)
        if head.content_begin + head.content_size != mapping.size:
            raise CorruptEntryError("its size is another than it says")
        if self._verified.get(digest) != head.nonce:
            # Slots are checked row by row.
            if (
                head.kind is Kind.BATCH
                and xxhash.xxh3_128_digest(data[head.content_begin :]) != head.checksum
            ):
                raise CorruptEntryError("its content does not fit its checksum")
            self._remember(digest, head.nonce)
        with self._live_lock:
            self._live[digest] = mapping
        return mapping, head

    def admit(
        self,
        relative: str,
        signed: str,
        pieces: list[memoryview],
        size: int,
    ) -> Admission:
        """Write a claimed entry and map it.

        Args:
            relative: where it goes.
            signed: the file made by `Claims.sign`; gone afterwards.
            pieces: the file's bytes.
            size: of the file; beyond the pieces it is a hole.

        Raises:
            OSError: such as a full disk; nothing is left behind.
        """
        digest = relative[relative.rfind("/") + 1 :]
        made = signed

        def begin(num_bytes: int) -> None:
            nonlocal made
            target = f"{self.places.new}/{digest}.{os.getpid()}.{num_bytes}"
            os.rename(signed, target)
            made = target

        has_room, num_evicted = self.room.set_aside(size, self.budget_bytes, begin)
        if not has_room:
            return Admission(None, num_evicted)
        try:
            mapping = self._write(made, digest, pieces, size)
            if mapping is not None:
                self.room.finish(made, relative, time.time_ns())
        except BaseException:
            self.room.remove(made, size)
            raise
        if mapping is None:
            self.room.remove(made, size)
            return Admission(None, num_evicted)
        data = memoryview(mapping.buffer(0, mapping.size))
        # What was just written is what the checksum was made of.
        self._remember(digest, read_head(data).nonce)
        with self._live_lock:
            self._live[digest] = mapping
        return Admission(mapping, num_evicted)

    def discard(self, relative: str) -> bool:
        """Remove a corrupt entry; false if it was gone.

        Raises:
            OSError: it cannot be removed.
        """
        path = self.places.block(relative)
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:
            return False
        self.room.remove(path, on_disk(size))
        return True

    def abandon(self) -> None:
        """In a forked child: let go of the parent's files without unlocking anything."""
        self._leases.abandon()
        self._locks.close()
        self.held.forget()

    def _mapped(self, digest: str) -> Mapping | None:
        with self._live_lock:
            return self._live.get(digest)

    def _map(self, relative: str, digest: str) -> Mapping | None:
        if not self._leases.take(digest):
            return None  # Being evicted just now.
        give_back: Callable[[], None] = partial(self._leases.give_back, digest)
        try:
            fd = os.open(self.places.block(relative), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            give_back()
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                return None
            raise
        try:
            size = os.fstat(fd).st_size
            if size < HEAD_BYTES:
                raise CorruptEntryError("cut within its head")
            return Mapping(fd, size, give_back)
        except BaseException:
            give_back()
            raise
        finally:
            os.close(fd)

    def _write(self, made: str, digest: str, pieces: list[memoryview], size: int) -> Mapping | None:
        fd = os.open(made, os.O_RDWR | os.O_CLOEXEC)
        try:
            write_all(fd, pieces)
            if size > sum(map(len, pieces)):
                os.ftruncate(fd, size)
            # Before others see it, so that nobody evicts it before it is used.
            if not self._leases.take(digest):
                return None
            try:
                return Mapping(fd, size, partial(self._leases.give_back, digest))
            except BaseException:
                self._leases.give_back(digest)
                raise
        finally:
            os.close(fd)

    def _remember(self, digest: str, nonce: bytes) -> None:
        while len(self._verified) >= _MOST_VERIFIED:
            # Verified again when it comes again.
            self._verified.pop(next(iter(self._verified)), None)
        self._verified[digest] = nonce

    def _heed_pressure(self) -> None:
        pressure = self.room.pressure()
        if pressure != self._pressure:
            self._pressure = pressure
            self.held.let_all_go()
