"""A record batch as an Arrow IPC stream whose buffers lie at multiples of 64 bytes.

pyarrow's writer pads buffers to 8 bytes and offers no other choice, while Arrow recommends 64. A
message names the place of every buffer, so that the body can be laid out anew and any reader still
reads it. Sources: Message.fbs and "Encapsulated message format" of the Arrow specification, and
the FlatBuffers internals page.
"""

from __future__ import annotations

import struct
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

    Returns:
        The pieces; and the number of bytes (under 64) by which the stream must begin after a
        multiple of 64 for its buffers to lie at such multiples.
    """
    stream = memoryview(_written(batch))
    begin = _last_message(stream)
    (metadata_size,) = struct.unpack_from("<i", stream, begin + 4)
    body_begin = begin + _PREFIX_BYTES + metadata_size
    head = bytearray(stream[:body_begin])
    body = stream[body_begin:]
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
            pieces += [body[offset : offset + size], memoryview(bytes(padding(size)))]
            place += size + padding(size)
    length = _field(head, root, _BODY_LENGTH_FIELD)
    if length:
        struct.pack_into("<q", head, length, place)
    end_of_stream = struct.pack("<Ii", 0xFFFFFFFF, 0)
    return [memoryview(head), *pieces, memoryview(end_of_stream)], padding(len(head))


def _written(batch: pa.RecordBatch) -> pa.Buffer:
    """The stream as pyarrow writes it. Memory that grew with it would be copied again and again."""
    measure = pa.MockOutputStream()
    with pa.ipc.new_stream(measure, batch.schema) as writer:
        writer.write_batch(batch)
    buffer = pa.allocate_buffer(measure.size())
    sink = pa.FixedSizeBufferWriter(buffer)
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return buffer


def _last_message(stream: memoryview) -> int:
    """Where the last message before the end of the stream begins: the record batch."""
    begin = last = 0
    while True:
        (metadata_size,) = struct.unpack_from("<i", stream, begin + 4)
        if not metadata_size:
            return last
        message = begin + _PREFIX_BYTES
        root = message + struct.unpack_from("<I", stream, message)[0]
        length = _field(stream, root, _BODY_LENGTH_FIELD)
        body_size = struct.unpack_from("<q", stream, length)[0] if length else 0
        last, begin = begin, message + metadata_size + body_size


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
