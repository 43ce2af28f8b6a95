"""Places for decoded rows, in the block cache: each row written once, by whoever decodes it first.

For rows whose decoded sizes are known beforehand: pictures of one shape, audio of known lengths.
A file has a word for each row (its checksum), then the rows; it is sparse until they are written,
and counts in full.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import xxhash

from datalake.blocks.cache.aligned import padding
from datalake.blocks.cache.cache import BlockCache, Made
from datalake.blocks.cache.entry import HEAD_BYTES, CorruptEntryError, Head, Kind, head_bytes
from datalake.blocks.cache.key import Key
from datalake.blocks.cache.mapping import Mapping
from datalake.blocks.cache.places import PAGE_BYTES
from datalake.errors import InputError
from datalake.tables.mapped import Bytes
from datalake.telemetry import Meter

__all__ = ["Slots", "open_slots"]

Rows: TypeAlias = npt.NDArray[np.int64]

_WORD_BYTES: Final = 8
_NONCE_AT: Final = 48
_NONCE_BYTES: Final = 8


class _Layout:
    """Where the words and rows of a file lie."""

    def __init__(self, key: Key, sizes: int | Sequence[int] | Rows) -> None:
        self.num_rows = key.stop - key.first
        self.row_bytes: int | None = None
        if isinstance(sizes, int | np.integer):
            self.row_bytes = int(sizes)
            sizes = np.full(self.num_rows, self.row_bytes, np.int64)
        self.sizes = np.asarray(sizes, np.int64)
        if self.num_rows < 1 or self.sizes.shape != (self.num_rows,) or (self.sizes < 0).any():
            raise InputError(
                "Slots need a size for each row",
                where=str(key),
                expected=f"{self.num_rows} sizes of 0 bytes or more, or one for all",
                found=f"an array of the shape {self.sizes.shape}",
            )
        # Rows of one size lie side by side, so that they are one array.
        strides = self.sizes if self.row_bytes is not None else self.sizes + -self.sizes % 64
        about = key.about()
        self.content_begin = HEAD_BYTES + len(about) + padding(len(about))
        words_stop = self.content_begin + self.num_rows * _WORD_BYTES
        data_begin = words_stop + -words_stop % PAGE_BYTES
        ends = data_begin + np.cumsum(strides)
        self.begins = ends - strides
        self.file_bytes = int(ends[-1])
        self.checksum = xxhash.xxh3_128_digest(self.sizes.tobytes())
        self.about = about
        self.data_begin = data_begin

    def pieces(self) -> list[memoryview]:
        """The file up to its rows. The words are written, as reading a hole may need room."""
        head = head_bytes(
            Kind.SLOTS,
            self.about,
            self.content_begin,
            self.file_bytes - self.content_begin,
            self.checksum,
        )
        return [memoryview(head), memoryview(bytes(self.data_begin - self.content_begin))]


class Slots:
    """Rows by their number within the run, 0 to `num_rows`. Thread-safe; see `open_slots`.

    Many processes may fill the same slots: they write equal bytes. A row is served once all of it
    is there and fits its checksum, which each process verifies when it first meets the row. Views
    stay valid as long as they are referenced, and the file is not evicted as long as they or the
    slots are.
    """

    def __init__(
        self,
        cache: BlockCache,
        key: Key,
        layout: _Layout,
        opened: tuple[Mapping, Head] | None,
        meter: Meter | None,
    ) -> None:
        self._cache = cache
        self._layout = layout
        self._meter = meter
        self._path = cache.directory / "blocks" / key.relative()
        self.num_rows: int = layout.num_rows
        self.is_cached: bool = opened is not None
        """Whether there is a file; else nothing is kept, as there was no room for it."""
        self.rows: npt.NDArray[np.uint8] | None = None
        """All rows in place, (num_rows, size), if they are of one size: read those only that you
        `have`, as others are unwritten or damaged."""
        self._nonce = b""
        self._data = np.zeros(0, np.uint8)
        self._words = np.zeros(layout.num_rows, np.uint64)
        self._verified = np.zeros(layout.num_rows, np.bool_)
        if opened is None:
            return
        mapping, head = opened
        self._nonce = head.nonce
        self._data = np.frombuffer(mapping.buffer(0, mapping.size), np.uint8)
        words_stop = layout.content_begin + _WORD_BYTES * layout.num_rows
        self._words = self._data[layout.content_begin : words_stop].view(np.uint64)
        if layout.row_bytes is not None:
            stop = layout.data_begin + layout.num_rows * layout.row_bytes
            self.rows = self._data[layout.data_begin : stop].reshape(
                layout.num_rows, layout.row_bytes
            )

    def have(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which rows are there, whole: (n,)."""
        verified = self._verified[rows]
        if not verified.all():
            new = np.flatnonzero(~verified)
            for index in new[self._words[rows[new]] != 0]:
                verified[index] = self._verify(int(rows[index]))
        return verified

    def written(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which rows somebody wrote, (n,): as `have`, but looks at none of their bytes."""
        found: npt.NDArray[np.bool_] = self._words[rows] != 0
        return found

    def get(self, row: int) -> Bytes | None:
        """A row's bytes in place, (size,), read-only; None if it is not there."""
        if not self._verified[row] and not (self._words[row] and self._verify(row)):
            return None
        return self._view(row)

    def take(self, rows: Rows, out: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Copy rows of one size into a batch; the rest of `out` is left as it is.

        Args:
            rows: (n,).
            out: (n, size), contiguous.

        Returns:
            Which rows are there, and so were copied: (n,).

        Raises:
            InputError: the rows differ in size.
        """
        if self._layout.row_bytes is None:
            raise InputError(
                "Rows of different sizes make no array", where=str(self._path), fix="Use get"
            )
        have = self.have(rows)
        if self.rows is None:
            return have
        if have.all():
            # Any other mode would gather into a copy first.
            np.take(self.rows, rows, axis=0, out=out, mode="clip")
        else:
            for index in np.flatnonzero(have):
                out[index] = self.rows[rows[index]]
        return have

    def put(self, row: int, data: Bytes) -> bool:
        """Keep a decoded row; false if that was not possible (no room, or the file was removed).

        Args:
            row: its number.
            data: contiguous; of the row's size in bytes.

        Raises:
            InputError: it is of another size.
        """
        size = int(self._layout.sizes[row])
        view = data.data.cast("B")
        if len(view) != size:
            raise InputError(
                f"Row {row} is of another size than was said",
                where=str(self._path),
                expected=f"{size} bytes",
                found=f"{len(view)} bytes",
            )
        if not self.is_cached:
            return False
        if self._verified[row]:
            return True
        try:
            written = self._write(row, view)
        except OSError as error:
            self._cache.complain(error)
            written = False
        if written:
            self._verified[row] = True
        if self._meter is not None:
            if written:
                self._meter.count("cache_bytes_written", size)
            else:
                self._meter.count("cache_bypassed")
        return written

    def _write(self, row: int, data: memoryview) -> bool:
        # By calls rather than through the map: a full disk is an error then, and no SIGBUS. No
        # handle is kept, since there may be thousands of files.
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.pread(fd, _NONCE_BYTES, _NONCE_AT) != self._nonce:
                return False  # Removed, and made again by somebody else.
            place, rest = int(self._layout.begins[row]), data
            while rest:
                num_bytes = os.pwrite(fd, rest, place)
                place, rest = place + num_bytes, rest[num_bytes:]
            word = _word(row, data).to_bytes(_WORD_BYTES, "little")
            os.pwrite(fd, word, self._layout.content_begin + _WORD_BYTES * row)
        finally:
            os.close(fd)
        return True

    def _view(self, row: int) -> Bytes:
        begin = int(self._layout.begins[row])
        return self._data[begin : begin + int(self._layout.sizes[row])]

    def _verify(self, row: int) -> bool:
        if int(self._words[row]) != _word(row, self._view(row).data):
            if self._meter is not None:
                self._meter.count("cache_corrupt")
            return False
        self._verified[row] = True
        return True


def open_slots(
    cache: BlockCache,
    key: Key,
    sizes: int | Sequence[int] | Rows,
    *,
    meter: Meter | None = None,
) -> Slots:
    """Slots for the rows of a key, made if need be; others that open them fill the same.

    Without room for them they keep nothing, which is counted as `cache_bypassed`.

    Args:
        cache: where; its budget counts them in full.
        key: whose rows, and how they are decoded (`recipe`).
        sizes: bytes of each decoded row, (stop - first,), or of every one. They must follow from
            the key.
        meter: for the cache's counts.

    Raises:
        InputError: there are not as many sizes as rows.
    """
    layout = _Layout(key, sizes)

    def read(key: Key, mapping: Mapping, head: Head) -> Slots:
        if (
            head.checksum != layout.checksum
            or head.content_begin != layout.content_begin
            or mapping.size != layout.file_bytes
        ):
            raise CorruptEntryError("slots of other sizes")
        return Slots(cache, key, layout, (mapping, head), meter)

    def make() -> Made[Slots]:
        return Made(Slots(cache, key, layout, None, meter), layout.pieces, layout.file_bytes)

    return cache.obtain(key, Kind.SLOTS, read, make, meter)


def _word(row: int, data: memoryview) -> int:
    """What says that a row is there: never 0. The row's number is the seed, so that a row in
    another's place does not pass."""
    return xxhash.xxh3_64_intdigest(data, seed=row) | 1
