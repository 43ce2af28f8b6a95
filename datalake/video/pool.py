"""Decoders that any file of their kind may use, and groups of pictures decoded with them.

A container's decoder belongs to its file: to read from a thousand files at random is to open and
hold a thousand. Here packets go straight from the file's bytes to a decoder that is only reset
between groups, which takes no time that could be measured (H.264 and AV1).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from threading import Lock
from typing import Any, Final

from datalake.quarantine import Reason
from datalake.video.info import BadVideo
from datalake.video.samples import DecoderKind, Samples
from datalake.video.source import load_av

__all__ = ["DecoderPool"]

# FFmpeg's own AV1 decoder needs a graphics card; containers choose this one as well.
_DECODERS: Final = {"av1": "libdav1d"}


class DecoderPool:
    """Idle decoders, those used last, at most so many. Thread-safe.

    Each holds the frames that its codec refers to, some megabytes at 640x480.
    """

    def __init__(self, max_idle: int = 8) -> None:
        self._max_idle = max_idle
        self._idle: deque[tuple[DecoderKind, Any]] = deque()
        self._lock = Lock()

    def __len__(self) -> int:
        """Decoders that wait for work."""
        return len(self._idle)

    def decode(
        self, data: memoryview, samples: Samples, first: int, stop: int, *, base: int = 0
    ) -> Generator[tuple[int, Any], None, None]:
        """Decode the packets of a range; the first one begins a group of pictures.

        Args:
            data: the file, or the part of it in which these packets lie.
            samples: where its packets lie.
            first: the first packet, in decoding order.
            stop: after the last one.
            base: where in the file `data` begins.

        Yields:
            The number of each frame that comes out, and FFmpeg's frame. They are shown in this
            order. Stop when you have what you need.

        Raises:
            BadVideo: `corrupt`: the decoder refuses a packet.
        """
        av = load_av()
        decoder = self._borrow(samples.kind)
        decoder.flush_buffers()
        if samples.num_reordered:
            # Told nothing, FFmpeg finds out how many frames overtake others by dropping some.
            decoder.reorder_depth = max(decoder.reorder_depth, samples.num_reordered)
        offsets, sizes = samples.offsets[first:stop].tolist(), samples.sizes[first:stop].tolist()
        numbers = samples.frames[first:stop].tolist()
        is_key = True
        try:
            for offset, size, number in zip(offsets, sizes, numbers, strict=True):
                # A copy: decoders read a little beyond a packet, where zeros must be.
                packet = av.Packet(size)
                packet.update(data[offset - base : offset - base + size])
                packet.pts, packet.is_keyframe, is_key = number, is_key, False
                for frame in decoder.decode(packet):
                    yield frame.pts, frame
            for frame in decoder.decode(None):
                yield frame.pts, frame
        except (av.FFmpegError, ValueError) as error:
            # The decoder goes as well.
            raise BadVideo.of(Reason.CORRUPT, str(error)) from error
        except GeneratorExit:
            self._give_back(samples.kind, decoder)
            raise
        self._give_back(samples.kind, decoder)

    def _borrow(self, kind: DecoderKind) -> Any:
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                if self._idle[place][0] == kind:
                    decoder = self._idle[place][1]
                    del self._idle[place]
                    return decoder
        return _new_decoder(kind)

    def _give_back(self, kind: DecoderKind, decoder: Any) -> None:
        with self._lock:
            self._idle.append((kind, decoder))
            if len(self._idle) > self._max_idle:
                self._idle.popleft()


def _new_decoder(kind: DecoderKind) -> Any:
    decoder: Any = load_av().CodecContext.create(_DECODERS.get(kind.codec, kind.codec), "r")
    if kind.extradata:
        decoder.extradata = kind.extradata
    # Several work side by side, each on a group of its own.
    decoder.thread_count = 1
    if kind.colour is not None:
        # The stream's own say comes first, where it has one.
        decoder.color_primaries, decoder.color_trc, decoder.colorspace, span = kind.colour
        decoder.color_range = span
    return decoder
