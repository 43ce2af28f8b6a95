"""One video file of which frames are wanted again and again, by many threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from threading import Lock
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from datalake.video.decoding import Decoder
from datalake.video.info import BadVideo, VideoInfo
from datalake.video.pool import DecoderPool
from datalake.video.samples import read_samples
from datalake.video.source import Sliced, SlicedFile, Source

__all__ = ["Film"]


class Film:
    """A video with an index of its packets. Thread-safe.

    Where the file's index says where each packet lies (most MP4), packets go straight to a decoder
    of the pool. Any other file, and any group of pictures that does not come out that way, is read
    through its container, which has the last word on what is damaged.

    Args:
        data: the file, read where it lies: in memory; or brought near in parts, of which the index
            takes some and a group of pictures those with its packets.
        info: what `probe` said of it.
    """

    def __init__(self, data: Sliced, info: VideoInfo) -> None:
        self._data = data
        self.info = info
        """What `probe` said."""
        self._samples = read_samples(data, info)
        self._idle: list[Decoder] = []
        self._lock = Lock()

    @property
    def num_bytes(self) -> int:
        """Memory that the index takes, beside the file and the facts."""
        return 0 if self._samples is None else self._samples.num_bytes

    def decode(
        self,
        pool: DecoderPool,
        group: int,
        numbers: npt.NDArray[np.int64],
        ahead: npt.NDArray[np.int64] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Decode frames of one group of pictures.

        Args:
            pool: where decoders come from.
            group: the group.
            numbers: frames of the group that are wanted, ascending, (n,).
            ahead: frames of the group to go on to, which need not come out. Where no more of the
                group is left then than was decoded, the rest of it follows. None stops at the last
                wanted frame.

        Yields:
            The number of each frame that passes and FFmpeg's frame; each wanted one once.

        Raises:
            BadVideo: `corrupt`: a wanted frame cannot be decoded.
        """
        missing = set(numbers.tolist())
        if self._samples is not None:
            first, stop, last = self._packets(group, numbers, ahead)
            if ahead is not None and last - first <= 2 * (stop - first):
                stop = last
            data, base = self._part(first, stop)
            try:
                decoded = pool.decode(data, self._samples, first, stop, base=base)
                with closing(decoded) as frames:
                    for number, frame in frames:
                        missing.discard(number)
                        yield number, frame
                        if not missing and ahead is None:
                            return
            except BadVideo:
                pass
        if missing:
            yield from self._by_container(np.array(sorted(missing), np.int64))

    def _packets(
        self, group: int, numbers: npt.NDArray[np.int64], ahead: npt.NDArray[np.int64] | None
    ) -> tuple[int, int, int]:
        """The first packet of a group, and after those that are wanted, and after all of it."""
        assert self._samples is not None
        places, keyframes = self._samples.places, self.info.keyframes
        first = int(places[keyframes[group]]) if group >= 0 else 0
        stop = int(places[numbers].max()) + 1
        if ahead is not None and len(ahead):
            stop = max(stop, int(places[ahead].max()) + 1)
        has_next = group + 1 < len(keyframes)
        last = int(places[keyframes[group + 1]]) if has_next else len(places)
        return first, stop, max(stop, last)

    def _part(self, first: int, stop: int) -> tuple[memoryview, int]:
        """The part of the file with these packets, and where it begins."""
        assert self._samples is not None
        if isinstance(self._data, memoryview):
            return self._data, 0
        begins = self._samples.offsets[first:stop]
        base = int(begins.min())
        return self._data[base : int((begins + self._samples.sizes[first:stop]).max())], base

    def _by_container(self, numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, Any]]:
        with self._lock:
            decoder = self._idle.pop() if self._idle else None
        if decoder is None:
            data = self._data if isinstance(self._data, memoryview) else SlicedFile(self._data)
            decoder = Decoder(cast("Source", data), self.info, num_threads=1)
        yield from zip(numbers.tolist(), decoder.decode(numbers), strict=True)
        with self._lock:
            self._idle.append(decoder)
