"""Where the packets of an MP4 lie, read from its index alone: no container is opened, none sought.

MP4 keeps the size, the place and the times of every sample in tables of its `moov` box (ISO/IEC
14496-12, section 8). Read once, they give any packet by a slice of the file. What they say must
agree with what a probe of the whole file found; where it does not (edit lists that hide frames,
fragments, several descriptions of one track), there are no samples and the file has to be read by
its container.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from datalake.video.info import VideoInfo
from datalake.video.source import Sliced

__all__ = ["DecoderKind", "Samples", "read_samples"]

# Sample entry -> codec, and the box with the decoder's configuration, as FFmpeg takes it.
_ENTRIES: Final = {
    b"avc1": ("h264", b"avcC"),
    b"avc3": ("h264", b"avcC"),
    b"hvc1": ("hevc", b"hvcC"),
    b"hev1": ("hevc", b"hvcC"),
    b"av01": ("av1", b"av1C"),
    b"vp09": ("vp9", None),
}
# Bytes of a VisualSampleEntry before the boxes in it.
_ENTRY_HEAD: Final = 78
# No codec here lets a frame overtake more than 16.
_MOST_REORDERED: Final = 16


@dataclass(frozen=True)
class DecoderKind:
    """All that a decoder is set up with; one decoder serves every file of its kind."""

    codec: str
    """`h264`, `hevc`, `av1`, `vp9`."""
    extradata: bytes
    colour: tuple[int, int, int, int] | None
    """Primaries, transfer, matrix and range as the container states them (H.273)."""


@dataclass(frozen=True, eq=False)
class Samples:
    """The packets of a video in decoding order. 20 bytes a frame."""

    kind: DecoderKind
    offsets: npt.NDArray[np.int64]
    """Where each begins in the file, (n,)."""
    sizes: npt.NDArray[np.int32]
    """How many bytes each has, (n,)."""
    frames: npt.NDArray[np.int32]
    """The number of each one's frame in the order in which they are shown, (n,)."""
    places: npt.NDArray[np.int32]
    """Which packet holds each frame: the inverse of `frames`, (n,)."""
    num_reordered: int
    """How many frames a decoder has to hold back to put them in order."""

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return self.offsets.nbytes + self.sizes.nbytes + self.frames.nbytes + self.places.nbytes


def read_samples(data: Sliced, info: VideoInfo) -> Samples | None:
    """The samples of an MP4's video track; None where its index does not say all.

    Args:
        data: the whole file, read where it lies: only the index is touched.
        info: what `probe` said of it; the index has to agree.
    """
    try:
        return _read(data, info)
    except (IndexError, KeyError, ValueError, OverflowError, MemoryError):
        # A box that is cut, missing, or says what cannot be.
        return None


def _read(data: Sliced, info: VideoInfo) -> Samples | None:
    movie = _child(data, b"moov")
    if any(name == b"mvex" for name, _ in _boxes(movie)):
        return None
    tracks = [track for name, track in _boxes(movie) if name == b"trak"]
    video = [track for track in tracks if bytes(_descend(track, b"mdia", b"hdlr")[8:12]) == b"vide"]
    if len(video) != 1:
        return None
    media = _child(video[0], b"mdia")
    header = _child(media, b"mdhd")
    timescale = int.from_bytes(header[20:24] if header[0] == 1 else header[12:16], "big")
    if timescale * info.time_base.numerator != info.time_base.denominator:
        return None
    table = dict(_boxes(_descend(media, b"minf", b"stbl")))
    kind = _kind(table[b"stsd"])
    if kind is None or kind.codec != info.codec:
        return None
    sizes = _sizes(table[b"stsz"], info.num_frames)
    offsets = _offsets(table, sizes)
    shown = _shown(table, info.num_frames)
    # Times of an edit list that only shifts them are those of the probe but for a constant.
    order = np.argsort(shown, kind="stable")
    if not np.array_equal(shown[order] - shown[order[0]], info.frame_pts - info.frame_pts[0]):
        return None
    places = order.astype(np.int32)
    frames = np.empty_like(places)
    frames[places] = np.arange(len(places), dtype=np.int32)
    if not np.array_equal(offsets[places[info.keyframes]], info.keyframe_offsets):
        return None
    if len(offsets) and (offsets.min() < 0 or (offsets + sizes).max() > len(data)):
        return None
    return Samples(kind, offsets, sizes.astype(np.int32), frames, places, _num_reordered(frames))


