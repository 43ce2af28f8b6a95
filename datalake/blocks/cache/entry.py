"""A file of the cache: a head that says what it is, then its content, checksummed.

0   magic, format revision, kind
16  where the content begins, its size, its checksum (xxh3, 128 bits)
48  a number that no other entry has, checksum of the head (xxh3, 64 bits)
64  what it is a copy of (JSON), zeros up to the content
"""

from __future__ import annotations

import enum
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import xxhash

from datalake.blocks.cache.aligned import aligned_stream, padding
from datalake.blocks.cache.key import Key

__all__ = [
    "HEAD_BYTES",
    "CorruptEntryError",
    "Head",
    "Kind",
    "head_bytes",
    "pieces_of",
    "read_head",
    "read_key",
    "write_all",
]

HEAD_BYTES: Final = 64
_MAGIC: Final = b"DLBLOCK\n"
_REVISION: Final = 1
_HEAD: Final = struct.Struct("<8sIIQQ16s8s")
_CHECK: Final = struct.Struct("<Q")
_MOST_ABOUT: Final = 1 << 20
# Pieces smaller than this are written together.
_JOINED_BYTES: Final = 1 << 16


class Kind(enum.IntEnum):
    """What the content is."""

    BATCH = 1
    """An Arrow IPC stream of one record batch."""
    SLOTS = 2
    """Rows written one by one: see `datalake.blocks.slots`."""


class CorruptEntryError(Exception):
    """A file of the cache that is torn, cut, flipped or something else; never leaves the cache."""


@dataclass(frozen=True)
class Head:
    """The head of an entry."""

    kind: Kind
    content_begin: int
    content_size: int
    checksum: bytes
    nonce: bytes
    about: bytes


def head_bytes(
    kind: Kind, about: bytes, content_begin: int, content_size: int, checksum: bytes
) -> bytes:
    """A head of exactly `content_begin` bytes."""
    fixed = _HEAD.pack(
        _MAGIC, _REVISION, kind, content_begin, content_size, checksum, os.urandom(8)
    )
    padded = about.ljust(content_begin - HEAD_BYTES, b"\0")
    return fixed + _CHECK.pack(xxhash.xxh3_64_intdigest(fixed + padded)) + padded


def read_head(data: memoryview) -> Head:
    """The head at the beginning of `data`, which must reach to the content.

    Raises:
        CorruptEntryError: it is none, or damaged.
    """
    if len(data) < HEAD_BYTES:
        raise CorruptEntryError("cut within its head")
    magic, revision, kind, begin, size, checksum, nonce = _HEAD.unpack_from(data)
    if magic != _MAGIC or revision != _REVISION:
        raise CorruptEntryError("no entry of this revision")
    if not HEAD_BYTES <= begin <= min(len(data), _MOST_ABOUT):
        raise CorruptEntryError("cut within its head")
    about = bytes(data[HEAD_BYTES:begin])
    (check,) = _CHECK.unpack_from(data, _HEAD.size)
    if check != xxhash.xxh3_64_intdigest(bytes(data[: _HEAD.size]) + about):
        raise CorruptEntryError("its head does not fit its checksum")
    return Head(Kind(kind), begin, size, checksum, nonce, about.rstrip(b"\0"))


def read_key(path: str | os.PathLike[str]) -> Key:
    """What the file at `path` is a copy of.

    Raises:
        CorruptEntryError: it does not say.
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        return Key(**json.loads(read_head(memoryview(file.read(_MOST_ABOUT))).about))


def pieces_of(key: Key, batch: pa.RecordBatch) -> list[memoryview]:
    """A record batch as the bytes of an entry, in pieces, buffers at multiples of 64 bytes."""
    pieces, shift = aligned_stream(batch)
    about = key.about()
    content_begin = HEAD_BYTES + len(about) + padding(len(about)) + shift
    hasher = xxhash.xxh3_128()
    for piece in pieces:
        hasher.update(piece)
    size = sum(map(len, pieces))
    head = head_bytes(Kind.BATCH, about, content_begin, size, hasher.digest())
    return [memoryview(head), *pieces]


def write_all(fd: int, pieces: Sequence[memoryview]) -> None:
    """Write all pieces, one after the other.

    Raises:
        OSError: such as ENOSPC.
    """
    small = bytearray()
    for piece in pieces:
        if len(piece) < _JOINED_BYTES:
            small += piece
            if len(small) < 2 * _JOINED_BYTES:
                continue
            piece, small = memoryview(small), bytearray()
        elif small:
            _write(fd, memoryview(small))
            small = bytearray()
        _write(fd, piece)
    _write(fd, memoryview(small))


def _write(fd: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(fd, piece) :]
