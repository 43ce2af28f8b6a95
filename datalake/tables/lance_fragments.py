"""The files of a local Lance table's fragments that have one column, mapped into memory.

Nothing is read at the start: a fragment's footer is, when one of its rows is first asked for. What
is kept for ever is some 50 bytes a page of 8 megabytes or more, and 8 bytes a deleted row.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.errors import StoreError
from datalake.tables.failures import translated, without_fork
from datalake.tables.lance_file import (
    ELSEWHERE,
    VERSIONS,
    ZIPPED,
    DamagedFileError,
    Page,
    Pread,
    read_pages,
)
from datalake.tables.mapped import Bytes
from datalake.tables.memory_map import map_file
from datalake.uri import Location

if TYPE_CHECKING:
    import lance

__all__ = ["NO_FILE", "File", "Footer", "Fragments", "RemoteFragments", "live_offsets"]

# A map costs an entry of the kernel's, which allows a process 65,530.
_MOST_MAPS: Final = 4096
_EVICTED_MAPS: Final = 64
# Of a file on a store, read in one go: the footer and the metadata of columns are in it.
_TAIL_BYTES: Final = 64 << 10

_Unpack: TypeAlias = Callable[[memoryview, int], tuple[int]]
_UNPACK: Final[dict[int, _Unpack]] = {
    8: struct.Struct("<Q").unpack_from,
    4: struct.Struct("<I").unpack_from,
}
_FORMS: Final[dict[int, Literal["B", "H", "I", "Q"]]] = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Footer(NamedTuple):
    """What is known of a fragment without mapping its file."""

    path: str
    """Empty if there is no file that could be mapped."""
    num_bytes: int
    pages: npt.NDArray[np.int64]
    """(num_pages, 7): the fields of `Page`."""
    deleted: array[int] | None
    """For each deleted row, in order, how many rows before it are not deleted; None for none."""

    @property
    def is_in_place(self) -> npt.NDArray[np.bool_]:
        """(num_pages,): whether a page can be read in the map."""
        in_place: npt.NDArray[np.bool_] = self.pages[:, 1] != ELSEWHERE
        return in_place


class Lookup(NamedTuple):
    """A page, as finding a row wants it."""

    start: int
    stop: int
    head: int
    """Bytes before a value, 4, 5, 8 or 9; 0 if the page is not zipped."""
    length: int
    """Of these the length's; what the page is (NULL, SAME, ELSEWHERE) if it is not zipped."""
    shift: int
    """What to add to a row of the file for its place in `offsets`."""
    offsets: memoryview
    unpack: _Unpack
    """Reads a length."""