def _kind(described: memoryview) -> DecoderKind | None:
    """What the one sample description says; None where there are several, or of another codec."""
    entries = list(_boxes(described[8:]))
    if len(entries) != 1 or entries[0][0] not in _ENTRIES:
        return None
    name, entry = entries[0]
    codec, configuration = _ENTRIES[name]
    extradata, colour = b"", None
    for inner, content in _boxes(entry[_ENTRY_HEAD:]):
        if inner == configuration:
            extradata = bytes(content)
        elif inner == b"colr" and bytes(content[:4]) in (b"nclx", b"nclc"):
            numbers = np.frombuffer(content[4:10], ">u2").tolist()
            # 1: limited, 2: full, 0: not said.
            span = 0 if bytes(content[:4]) == b"nclc" else 1 + (content[10] >> 7)
            colour = (numbers[0], numbers[1], numbers[2], span)
        elif inner in (b"clap", b"sinf"):
            # Cropped, or encrypted.
            return None
    if configuration is not None and not extradata:
        return None
    return DecoderKind(codec, extradata, colour)


def _sizes(box: memoryview, num_samples: int) -> npt.NDArray[np.int64]:
    same, count = np.frombuffer(box[4:12], ">u4").tolist()
    # Before anything is made that long: fragmented files have none here, damaged ones billions.
    _check(count == num_samples)
    if same:
        return np.full(count, same, np.int64)
    return np.frombuffer(box[12 : 12 + 4 * count], ">u4").astype(np.int64)


def _offsets(table: dict[bytes, memoryview], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Samples lie in chunks, back to back in each."""
    if b"co64" in table:
        chunks = np.frombuffer(table[b"co64"][8:], ">u8").astype(np.int64)
    else:
        chunks = np.frombuffer(table[b"stco"][8:], ">u4").astype(np.int64)
    runs = np.frombuffer(table[b"stsc"][8:], ">u4").reshape(-1, 3).astype(np.int64)
    # All of the one description.
    _check((runs[:, 2] == 1).all())
    num_samples = _repeated(
        runs[:, 1], np.diff(np.append(runs[:, 0], len(chunks) + 1)), len(chunks)
    )
    # Bytes before each sample within all chunks, less those before its chunk.
    before = np.cumsum(sizes) - sizes
    firsts = np.cumsum(num_samples) - num_samples
    _check((firsts < len(sizes)).all())
    return before + _repeated(chunks - before[firsts], num_samples, len(sizes))


def _shown(table: dict[bytes, memoryview], num_samples: int) -> npt.NDArray[np.int64]:
    """When each sample is shown, in ticks."""
    steps = np.frombuffer(table[b"stts"][8:], ">u4").reshape(-1, 2).astype(np.int64)
    durations = _repeated(steps[:, 1], steps[:, 0], num_samples)
    shown = np.cumsum(durations) - durations
    if b"ctts" in table:
        # Signed in version 1, and by many writers in version 0.
        late = np.frombuffer(table[b"ctts"][8:], ">i4").reshape(-1, 2).astype(np.int64)
        shown = shown + _repeated(late[:, 1], late[:, 0], num_samples)
    return shown


def _repeated(
    values: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], total: int
) -> npt.NDArray[np.int64]:
    """Each value so many times; a damaged table must not make billions of them."""
    _check((counts >= 0).all() and counts.sum() == total)
    return np.repeat(values, counts)


def _check(is_so: np.bool_ | bool) -> None:
    if not is_so:
        raise ValueError("the index contradicts itself, or says what is not known here")


def _num_reordered(frames: npt.NDArray[np.int32]) -> int:
    overtaken = np.zeros(len(frames), np.int64)
    for back in range(1, min(_MOST_REORDERED + 1, len(frames))):
        overtaken[back:] += frames[:-back] > frames[back:]
    return int(overtaken.max(initial=0))


def _boxes(within: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Name and content of each box."""
    return ((name, within[start:stop]) for name, start, stop in _places(within))


def _places(within: Sliced) -> Iterator[tuple[bytes, int, int]]:
    """Name of each box, and where its content begins and ends; looks at headers alone."""
    at = 0
    while at + 8 <= len(within):
        size, head = int.from_bytes(within[at : at + 4], "big"), 8
        name = bytes(within[at + 4 : at + 8])
        if size == 1:
            size, head = int.from_bytes(within[at + 8 : at + 16], "big"), 16
        elif size == 0:
            size = len(within) - at
        if size < head or at + size > len(within):
            return
        yield name, at + head, at + size
        at += size


def _child(within: Sliced, name: bytes) -> memoryview:
    for found, start, stop in _places(within):
        if found == name:
            return within[start:stop]
    raise KeyError(name)


def _descend(within: memoryview, *names: bytes) -> memoryview:
    for name in names:
        within = _child(within, name)
    return within
