"""`BlockCache`: a directory of blocks that all processes of a machine share."""

from __future__ import annotations

import atexit
import errno
import os
import threading
import time
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from collections.abc import Mapping as Table
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa

from datalake.blocks.cache.entry import (
    CorruptEntryError,
    Head,
    Kind,
    pieces_of,
    read_key,
)
from datalake.blocks.cache.held import HeldBlock
from datalake.blocks.cache.key import Key, table_folder
from datalake.blocks.cache.mapping import Mapping
from datalake.blocks.cache.opened import Opened
from datalake.blocks.cache.places import default_directory
from datalake.errors import InputError
from datalake.telemetry import Meter

__all__ = ["BlockCache", "CacheStats", "Made", "TableShare"]

_T = TypeVar("_T")

_NEVER_S: Final = 10 * 365 * 86_400.0  # Later times do not fit every file system.
_RETRY_S: Final = 30.0
_LEAST_PAUSE_S: Final = 0.0005
_MOST_PAUSE_S: Final = 0.01


@dataclass(frozen=True)
class TableShare:
    """What the cache holds of a table, all versions and columns together."""

    num_blocks: int
    num_bytes: int


@dataclass(frozen=True)
class CacheStats:
    """What a cache directory holds."""

    directory: str
    budget_bytes: int
    num_blocks: int
    num_bytes: int
    """Of files, in whole pages; slots count in full."""
    tables: Table[str, TableShare]
    """By uri."""


@dataclass(frozen=True)
class Made(Generic[_T]):
    """A new entry: the value to serve without the cache, and how to write it."""

    value: _T
    pieces: Callable[[], list[memoryview]]
    size: int | None = None
    """Of the file; that of the pieces if left out, else the rest is a hole."""


@dataclass
class _Flight:
    """A block under way in this process, for the threads that want it too."""

    thread: int = field(default_factory=threading.get_ident)
    done: threading.Event = field(default_factory=threading.Event)
    value: Any = None


