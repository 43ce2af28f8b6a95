"""Where the values of a binary column lie in a Parquet file that has a page index.

The end of a file says it: the footer (`FileMetaData` of Parquet's `parquet.thrift`, in Thrift's
compact protocol) names for each column chunk where its `OffsetIndex` is, which lists the chunk's
pages, their sizes and first rows. In an uncompressed page of the encoding PLAIN each value is
`[length, 4 bytes][bytes]`, after the definition levels where there may be nulls.

Nothing is guessed: a chunk that is compressed, nested, with a dictionary or without an index is
left to a Parquet library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["DamagedPageError", "Footer", "Pages", "footer_bytes", "page_values", "read_footer"]

TAIL_BYTES: Final = 8
"""The length of the footer and the magic, with which a file ends."""

_MAGIC: Final = b"PAR1"
_LENGTH: Final = struct.Struct("<I")
_BYTE_ARRAY: Final = 6
_UNCOMPRESSED: Final = 0
_PLAIN, _RLE = 0, 3
_DATA_PAGE: Final = 0
_REQUIRED, _OPTIONAL = 0, 1

_Struct: TypeAlias = dict[int, Any]
# What comes of taking numbers for structures and the like.
_NOT_PARSED: Final = (
    *(AttributeError, KeyError, TypeError, IndexError, ValueError),
    *(OverflowError, RecursionError),
)


class DamagedPageError(ValueError):
    """What a file says of itself cannot be."""


class Pages(NamedTuple):
    """The pages of a column in a file, in order."""

    starts: npt.NDArray[np.int64]
    """(num_pages,): the first byte of each, a head included."""
    sizes: npt.NDArray[np.int64]
    """(num_pages,): bytes of each, its head included."""
    firsts: npt.NDArray[np.int64]
    """(num_pages + 1,): the first row of each within the file, and the number of rows."""
    has_levels: bool
    """Whether there may be nulls."""


class Footer(NamedTuple):
    """A column, as the footer describes it."""

    indexes: tuple[tuple[int, int], ...]
    """Where the offset index of each row group is: its first byte, and the one after the last."""
    num_rows: tuple[int, ...]
    """Rows of each row group."""
    has_levels: bool

    def pages(self, data: memoryview, begin: int) -> Pages:
        """The pages, from the bytes of the file from `begin` on, which hold all indexes.

        Raises:
            DamagedPageError: an index is none.
        """
        places: list[tuple[int, int, int]] = []
        row = 0
        try:
            for (first, stop), count in zip(self.indexes, self.num_rows, strict=True):
                found = _Reader(data[first - begin : stop - begin]).structure()[1]
                if found[0].get(3, 0) != 0:
                    raise DamagedPageError("an index of pages begins behind its first row")
                places += [(page[1], page[2], row + page.get(3, 0)) for page in found]
                row += count
            starts, sizes, firsts = np.array(places, np.int64).reshape(-1, 3).T
        except _NOT_PARSED as error:
            raise DamagedPageError("an index of pages cannot be parsed") from error
        edges = np.append(firsts, row)
        if (np.diff(edges) <= 0).any() or (starts < 0).any() or (sizes < 0).any():
            raise DamagedPageError("an index of pages contradicts itself")
        return Pages(starts.copy(), sizes.copy(), edges, self.has_levels)


def footer_bytes(tail: memoryview) -> int:
    """Bytes at the end of a file that hold its footer, of a file that ends in `tail`.

    Raises:
        DamagedPageError: it is no Parquet file.
    """
    if len(tail) < TAIL_BYTES or bytes(tail[-4:]) != _MAGIC:
        raise DamagedPageError("it does not end as a Parquet file does")
    (length,) = _LENGTH.unpack_from(tail, len(tail) - TAIL_BYTES)
    return int(length) + TAIL_BYTES


def read_footer(tail: memoryview, column: str) -> Footer | None:
    """A column by the end of a file, which holds all of the footer; None if its pages cannot be
    read on their own.

    Raises:
        DamagedPageError: the footer cannot be parsed.
    """
    said = _Reader(tail[len(tail) - footer_bytes(tail) : len(tail) - TAIL_BYTES]).structure()
    try:
        levels = _has_levels(said[2], column)
        if levels is None:
            return None
        indexes: list[tuple[int, int]] = []
        counts: list[int] = []
        for group in said.get(4, []):
            chunks = [chunk for chunk in group[1] if chunk[3][3] == [column.encode()]]
            if len(chunks) != 1 or not _is_plain(chunks[0]):
                return None
            begin = chunks[0][4]
            indexes.append((begin, begin + chunks[0][5]))
            counts.append(group[3])
    except _NOT_PARSED as error:
        raise DamagedPageError("its footer cannot be parsed") from error
    return Footer(tuple(indexes), tuple(counts), levels)


def _has_levels(schema: list[_Struct], column: str) -> bool | None:
    """Whether a column at the top of the schema may be null; None for one that is nested."""
    place, left = 1, schema[0].get(5, 0)
    while left:
        element = schema[place]
        if element.get(5, 0):  # A group: neither it nor what it holds is a plain column.
            if element[4] == column.encode():
                return None
            place = _behind(schema, place)
        else:
            if element[4] == column.encode():
                kind = element.get(3, _REQUIRED)
                return kind == _OPTIONAL if kind in (_REQUIRED, _OPTIONAL) else None
            place += 1
        left -= 1
    return None


def _behind(schema: list[_Struct], place: int) -> int:
    """The element after a group and all that it holds."""
    left = schema[place].get(5, 0)
    place += 1
    while left:
        place = _behind(schema, place) if schema[place].get(5, 0) else place + 1
        left -= 1
    return place


def _is_plain(chunk: _Struct) -> bool:
    about = chunk[3]
    return (
        4 in chunk
        and 5 in chunk
        and 1 not in chunk
        and about[1] == _BYTE_ARRAY
        and about[4] == _UNCOMPRESSED
        and 11 not in about
        and set(about[2]) <= {_PLAIN, _RLE}
    )


def page_values(page: memoryview, num_rows: int, has_levels: bool) -> Iterator[memoryview | None]:
    """The values of a page, in order; None for null.

    Args:
        page: all of it, with its head.
        num_rows: that it has.
        has_levels: whether there may be nulls.

    Raises:
        DamagedPageError: it is no such page.
    """
    reader = _Reader(page)
    head = reader.structure()
    about = head.get(5)
    body = page[reader.place :]
    if (
        head.get(1) != _DATA_PAGE
        or not isinstance(about, dict)
        or about.get(1) != num_rows
        or about.get(2) != _PLAIN
        or head.get(3) != len(body)
    ):
        raise DamagedPageError("a page is not what the index says")
    place = 0
    present: list[bool] | None = None
    if has_levels:
        if len(body) < _LENGTH.size:
            raise DamagedPageError("a page is cut")
        place = _LENGTH.size + _LENGTH.unpack_from(body)[0]
        present = _levels(body[_LENGTH.size : place], num_rows)
    for row in range(num_rows):
        if present is not None and not present[row]:
            yield None
            continue
        start = place + _LENGTH.size
        if start > len(body):
            raise DamagedPageError("a page is cut")
        place = start + _LENGTH.unpack_from(body, start - _LENGTH.size)[0]
        if place > len(body):
            raise DamagedPageError("a value is cut")
        yield body[start:place]
    if place != len(body):
        raise DamagedPageError("a page holds more than its values")


def _levels(data: memoryview, count: int) -> list[bool]:
    """Levels of one bit, as runs and as groups of eight."""
    found: list[bool] = []
    reader = _Reader(data)
    while len(found) < count:
        head = reader.varint()
        if head & 1:
            for byte in reader.take(head >> 1):
                found.extend(bool(byte >> bit & 1) for bit in range(8))
        else:
            found.extend([bool(reader.take(1)[0])] * min(head >> 1, count - len(found)))
            if not head >> 1:
                raise DamagedPageError("a run of no levels")
    return found[:count]


class _Reader:
    """Thrift's compact protocol: structures as dictionaries by field number.

    Raises:
        DamagedPageError: it is none.
    """

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.place = 0

    def take(self, count: int) -> memoryview:
        """So many bytes."""
        taken = self._data[self.place : self.place + count]
        if len(taken) != count:
            raise DamagedPageError("it is cut")
        self.place += count
        return taken

    def varint(self) -> int:
        """A whole number from 0, seven bits a byte."""
        value = shift = 0
        while shift < 70:
            try:
                byte = self._data[self.place]
            except IndexError:
                break
            self.place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise DamagedPageError("it is cut")

    def structure(self, depth: int = 0) -> _Struct:
        """A structure, up to its end."""
        if depth > 16:
            raise DamagedPageError("it is nested too deeply")
        found: _Struct = {}
        number = 0
        while True:
            head = self.take(1)[0]
            if not head:
                return found
            step, kind = head >> 4, head & 15
            number = number + step if step else self._zigzag()
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)

    def _zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:
        if 4 <= kind <= 6:
            return self._zigzag()
        if kind == 8:
            return bytes(self.take(self.varint()))
        if kind in (9, 10):
            head = self.take(1)[0]
            count, inner = head >> 4, head & 15
            if count == 15:
                count = self.varint()
            if count > len(self._data):
                raise DamagedPageError("it is cut")
            return [self._element(inner, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.structure(depth + 1)
        if kind in (3, 7):
            return bytes(self.take(8 if kind == 7 else 1))
        raise DamagedPageError("it cannot be parsed")

    def _element(self, kind: int, depth: int) -> Any:
        if depth > 16:
            raise DamagedPageError("it is nested too deeply")
        return self.take(1)[0] == 1 if kind in (1, 2) else self._value(kind, depth)
