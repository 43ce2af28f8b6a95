"""Ogg containers: every page's checksum, order and end are checked before any decoding.

A decoder skips pages with a wrong checksum in silence, so that audio is missing from the middle
and nothing says so; the page walk finds that. RFC 3533 defines the page.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from datalake.audio.info import BadAudio
from datalake.quarantine import Reason

__all__ = ["check_pages"]

_PAGE: Final = struct.Struct("<4sBBqIIIB")
_END_OF_STREAM: Final = 0x04
_REVERSED_BITS: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def check_pages(data: bytes) -> None:
    """Walk all pages of an Ogg file.

    Raises:
        BadAudio: `truncated` (a page is cut, or no page ends the stream) or `corrupt` (a wrong
            checksum, a missing page).
    """
    position = 0
    next_page: dict[int, int] = {}
    open_streams: set[int] = set()
    while position < len(data):
        if position + 27 > len(data):
            raise BadAudio.of(Reason.TRUNCATED, "the last page is cut within its header")
        magic, _, flags, _, serial, number, checksum, num_segments = _PAGE.unpack_from(
            data, position
        )
        if magic != b"OggS":
            raise BadAudio.of(Reason.CORRUPT, f"no Ogg page at byte {position}")
        body = position + 27 + num_segments
        end = body + sum(data[position + 27 : body])
        if body > len(data) or end > len(data):
            raise BadAudio.of(Reason.TRUNCATED, f"page {number} is cut short")
        if _page_checksum(data[position:end]) != checksum:
            raise BadAudio.of(Reason.CORRUPT, f"page {number} has a wrong checksum")
        expected = next_page.get(serial, number)
        if number != expected:
            raise BadAudio.of(Reason.CORRUPT, f"page {expected} is missing")
        next_page[serial] = number + 1
        if flags & _END_OF_STREAM:
            open_streams.discard(serial)
        else:
            open_streams.add(serial)
        position = end
    if open_streams:
        raise BadAudio.of(Reason.TRUNCATED, "no page ends the stream")


def _page_checksum(page: bytes) -> int:
    """CRC-32 as Ogg defines it: polynomial 0x04C11DB7, bits not reflected, no inversion.

    zlib's CRC has the same polynomial with reflected bits and both inversions, so bytes with their
    bits reversed give it in C.
    """
    blanked = page[:22] + bytes(4) + page[26:]
    reflected = zlib.crc32(blanked.translate(_REVERSED_BITS), 0xFFFF_FFFF) ^ 0xFFFF_FFFF
    return int.from_bytes(reflected.to_bytes(4, "little").translate(_REVERSED_BITS), "big")