class File:
    """A fragment's file, mapped. Lets go of the map when nothing refers to it or its bytes."""

    __slots__ = ("address", "data", "deleted", "firsts", "lookups", "memory", "path")

    def __init__(self, footer: Footer, data: Bytes) -> None:
        self.path = footer.path
        self.deleted = footer.deleted
        self.data = data
        self.address = int(data.ctypes.data)
        self.memory = memory = memoryview(data.data)
        # The whole file as integers of each width, whatever they are where no offsets lie.
        offsets = {
            width: memory[: len(memory) // width * width].cast(form)
            for width, form in _FORMS.items()
        }
        self.firsts: list[int] = []
        self.lookups: list[Lookup] = []
        for page in map(Page._make, footer.pages.tolist()):
            length = page.head & ~1 if page.kind == ZIPPED else page.kind
            self.firsts.append(page.first)
            self.lookups.append(
                Lookup(
                    page.start,
                    page.stop,
                    page.head,
                    length,
                    page.offsets - page.first,
                    offsets[page.width],
                    _UNPACK[length if page.kind == ZIPPED else 8],
                )
            )


NO_FILE: Final = File(Footer("", 0, np.empty((0, 7), np.int64), None), np.empty(0, np.uint8))


class Fragments:
    """The fragments of a version, and what became known of their files.

    There is no lock: what threads write are entries of dictionaries, equal whoever is faster. A
    process may be forked at any time, and needs Lance no more when all footers are known.
    """

    def __init__(self, location: Location, dataset: lance.LanceDataset, column: str) -> None:
        self._location, self._column = location, column
        self._process = os.getpid()
        self._fragments = dataset.get_fragments()
        counts = [fragment.count_rows() for fragment in self._fragments]
        self.starts: npt.NDArray[np.int64] = np.concatenate(
            [[0], np.cumsum(counts, dtype=np.int64)]
        )
        """(num_fragments + 1,): the first row of each fragment, and the end."""
        field = dataset.lance_schema.field(column)
        self._field = -1 if field is None else field.id()
        self._footers: dict[int, Footer] = {}
        self.maps: dict[int, File] = {}
        """The files that are mapped now, by the place of their fragment."""

    def __len__(self) -> int:
        return len(self._fragments)

    def num_stored_rows(self, order: int) -> int:
        """The rows in the files of the fragment in this place, deleted ones too."""
        return int(self._fragments[order].physical_rows)

    def file(self, order: int) -> File:
        """The file of the fragment in this place, mapped.

        Raises:
            NotFoundError: the file is gone, since the version was cleaned up.
            StoreError: the file is cut, or contradicts itself.
        """
        known = self.maps.get(order)
        if known is not None:
            return known
        footer = self.footer(order)
        if footer.path:
            with self._opened(footer.path, footer.num_bytes) as (descriptor, size):
                file = File(footer, map_file(descriptor, size))
        else:
            file = File(footer, NO_FILE.data)
        if len(self.maps) >= _MOST_MAPS:
            # The oldest. What was read of them stays in the kernel's cache, and views stay valid.
            for oldest in list(self.maps)[:_EVICTED_MAPS]:
                self.maps.pop(oldest, None)
        return self.maps.setdefault(order, file)

    def footer(self, order: int) -> Footer:
        """What is known of the fragment in this place; looked up the first time.

        Raises:
            NotFoundError: the file is gone, since the version was cleaned up.
            StoreError: the file is cut, or contradicts itself.
        """
        known = self._footers.get(order)
        if known is not None:
            return known
        self.require_lance()
        fragment = self._fragments[order]
        with translated(self._location, "Looking up a fragment"):
            metadata = fragment.metadata
            deleted = _deleted(fragment) if fragment.num_deletions else None
        path, size = "", 0
        pages = [Page(0, ELSEWHERE, 0, 0, 0, 0, 1)]
        held = [file for file in metadata.files if self._field in file.fields]
        if len(held) == 1 and held[0].base_id is None and not metadata.overlays:
            (file,) = held
            if (file.file_major_version, file.file_minor_version) in VERSIONS:
                path = os.path.join(self._location.uri, "data", file.path)
                column = file.column_indices[file.fields.index(self._field)]
                with self._reading(path, file.file_size_bytes) as (pread, size):
                    pages = read_pages(pread, size, column, metadata.physical_rows)
        numbers = np.array(pages, np.int64).reshape(-1, len(Page._fields))
        return self._footers.setdefault(order, Footer(path, size, numbers, deleted))

    def require_lance(self) -> None:
        """Refuse what would hang.

        Raises:
            InputError: this process was forked from the one that opened the fragments. It is no
                StoreError, since nothing is wrong with the rows.
        """
        if os.getpid() != self._process:
            raise without_fork(f"column {self._column} of {self._location.uri}", "lance")

    @contextmanager
    def _reading(self, path: str, num_bytes: int | None) -> Iterator[tuple[Pread, int]]:
        """Reads a file that is as long as the table says; and its size."""
        with self._opened(path, num_bytes) as (descriptor, size):
            yield partial(os.pread, descriptor), size

    @contextmanager
    def _opened(self, path: str, num_bytes: int | None) -> Iterator[tuple[int, int]]:
        """The descriptor and size of a file that is as long as the table says."""
        with translated(self._location, "Opening a file of the table"):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                if num_bytes and size != num_bytes:
                    raise DamagedFileError(f"it has {size:,} bytes, and should have {num_bytes:,}")
                yield descriptor, size
            except DamagedFileError as error:
                raise self.damaged(path, str(error)) from error
            finally:
                os.close(descriptor)

    def damaged(self, path: str, found: str) -> StoreError:
        """The error for a file that is not what it should be."""
        return StoreError(
            f"A file of the table is damaged, in the column {self._column}",
            where=path,
            found=found,
            fix="Restore the file from a copy, or ingest its rows again from their source",
        )


class RemoteFragments(Fragments):
    """The fragments of a version on an object store, whose files cannot be mapped.

    Raises:
        MissingPackageError: the driver of the store is not installed.
    """

    def __init__(self, location: Location, dataset: lance.LanceDataset, column: str) -> None:
        super().__init__(location, dataset, column)
        self._filesystem, _ = location.filesystem()

    def read_all(self, ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
        """Bytes of files, side by side.

        Args:
            ranges: the path of each file, as `Footer` has it, the first byte and the one after the
                last.

        Raises:
            NotFoundError: a file is gone.
            StoreError: the store does not give what is there.
        """
        found: list[bytes] = [b""] * len(ranges)
        wanted = [index for index, (_, start, stop) in enumerate(ranges) if stop > start]
        if not wanted:
            return found
        paths = [ranges[index][0] for index in wanted]
        starts, stops = ([ranges[index][end] for index in wanted] for end in (1, 2))
        with translated(self._location, "Reading a part of a file"):
            read = self._filesystem.cat_ranges(paths, starts, stops, on_error="raise")
        for index, data in zip(wanted, read, strict=True):
            path, start, stop = ranges[index]
            if len(data) != stop - start:
                raise self.damaged(path, f"it ends before byte {stop:,}")
            found[index] = bytes(data)
        return found

    @contextmanager
    def _reading(self, path: str, num_bytes: int | None) -> Iterator[tuple[Pread, int]]:
        with translated(self._location, "Opening a file of the table"):
            size = int(num_bytes or self._filesystem.size(path))
        # What is looked up lies near the end, and one request costs more than its bytes.
        begin = max(0, size - _TAIL_BYTES)
        (tail,) = self.read_all([(path, begin, size)])

        def pread(length: int, start: int) -> bytes:
            if start >= begin:
                return tail[start - begin : start - begin + length]
            return self.read_all([(path, start, min(start + length, size))])[0]

        try:
            yield pread, size
        except DamagedFileError as error:
            raise self.damaged(path, str(error)) from error


def live_offsets(fragment: lance.LanceFragment) -> npt.NDArray[np.int64]:
    """The offsets within its files of a fragment's rows that are not deleted, in order."""
    addresses = fragment.scanner(columns=[], with_row_address=True).to_table()["_rowaddr"]
    offsets: npt.NDArray[np.uint64] = addresses.to_numpy() & np.uint64(0xFFFFFFFF)
    return offsets.astype(np.int64)


def _deleted(fragment: lance.LanceFragment) -> array[int]:
    gone = np.delete(np.arange(fragment.physical_rows), live_offsets(fragment))
    return array("q", (gone - np.arange(len(gone))).tobytes())