class BlockCache:
    """Copies of table data on this machine, each made once and then mapped into memory.

    Safe in threads; a copy in another process (pickled, or by fork) opens the directory itself.
    It holds copies only: deleting the directory at any time loses nothing. What a process uses is
    not evicted: a block stays as long as any Arrow buffer of it, and a process keeps the blocks
    that it used last mapped, up to a quarter of the budget and 4,096 of them: clean pages of files,
    which count as resident and which the kernel takes back when it needs memory. They are let go of
    when another process finds no room. If all that is there is in use, if the disk is full or the
    directory cannot be written, blocks are served from memory and counted as `cache_bypassed`.

    Counts: cache_hits, cache_misses, cache_waits (for another thread or process that makes the
    block), cache_bypassed, cache_corrupt (dropped and made again), cache_evictions,
    cache_bytes_written.

    Args:
        directory: made when first needed; else `$DATALAKE_CACHE`, `$XDG_CACHE_HOME/datalake` or
            `~/.cache/datalake`.
        budget_bytes: the most that files may take, together with what other processes keep there;
            else half of the disk's free space, at most 64 GiB.

    Raises:
        InputError: the budget is no positive number.
    """

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, *, budget_bytes: int | None = None
    ) -> None:
        if budget_bytes is not None and budget_bytes <= 0:
            raise InputError(
                "The budget of a cache must be positive",
                where="budget_bytes",
                expected="a number of bytes",
                found=str(budget_bytes),
            )
        chosen = default_directory() if directory is None else Path(directory)
        self._directory = Path(os.path.abspath(chosen))
        self._budget_bytes = budget_bytes
        self._warned: set[str] = set()
        self._reset()
        _caches.add(self)

    @classmethod
    def shared(
        cls, directory: str | os.PathLike[str] | None = None, *, budget_bytes: int | None = None
    ) -> BlockCache:
        """The one of this process for a directory and budget, as each keeps 33 files open.

        Raises: as the class.
        """
        made = cls(directory, budget_bytes=budget_bytes)
        # No lock, which a fork could leave locked: two threads may get two, which does no harm.
        return _shared.setdefault((made._directory, budget_bytes), made)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._opened: Opened | None = None
        self._closed_until = 0.0
        self._blocks: OrderedDict[Key, HeldBlock] = OrderedDict()
        self._flights: dict[str, _Flight] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy, (str(self._directory), self._budget_bytes)

    def __repr__(self) -> str:
        return f"BlockCache({str(self._directory)!r}, budget_bytes={self._budget_bytes})"

    @property
    def directory(self) -> Path:
        """Where the blocks are."""
        return self._directory

    @property
    def budget_bytes(self) -> int:
        """The most that files may take; the default is worked out once the directory is opened.

        Raises:
            OSError: none was given, and the directory cannot be used.
        """
        return self._open().budget_bytes if self._budget_bytes is None else self._budget_bytes

    def get(
        self, key: Key, make: Callable[[], pa.RecordBatch], *, meter: Meter | None = None
    ) -> pa.RecordBatch:
        """A block, mapped into memory; of all threads and processes that want it, one makes it.

        Args:
            key: what it is a copy of.
            make: called if it is not there. What it raises is raised here, and by nobody else:
                the next one who waits tries in turn.
            meter: counts, and times as stage `cache`, but for what `make` takes.

        Returns:
            The batch that was made: its buffers lie in the map, at multiples of 64 bytes.
        """
        block = self._blocks.get(key)
        if block is not None:
            block.time_ns = time.time_ns()
            # A context manager would take as long as the rest.
            try:  # noqa: SIM105
                self._blocks.move_to_end(key)
            except KeyError:
                pass  # Another thread let it go; ours it still is.
            if meter is not None:
                meter.count("cache_hits")
            return block.batch

        def made() -> Made[pa.RecordBatch]:
            batch = make()
            return Made(batch, lambda: pieces_of(key, batch))

        return self.obtain(key, Kind.BATCH, _read_batch, made, meter)

    def has(self, key: Key) -> bool:
        """Whether a block is there, so that `get` needs no origin (unless it proves corrupt)."""
        return key in self._blocks or os.path.exists(f"{self._directory}/blocks/{key.relative()}")

    def expect(self, key: Key, in_s: float) -> None:
        """Say in how many seconds a block is wanted next (`math.inf`: never).

        Those wanted last are evicted first. Without this word, or once it is past, a block counts
        as wanted after as long as it has been unused.
        """
        time_ns = time.time_ns() + int(min(max(in_s, 0.0), _NEVER_S) * 1e9)
        relative = key.relative()
        block = self._blocks.get(key)
        if block is not None and self._opened is not None:
            block.time_ns = time_ns
            # Not kept mapped till then: others could not evict it.
            self._opened.held.let_go(relative)
        else:
            try:
                os.utime(f"{self._directory}/blocks/{relative}", ns=(time_ns, time_ns))
            except OSError:
                return  # It is not there.
        if self._opened is not None:
            self._opened.room.note(relative, time_ns)

    def stats(self) -> CacheStats:
        """What the directory holds, by listing it: some 5 microseconds a block.

        Raises:
            OSError: the directory cannot be used.
        """
        opened = self._open()
        counts: dict[str, list[int]] = {}
        firsts: dict[str, str] = {}
        for found in opened.places.listing():
            folder = found.relative.partition("/")[0]
            share = counts.setdefault(folder, [0, 0])
            share[0] += 1
            share[1] += found.size
            firsts.setdefault(folder, found.relative)
        tables = {}
        for folder, (num_blocks, num_bytes) in counts.items():
            try:
                name = read_key(opened.places.block(firsts[folder])).table
            except (OSError, CorruptEntryError):
                name = f"unknown ({folder})"
            tables[name] = TableShare(num_blocks, num_bytes)
        return CacheStats(
            str(self._directory),
            opened.budget_bytes,
            sum(share.num_blocks for share in tables.values()),
            sum(share.num_bytes for share in tables.values()),
            dict(sorted(tables.items())),
        )

    def clear(self, table: str | None = None) -> tuple[int, int]:
        """Remove the blocks that nobody uses: all, or those of the table of this uri.

        Returns:
            How many went, and how many stayed as they are in use.

        Raises:
            OSError: the directory cannot be used.
        """
        return self._open().room.clear(None if table is None else table_folder(table))

    def num_leased(self) -> int:
        """How many blocks this process keeps from being evicted."""
        return 0 if self._opened is None else self._opened.num_leased()

    def obtain(
        self,
        key: Key,
        kind: Kind,
        read: Callable[[Key, Mapping, Head], _T],
        make: Callable[[], Made[_T]],
        meter: Meter | None,
    ) -> _T:
        """What `get` does, for any kind of entry.

        Args:
            key: what it is a copy of.
            kind: what the entry must be.
            read: the value of a mapped entry; may raise a CorruptEntryError.
            make: makes a new one.
            meter: as in `get`.
        """
        relative = key.relative()
        while True:
            with self._lock:
                flight = self._flights.get(relative)
                is_mine = flight is None
                if flight is None:
                    flight = self._flights[relative] = _Flight()
            if is_mine:
                break
            if flight.thread == threading.get_ident():
                # `make` asks for what it makes.
                return make().value
            _count(meter, "cache_waits")
            with _during(meter, f"{key}, which a thread of this process makes"):
                flight.done.wait()
            if flight.value is not None:
                _count(meter, "cache_hits")
                value: _T = flight.value
                return value
        try:
            flight.value = self._obtain_alone(key, relative, kind, read, make, meter)
            return flight.value  # type: ignore[no-any-return]
        finally:
            with self._lock:
                del self._flights[relative]
            flight.done.set()

    def _obtain_alone(
        self,
        key: Key,
        relative: str,
        kind: Kind,
        read: Callable[[Key, Mapping, Head], _T],
        make: Callable[[], Made[_T]],
        meter: Meter | None,
    ) -> _T:
        """`obtain`, in the one thread of this process that does it for this key."""
        digest = relative[relative.rfind("/") + 1 :]

        def look(opened: Opened) -> _T | None:
            found = opened.look(relative)
            if found is None:
                return None
            if found[1].kind is not kind:
                raise CorruptEntryError("it is of another kind")
            value = read(key, *found)
            self._hold(opened, key, relative, value, found[0].size)
            return value

        signed: str | None = None
        opened: Opened | None = None
        is_claimed = False
        try:
            try:
                with _during(meter, str(key)):
                    opened = self._open()
                    value = _unless_corrupt(look, opened)
                    if value is None:
                        value = self._claim(key, digest, opened, look, meter)
                        is_claimed = value is None
                    if value is not None:
                        _count(meter, "cache_hits")
                        return value
                    try:
                        value = look(opened)
                    except CorruptEntryError:
                        if opened.discard(relative):
                            _count(meter, "cache_corrupt")
                    if value is not None:
                        _count(meter, "cache_hits")
                        return value
                    signed = opened.claims.sign(digest)
            except OSError as error:
                self.complain(error)
            _count(meter, "cache_misses")
            made = make()
            if opened is None or signed is None:
                _count(meter, "cache_bypassed")
                return made.value
            with _during(meter, str(key)):
                admitted = self._admit(opened, key, relative, signed, made, read, meter)
            signed = None if admitted is not None else signed
            if admitted is None:
                _count(meter, "cache_bypassed")
                return made.value
            return admitted
        finally:
            if signed is not None:
                _unlink(signed)
            if opened is not None and is_claimed:
                opened.claims.end(digest)

    def _claim(
        self,
        key: Key,
        digest: str,
        opened: Opened,
        look: Callable[[Opened], _T | None],
        meter: Meter | None,
    ) -> _T | None:
        """Claim a block (None), or wait for who has claimed it and take what they made."""
        if opened.claims.try_claim(digest):
            return None
        _count(meter, "cache_waits")
        pause = _LEAST_PAUSE_S
        while True:
            maker = opened.claims.maker(digest)
            by_whom = "another process" if maker is None else f"process {maker}"
            with _during(meter, f"{key}, which {by_whom} makes"):
                while maker == opened.claims.maker(digest):
                    time.sleep(pause)
                    pause = min(pause * 1.5, _MOST_PAUSE_S)
                    if (value := _unless_corrupt(look, opened)) is not None:
                        return value
                    # A maker that died has let its claim go.
                    if opened.claims.try_claim(digest):
                        return None

    def _admit(
        self,
        opened: Opened,
        key: Key,
        relative: str,
        signed: str,
        made: Made[_T],
        read: Callable[[Key, Mapping, Head], _T],
        meter: Meter | None,
    ) -> _T | None:
        """Write a made entry and read it from its map; None if that cannot be."""
        pieces = made.pieces()
        size = made.size or sum(map(len, pieces))
        try:
            admission = opened.admit(relative, signed, pieces, size)
            _count(meter, "cache_evictions", admission.num_evicted)
            if admission.mapping is None:
                return None
            _count(meter, "cache_bytes_written", sum(map(len, pieces)))
            found = opened.look(relative)
            if found is None:
                return None
            value = read(key, *found)
            self._hold(opened, key, relative, value, size)
            return value
        except CorruptEntryError:
            return None  # Somebody writes into our files.
        except OSError as error:
            self.complain(error)
            return None

    def _hold(self, opened: Opened, key: Key, relative: str, value: object, size: int) -> None:
        if isinstance(value, pa.RecordBatch):
            opened.hold(key, HeldBlock(value, relative, size, time.time_ns()))

    def _open(self) -> Opened:
        """The directory, opened if need be, or anew if it was removed.

        Raises:
            OSError: it cannot be used; tried again after half a minute.
        """
        with self._lock:
            if self._opened is not None and self._opened.is_at_place():
                return self._opened
            if time.monotonic() < self._closed_until:
                raise OSError(errno.EAGAIN, "the directory could not be opened a moment ago")
            try:
                opened = _open_twice(self._directory, self._budget_bytes)
            except OSError:
                self._closed_until = time.monotonic() + _RETRY_S
                raise
            self._opened, self._blocks = opened, opened.held.blocks
            return opened

    def complain(self, error: OSError) -> None:
        """Warn once of each kind of trouble; blocks are served from memory."""
        if error.errno in {errno.ENOENT, errno.EEXIST, errno.EAGAIN}:
            # Somebody removed the directory (between mkdir and a look at what was in its way, for
            # the second); or it was said.
            return
        kind = errno.errorcode.get(error.errno or 0, type(error).__name__)
        with self._lock:
            if kind in self._warned:
                return
            self._warned.add(kind)
        warnings.warn(
            f"The cache in {self._directory} cannot be used and blocks are served from memory: "
            f"{error}. Free some space, change its permissions, or set DATALAKE_CACHE to a "
            "directory on a local disk.",
            RuntimeWarning,
            stacklevel=2,
        )

    def _abandon(self) -> None:
        """In a forked child: forget what is the parent's."""
        if self._opened is not None:
            self._opened.abandon()
        self._reset()


