"""TFRecord files: where the records lie, and their bytes, checked.

A record is its length (8 bytes, little-endian), a checksum of the length (4), the data, and a
checksum of the data (4). Checksums are CRC-32C, rotated right by 15 bits plus 0xa282ead8, as
https://www.tensorflow.org/tutorials/load_data/tfrecord has it. There is no index in the file:
`find_records` makes one by reading twelve bytes a record and seeking over the rest.
"""

from __future__ import annotations

import struct
from typing import IO, Final, NamedTuple

from connectors.refused import RefusedError
from connectors.tree import LFS_MARK
from datalake.errors import MissingPackageError
from datalake.quarantine import Reason

__all__ = ["Record", "find_records", "masked_crc32c", "read_record"]

_HEAD: Final = struct.Struct("<QI")
_FOOT: Final = struct.Struct("<I")
_GZIP: Final = b"\x1f\x8b"


class Record(NamedTuple):
    """Where a record lies."""

    offset: int
    """Of its length field, in bytes from the beginning of the file."""
    length: int
    """Bytes of data."""


def masked_crc32c(data: bytes) -> int:
    """The checksum that TFRecord stores for `data`.

    Raises:
        MissingPackageError: google-crc32c is not installed.
    """
    try:
        import google_crc32c
    except ImportError as error:
        raise MissingPackageError.of("google-crc32c", "robot", "Reading TFRecord") from error
    crc = int(google_crc32c.value(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def find_records(handle: IO[bytes], size_bytes: int) -> tuple[list[Record], RefusedError | None]:
    """The records of a file, in order. Reads their heads only.

    Returns:
        The records, and why there are no more: None where the file ends with the last one. After
        a damaged length nothing can be found again.
    """
    found: list[Record] = []
    offset = 0
    try:
        while offset < size_bytes:
            handle.seek(offset)
            record = Record(offset, _length(handle.read(_HEAD.size), offset))
            end = offset + _HEAD.size + record.length + _FOOT.size
            if end > size_bytes:
                raise RefusedError(
                    Reason.TRUNCATED,
                    f"the record at byte {offset} ends at {end}, the file at {size_bytes}",
                )
            found.append(record)
            offset = end
    except RefusedError as error:
        return found, error
    return found, None


def read_record(handle: IO[bytes], record: Record) -> memoryview:
    """The data of a record.

    Raises:
        RefusedError: the file ends within it, or a checksum is not the data's.
    """
    handle.seek(record.offset)
    if _length(handle.read(_HEAD.size), record.offset) != record.length:
        raise RefusedError(
            Reason.CORRUPT, f"the record at byte {record.offset} changed since it was listed"
        )
    data = handle.read(record.length)
    foot = handle.read(_FOOT.size)
    if len(foot) < _FOOT.size:
        raise RefusedError(
            Reason.TRUNCATED, f"the file ends within the record at byte {record.offset}"
        )
    if masked_crc32c(data) != _FOOT.unpack(foot)[0]:
        raise RefusedError(
            Reason.CORRUPT,
            f"the checksum of the record at byte {record.offset} is not that of its data",
        )
    return memoryview(data)


def _length(head: bytes, offset: int) -> int:
    if offset == 0 and head.startswith(_GZIP):
        raise RefusedError(Reason.UNSUPPORTED, "the file is compressed with gzip")
    if offset == 0 and LFS_MARK.startswith(head):
        raise RefusedError(
            Reason.LFS_POINTER, "a Git-LFS pointer lies in its place: fetch it with git lfs pull"
        )
    if len(head) < _HEAD.size:
        raise RefusedError(
            Reason.TRUNCATED, f"the file ends within the length of the record at byte {offset}"
        )
    length, checksum = _HEAD.unpack(head)
    if masked_crc32c(head[:8]) != checksum:
        raise RefusedError(
            Reason.CORRUPT,
            f"the length of the record at byte {offset} does not have its checksum",
        )
    return int(length)
