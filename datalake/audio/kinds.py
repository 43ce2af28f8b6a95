"""Which kind of file some bytes are, by their first bytes and never by their name."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

__all__ = ["Kind", "kind_of_suffix", "likeness", "sniff"]

Kind: TypeAlias = Literal["wav", "flac", "ogg", "mp3", "mp4", "adts", "aiff"]

_SUFFIXES: Final[dict[str, Kind]] = {
    ".wav": "wav",
    ".wave": "wav",
    ".w64": "wav",
    ".flac": "flac",
    ".ogg": "ogg",
    ".oga": "ogg",
    ".opus": "ogg",
    ".mp3": "mp3",
    ".m4a": "mp4",
    ".mp4": "mp4",
    ".aac": "adts",
    ".aif": "aiff",
    ".aiff": "aiff",
}

# First bytes of what turns up where audio should be.
_STRANGERS: Final = (
    (b"version https://git-lfs", "a Git LFS pointer: the file itself was never downloaded"),
    (b"<!DOCTYPE", "an HTML page"),
    (b"<!doctype", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<?xml", "an XML document"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x1aE\xdf\xa3", "a Matroska or WebM file, which is not supported"),
    (b"\x7fELF", "a program"),
    (b".snd", "a Sun AU file, which is not supported"),
    (b"NIST_1A", "a NIST Sphere file, which is not supported"),
    (b"{", "JSON"),
)

_W64_RIFF: Final = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00"


def kind_of_suffix(suffix: str) -> Kind | None:
    """The kind that a file name's suffix (with its dot, any case) promises."""
    return _SUFFIXES.get(suffix.lower())


def sniff(data: bytes) -> Kind | None:
    """The kind of audio that the bytes are; None if they are none that is known.

    A file cut within its first bytes still counts as the kind that those bytes begin.
    """
    magic = data[:4]
    if magic in (b"RIFF", b"RF64", b"BW64"):
        return "wav" if b"WAVE".startswith(data[8:12]) else None
    if magic == b"fLaC":
        return "flac"
    if magic == b"OggS":
        return "ogg"
    if magic == b"FORM":
        return "aiff" if data[8:12] in (b"AIFF", b"AIFC", b"") else None
    if data[4:8] == b"ftyp":
        return "mp4"
    if magic == b"riff" and data.startswith(_W64_RIFF[: len(data)]):
        return "wav"
    return _sniff_frames(data)


def _sniff_frames(data: bytes) -> Kind | None:
    """The kinds that are a row of frames behind an optional ID3 tag."""
    start = id3_size(data)
    if start and start >= len(data):
        return "mp3"
    head = data[start : start + 4]
    if head == b"fLaC":
        return "flac"
    # Only zeros may stand between a tag and the first frame.
    if start and head == bytes(4):
        start = len(data) - len(data[start:].lstrip(b"\0"))
        head = data[start : start + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    if head[1] & 0xF6 == 0xF0:
        return "adts"
    layer, bitrate, rate = head[1] & 0x06, head[2] >> 4, head[2] >> 2 & 3
    version = head[1] >> 3 & 3
    return "mp3" if layer and bitrate != 15 and rate != 3 and version != 1 else None


def id3_size(data: bytes) -> int:
    """Bytes that ID3v2 tags at the start take, one or several; 0 if there is none."""
    start = 0
    while data[start : start + 3] == b"ID3" and len(data) >= start + 10:
        a, b, c, d = data[start + 6 : start + 10]
        footer = 10 if data[start + 5] & 0x10 else 0
        size = (a & 0x7F) << 21 | (b & 0x7F) << 14 | (c & 0x7F) << 7 | d & 0x7F
        start += 10 + footer + size
    return start


def likeness(data: bytes) -> str:
    """What bytes that are no known audio seem to be, in words for a person."""
    for magic, words in _STRANGERS:
        if data.startswith(magic):
            return words
    if not data.strip(b"\0"):
        return "nothing but zero bytes"
    head = data[:64]
    if all(32 <= byte < 127 or byte in b"\r\n\t" for byte in head):
        return f"text that begins {head[:24].decode('ascii')!r}"
    return f"bytes that begin {head[:8].hex(' ')}"