def _read_batch(key: Key, mapping: Mapping, head: Head) -> pa.RecordBatch:  # noqa: ARG001
    content = mapping.buffer(head.content_begin, head.content_size)
    try:
        return pa.ipc.open_stream(content).read_next_batch()
    except (pa.ArrowException, StopIteration) as error:
        raise CorruptEntryError(f"no record batch: {error}") from error


def _unless_corrupt(look: Callable[[Opened], _T | None], opened: Opened) -> _T | None:
    """What is there if it is whole. Who has claimed it removes what is not."""
    try:
        return look(opened)
    except CorruptEntryError:
        return None


def _open_twice(directory: Path, budget_bytes: int | None) -> Opened:
    try:
        return Opened(directory, budget_bytes)
    except FileNotFoundError:
        # Somebody was removing the directory.
        return Opened(directory, budget_bytes)


def _copy(directory: str, budget_bytes: int | None) -> BlockCache:
    return BlockCache.shared(directory, budget_bytes=budget_bytes)


def _count(meter: Meter | None, name: str, number: int = 1) -> None:
    if meter is not None and number:
        meter.count(name, number)


def _during(meter: Meter | None, what: str) -> AbstractContextManager[None]:
    return nullcontext() if meter is None else meter.during("cache", what)


def _unlink(path: str) -> None:
    # If not, it was renamed or removed, or goes with the next sweep.
    with suppress(OSError):
        os.unlink(path)


_caches: weakref.WeakSet[BlockCache] = weakref.WeakSet()
_shared: weakref.WeakValueDictionary[tuple[Path, int | None], BlockCache] = (
    weakref.WeakValueDictionary()
)


def _abandon_all() -> None:
    for cache in list(_caches):
        cache._abandon()


def _write_times_of_all() -> None:
    for cache in list(_caches):
        if cache._opened is not None:
            cache._opened.held.write_times()


atexit.register(_write_times_of_all)
os.register_at_fork(after_in_child=_abandon_all)
