"""A record batch as an Arrow IPC stream whose buffers lie at multiples of 64 bytes.

pyarrow's writer pads buffers to 8 bytes and offers no other choice, while Arrow recommends 64. A
message names the place of every buffer, so that the body can be laid out anew and any reader still
reads it. Sources: Message.fbs and "Encapsulated message format" of the Arrow specification, and
the FlatBuffers internals page.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Final

import pyarrow as pa

__all__ = ["ALIGNMENT", "aligned_stream", "padding"]

ALIGNMENT: Final = 64

_PREFIX_BYTES: Final = 8  # The continuation marker and the length of the metadata.
_HEADER_FIELD: Final = 2
_BODY_LENGTH_FIELD: Final = 3
_BUFFERS_FIELD: Final = 2


def padding(size: int) -> int:
    """Bytes from `size` to the next multiple of 64."""
    return -size % ALIGNMENT


def aligned_stream(batch: pa.RecordBatch) -> tuple[list[memoryview], int]:
    """The pieces of the stream in order, and how many bytes to leave before it.

    Large pieces are the batch's own memory, not copies of it.

    Returns:
        The pieces; and the number of bytes (under 64) by which the stream must begin after a
        multiple of 64 for its buffers to lie at such multiples.
    """
    written = _Written()
    with pa.ipc.new_stream(pa.PythonFile(written, mode="w"), batch.schema) as writer:
        writer.write_batch(batch)
    begin = _last_message(written)
    (metadata_size,) = struct.unpack("<i", written.read(begin + 4, 4))
    body_begin = begin + _PREFIX_BYTES + metadata_size
    head = bytearray(written.read(0, body_begin))
    message = begin + _PREFIX_BYTES
    root = message + struct.unpack_from("<I", head, message)[0]
    record = _follow(head, _field(head, root, _HEADER_FIELD))
    buffers = _follow(head, _field(head, record, _BUFFERS_FIELD))
    (num_buffers,) = struct.unpack_from("<I", head, buffers)
    pieces: list[memoryview] = []
    place = 0
    for index in range(num_buffers):
        at = buffers + 4 + 16 * index
        offset, size = struct.unpack_from("<qq", head, at)
        struct.pack_into("<q", head, at, place)
        if size:
            pieces += [written.read(body_begin + offset, size), memoryview(bytes(padding(size)))]
            place += size + padding(size)
    length = _field(head, root, _BODY_LENGTH_FIELD)
    if length:
        struct.pack_into("<q", head, length, place)
    end_of_stream = struct.pack("<Ii", 0xFFFFFFFF, 0)
    return [memoryview(head), *pieces, memoryview(end_of_stream)], padding(len(head))


class _Written:
    """A stream as pyarrow writes it: buffers come as they lie in memory and are kept like that."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[memoryview] = []
        self._begins = [0]

    def write(self, data: bytes | pa.Buffer) -> int:
        piece = memoryview(data).cast("B")
        if piece:
            self._pieces.append(piece)
            self._begins.append(self._begins[-1] + len(piece))
        return len(piece)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def read(self, begin: int, size: int) -> memoryview:
        """A part of the stream; copied only where it lies in more pieces than one."""
        index = bisect_right(self._begins, begin) - 1
        begin -= self._begins[index]
        if begin + size <= len(self._pieces[index]):
            return self._pieces[index][begin : begin + size]
        parts = []
        while size:
            part = self._pieces[index][begin : begin + size]
            parts.append(part)
            index, begin, size = index + 1, 0, size - len(part)
        return memoryview(b"".join(parts))


def _last_message(stream: _Written) -> int:
    """Where the last message before the end of the stream begins: the record batch."""
    begin = last = 0
    while True:
        (metadata_size,) = struct.unpack("<i", stream.read(begin + 4, 4))
        if not metadata_size:
            return last
        message = stream.read(begin + _PREFIX_BYTES, metadata_size)
        root = struct.unpack_from("<I", message)[0]
        length = _field(message, root, _BODY_LENGTH_FIELD)
        body_size = struct.unpack_from("<q", message, length)[0] if length else 0
        last, begin = begin, begin + _PREFIX_BYTES + metadata_size + body_size


def _field(data: memoryview | bytearray, table: int, index: int) -> int:
    """Where a field of a FlatBuffers table lies; 0 if it has its default."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    (vtable_size,) = struct.unpack_from("<H", data, vtable)
    entry = 4 + 2 * index
    if entry >= vtable_size:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + entry)
    return table + offset if offset else 0


def _follow(data: memoryview | bytearray, place: int) -> int:
    """What a reference points to."""
    return int(place + struct.unpack_from("<I", data, place)[0])
