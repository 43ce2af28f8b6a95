"""Where the values of a binary column lie in a Lance file (versions 2.1 and 2.2).

The end of a file says it: a footer of 40 bytes, a table of column metadata, and those as protobuf
messages (`file2.proto` and `encodings_v2_1.proto` of the Lance repository). A column is cut into
pages, and two of Lance's page layouts have values as they are:

- full-zip, variable width, uncompressed. One buffer has for each row `[0][length][bytes]`, or
  `[1]` for null; the first byte is there only if the page has nulls, and the length is of 8 bytes
  (large_binary) or 4. The other buffer has num_rows + 1 offsets into the first one, of 1, 2, 4 or
  8 bytes.
- constant: one value that all rows of the page share, or none, for null.

Any other layout is left to Lance. Nothing is guessed: a description is equal, byte for byte, to
one of those above, or the page is not understood.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

__all__ = [
    "ELSEWHERE",
    "NULL",
    "SAME",
    "VERSIONS",
    "ZIPPED",
    "DamagedFileError",
    "Page",
    "Pread",
    "read_pages",
]

Pread: TypeAlias = Callable[[int, int], bytes]
"""So many bytes of a file, from a place on; fewer where it ends."""

VERSIONS: Final = frozenset({(2, 1), (2, 2)})

# What a page is.
ELSEWHERE: Final = 0  # Lance has to read it.
NULL: Final = 1
SAME: Final = 2
ZIPPED: Final = 3

_FOOTER: Final = struct.Struct("<QQQIIHH4s")
_PLACE: Final = struct.Struct("<QQ")
_MAGIC: Final = b"LANC"
_COLUMN_TYPE: Final = b"/lance.encodings.ColumnEncoding"
_PLAIN_COLUMN: Final = b"\x0a\x00"
_PAGE_TYPE: Final = b"/lance.encodings21.PageLayout"
_CONSTANT: Final = b"\x12\x03\x2a\x01\x01"
_ALL_NULL: Final = b"\x12\x03\x2a\x01\x03"
# CompressiveEncoding { variable { offsets { flat { bits_per_value } } } }, nothing compressed.
_PLAIN_VALUES: Final = {
    64: b"\x12\x06\x0a\x04\x0a\x02\x08\x40",
    32: b"\x12\x06\x0a\x04\x0a\x02\x08\x20",
}
# The layers of a column that is not nested: all valid, or with nulls.
_LAYERS: Final = {0: b"\x01", 1: b"\x03"}
# Bytes of protobuf's wire types of a fixed size.
_FIXED: Final = {1: 8, 5: 4}


class DamagedFileError(ValueError):
    """What a file says of itself cannot be."""


class Page(NamedTuple):
    """Rows that follow each other, and where their values are; all places are file offsets."""

    first: int
    """The first row, within the file."""
    kind: int
    """ELSEWHERE, NULL, SAME or ZIPPED."""
    start: int
    """Where the values begin."""
    stop: int
    """Where they end."""
    head: int
    """Bytes before a value: 8 or 4, and one more where there may be nulls."""
    offsets: int
    """Where the offsets are, counted in offsets."""
    width: int
    """Bytes of an offset: 1, 2, 4 or 8."""


def read_pages(pread: Pread, size: int, column: int, num_rows: int) -> list[Page]:
    """The pages of a column, in order.

    Args:
        pread: reads the file: so many bytes from a place on.
        size: of the file, in bytes.
        column: the index of the column in this file.
        num_rows: rows in the file, deleted ones too.

    Raises:
        DamagedFileError: the end of the file contradicts itself, the file or `num_rows`.
        OSError: reading failed.
    """
    end = size - _FOOTER.size
    _, table, buffers, _, num_columns, *version, magic = _FOOTER.unpack(
        _read(pread, end, _FOOTER.size, size)
    )
    if magic != _MAGIC:
        raise DamagedFileError(f"it ends in {magic!r}, not in {_MAGIC!r}")
    unknown = [_elsewhere(0)]
    if tuple(version) not in VERSIONS:
        return unknown
    if not 0 <= column < num_columns or table + num_columns * _PLACE.size > buffers:
        raise DamagedFileError(f"it has no column {column}")
    entry = _read(pread, table + column * _PLACE.size, _PLACE.size, size)
    start, length = _PLACE.unpack(entry)
    metadata = _Message(_read(pread, start, length, size))
    if not _is_plain(metadata):
        return unknown
    pages: list[Page] = []
    row = 0
    for message in metadata.messages(2):
        page = _Message(message)
        if page.number(5) != row:
            return unknown
        pages.append(_page(pread, page, row, start))
        row += page.number(3)
    if row != num_rows:
        raise DamagedFileError(f"its pages have {row} rows, not {num_rows}")
    return pages


def _elsewhere(first: int) -> Page:
    return Page(first, ELSEWHERE, 0, 0, 0, 0, 1)


def _read(pread: Pread, start: int, length: int, size: int) -> bytes:
    if start < 0 or start + length > size:
        raise DamagedFileError(f"it is too short: {size} bytes")
    data = pread(length, start)
    if len(data) != length:
        raise DamagedFileError(f"it ends at {start + len(data)}, before {start + length}")
    return data


def _is_plain(metadata: _Message) -> bool:
    """Whether the column has pages and nothing beside them (a blob column has)."""
    encoding = _described(metadata.message(1))
    return encoding == (_COLUMN_TYPE, _PLAIN_COLUMN) and not metadata.has(3, 4)


def _page(pread: Pread, page: _Message, first: int, end: int) -> Page:
    """Args: `end` is where data end in the file."""
    starts, sizes, num_rows = page.numbers(1), page.numbers(2), page.number(3)
    if len(starts) != len(sizes):
        raise DamagedFileError(f"a page has {len(starts)} buffers and {len(sizes)} sizes")
    places = list(zip(starts, sizes, strict=True))
    if any(start + size > end for start, size in places):
        raise DamagedFileError(f"a page has a buffer beyond {end}")
    elsewhere = _elsewhere(first)
    kind, head = _layout(page.message(4), num_rows)
    if kind == NULL and not places:
        return Page(first, NULL, 0, 0, 0, 0, 1)
    if kind == SAME and len(places) == 1:
        return _constant(pread, first, *places[0]) or elsewhere
    if kind != ZIPPED or len(places) != 2:
        return elsewhere
    (start, size), (offsets, offsets_size) = places
    width, rest = divmod(offsets_size, num_rows + 1)
    if rest or width not in {1, 2, 4, 8} or offsets % width:
        return elsewhere
    return Page(first, ZIPPED, start, start + size, head, offsets // width, width)


@lru_cache(1024)  # Pages of a column differ in their number of rows, and often not even in that.
def _layout(encoding: bytes, num_rows: int) -> tuple[int, int]:
    """What a page is, and the bytes before a value."""
    kind, layout = _described(encoding)
    if kind != _PAGE_TYPE:
        return ELSEWHERE, 0
    if layout in {_ALL_NULL, _CONSTANT}:
        return NULL if layout == _ALL_NULL else SAME, 0
    outer = _Message(layout)
    if not outer.only(3):
        return ELSEWHERE, 0
    inner = _Message(outer.message(3))
    nulls, bits = inner.number(2), inner.number(4)
    plain = (
        inner.only(2, 4, 5, 6, 7, 8)
        and inner.number(5) == inner.number(6) == num_rows
        and inner.message(7) == _PLAIN_VALUES.get(bits)
        and inner.message(8) == _LAYERS.get(nulls)
    )
    return (ZIPPED, nulls + bits // 8) if plain else (ELSEWHERE, 0)


def _constant(pread: Pread, first: int, start: int, size: int) -> Page | None:
    """A value as an array of one: [2 buffers][their sizes, 4 bytes each][0, length][bytes]."""
    head = pread(min(size, 28), start)
    for width, form in ((8, "<IIIQQ"), (4, "<IIIII")):
        before = struct.calcsize(form)
        length = size - before
        if 0 <= length < 1 << 32 and head[:before] == struct.pack(
            form, 2, 2 * width, length, 0, length
        ):
            return Page(first, SAME, start + before, start + size, 0, 0, 1)
    return None


class _Message:
    """A protobuf message, its fields by number.

    Raises:
        DamagedFileError: it is none.
    """

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        place = 0
        while place < len(data):
            key, place = _varint(data, place)
            value: int | bytes
            if key & 7 == 0:
                value, place = _varint(data, place)
            elif key & 7 in _FIXED or key & 7 == 2:
                length = _FIXED.get(key & 7, 0)
                if not length:
                    length, place = _varint(data, place)
                value, place = data[place : place + length], place + length
                if place > len(data):
                    raise DamagedFileError("its metadata are cut")
            else:
                raise DamagedFileError("its metadata cannot be parsed")
            self._fields.setdefault(key >> 3, []).append(value)

    def only(self, *numbers: int) -> bool:
        """Whether there are no other fields, and none twice."""
        return set(self._fields) <= set(numbers) and all(
            len(values) == 1 for values in self._fields.values()
        )

    def has(self, *numbers: int) -> bool:
        """Whether one of these fields is there."""
        return any(number in self._fields for number in numbers)

    def messages(self, number: int) -> Iterator[bytes]:
        for value in self._fields.get(number, ()):
            if not isinstance(value, bytes):
                raise DamagedFileError("its metadata cannot be parsed")
            yield value

    def message(self, number: int) -> bytes:
        """The last value of a field, as protobuf has it; nothing if none is there, or a number."""
        value = self._fields.get(number, [b""])[-1]
        return value if isinstance(value, bytes) else b""

    def number(self, number: int) -> int:
        value = self._fields.get(number, [0])[-1]
        if not isinstance(value, int):
            raise DamagedFileError("its metadata cannot be parsed")
        return value

    def numbers(self, number: int) -> list[int]:
        """A repeated integer, packed or not."""
        found: list[int] = []
        for value in self._fields.get(number, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            place = 0
            while place < len(value):
                one, place = _varint(value, place)
                found.append(one)
        return found


def _described(encoding: bytes) -> tuple[bytes, bytes]:
    """The type and the value of an `Encoding`, which holds an `Any`."""
    held = _Message(_Message(_Message(encoding).message(2)).message(1))
    return held.message(1), held.message(2)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise DamagedFileError("its metadata are cut")
