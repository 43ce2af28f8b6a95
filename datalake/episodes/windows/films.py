"""Films of a videos table by row: what is known of each, its bytes in place, the last used kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from copy import copy
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa

from datalake import forks
from datalake.blocks.ahead import Ahead
from datalake.blocks.cache import BlockCache
from datalake.blocks.pieces import PIECE_BYTES, PieceReader
from datalake.errors import InputError
from datalake.tables import Table
from datalake.telemetry import Meter
from datalake.video import Film, VideoInfo
from datalake.video.source import Sliced

__all__ = ["Films"]

_INFO: Final = [
    *("codec", "pix_fmt", "width", "height", "fps", "num_frames", "duration_s"),
    *("time_base_num", "time_base_den", "frame_pts", "keyframes", "keyframe_offsets"),
]
_BYTES_A_FRAME: Final = 16


class Films:
    """The videos of a table at one version. Thread-safe; picklable, a copy holds nothing, and
    neither does a forked process at first.

    The bytes of a local table are mapped into memory. Those of a Lance table on a store come in
    pieces, which are cached on this node as blocks of tables are; those of any other are read
    whole. Up to `cache_bytes` stay: 16 bytes a frame for the facts, 20 for the index of its
    packets, and the file itself where it was read whole.

    Args:
        videos: the table.
        cache_bytes: as above.
        cache: of this node; None for the one in the default place.
    """

    def __init__(self, videos: Table, cache_bytes: int, cache: BlockCache | None = None) -> None:
        self._videos = videos
        self._cache_bytes = cache_bytes
        self._cache = cache
        self._facts: pa.Table | None = None
        self._mapped = videos.mapped("video")
        self._ranged = videos.ranged("video") if self._mapped is None else None
        self._pieces: PieceReader | None = None
        self._meter, self._is_scattered = Meter(), False
        self._begin()

    def _begin(self) -> None:
        self._infos: OrderedDict[int, tuple[str, VideoInfo]] = OrderedDict()
        self._films: OrderedDict[int, tuple[Film, int]] = OrderedDict()
        self._num_frames = self._num_bytes = 0
        self._lock = Lock()
        forks.register(self)

    def _after_fork(self) -> None:
        # What was read by another process is not this one's.
        self._begin()

    @property
    def is_in_pieces(self) -> bool:
        """Whether films are read by parts."""
        return self._ranged is not None

    def view(self) -> Films:
        """The same films for another stream: these, unless what they read is counted here."""
        if not self.is_in_pieces:
            return self
        made = copy(self)
        made._pieces = None if self._pieces is None else self._pieces.view()
        made.attach(Meter())
        return made

    def attach(self, meter: Meter) -> None:
        """Count what is read in pieces into this meter from now on."""
        self._meter = meter
        if self._pieces is not None:
            self._pieces.reader.attach(meter)

    def scatter(self, is_scattered: bool) -> None:
        """Whether films come one here and one there; see `TableReader.scatter`."""
        self._is_scattered = is_scattered
        if self._pieces is not None:
            self._pieces.reader.scatter(is_scattered, self._pieces.columns)

    def prefetch(self, parts: Iterable[tuple[int, int, int]]) -> list[Ahead]:
        """Begin to bring near parts of films: the row of each, the first byte and the one after the
        last. Nothing where films are not in pieces."""
        if not self.is_in_pieces:
            return []
        pieces = self._in_pieces()
        rows = [pieces.rows(row, start, stop) for row, start, stop in parts]
        return [pieces.reader.prefetch(pieces.columns, np.concatenate(rows))] if rows else []

    def _in_pieces(self) -> PieceReader:
        pieces = self._pieces
        if pieces is None:
            assert self._ranged is not None
            with self._meter.during("store", f"sizes of videos in {self._videos.uri}"):
                sizes = self._videos.scan(["num_bytes"]).read_all()["num_bytes"].to_numpy()
            pieces = PieceReader(self._videos, "video", self._ranged, sizes, cache=self._cache)
            pieces.reader.attach(self._meter)
            pieces.reader.scatter(self._is_scattered, pieces.columns)
            # Should two threads have made one at once, the last is used.
            self._pieces = pieces
        return pieces

    def __len__(self) -> int:
        """Films that are held."""
        return len(self._films)

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_videos", "_cache_bytes", "_cache", "_mapped", "_ranged", "_is_scattered")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._facts = self._pieces = None
        self._meter = Meter()
        self._begin()

    def prepare_fork(self) -> None:
        """Read the facts of all videos, 16 bytes a frame, since a forked process could not.

        Raises:
            InputError: the bytes cannot be mapped, so that a forked process cannot read them.
        """
        if self._mapped is None:
            raise InputError(
                "A forked process cannot read these videos",
                where=self._videos.uri,
                found="a table that is not mapped from a local disk",
                fix="Use threads, or spawned workers",
            )
        self._mapped.prepare()
        if self._facts is None:
            self._facts = self._videos.scan(["video_id", *_INFO]).read_all().combine_chunks()

    def infos(self, rows: Iterable[int], meter: Meter) -> dict[int, tuple[str, VideoInfo]]:
        """The id of the video in each row and the facts about it, read in one go."""
        with self._lock:
            found = {row: self._infos[row] for row in rows if row in self._infos}
            for row in found:
                self._infos.move_to_end(row)
        if missing := [row for row in rows if row not in found]:
            columns = ["video_id", *_INFO]
            if self._facts is not None:
                table = self._facts.take(missing)
            else:
                with meter.during("store", f"facts of videos in {self._videos.uri}"):
                    table = self._videos.take(missing, columns)
            read = {
                row: (facts.pop("video_id"), VideoInfo.from_row(facts))
                for row, facts in zip(missing, table.to_pylist(), strict=True)
            }
            found |= read
            self._keep_infos(read)
        return found

    def _keep_infos(self, read: dict[int, tuple[str, VideoInfo]]) -> None:
        with self._lock:
            for row, known in read.items():
                if row not in self._infos:
                    self._infos[row] = known
                    self._num_frames += known[1].num_frames
            while self._num_frames * _BYTES_A_FRAME > self._cache_bytes:
                _, (_, info) = self._infos.popitem(last=False)
                self._num_frames -= info.num_frames

    def get(self, row: int, info: VideoInfo, meter: Meter) -> Film:
        """The film in a row.

        Raises:
            StoreError: the bytes cannot be read.
        """
        with self._lock:
            if row in self._films:
                self._films.move_to_end(row)
                return self._films[row][0]
        data, num_bytes = self._read(row, meter)
        film = Film(data, info)
        num_bytes += film.num_bytes
        with self._lock:
            # Should two threads have read it at once, one of them is enough.
            if row in self._films:
                return self._films[row][0]
            self._films[row] = film, num_bytes
            self._num_bytes += num_bytes
            while self._num_bytes > self._cache_bytes:
                _, (_, dropped) = self._films.popitem(last=False)
                self._num_bytes -= dropped
        return film

    def _read(self, row: int, meter: Meter) -> tuple[Sliced, int]:
        """The bytes of a video, and how much memory they take."""
        if self._mapped is not None:
            view = self._mapped.views(np.array([row]))[0]
            if view is not None:
                return view.data, 0
        if self.is_in_pieces:
            return _InPieces(self._in_pieces(), row), 0
        with meter.during("store", f"video {row} of {self._videos.uri}"):
            data = memoryview(self._videos.take([row], ["video"])["video"][0].as_buffer())
        meter.count("origin_reads")
        meter.count("origin_bytes", len(data))
        return data, len(data)


class _InPieces:
    """A film on a store, as bytes that are brought near as they are asked for."""

    def __init__(self, pieces: PieceReader, row: int) -> None:
        self._pieces, self._row = pieces, row
        # Where the last small part was found: headers lie side by side.
        self._last = 0, memoryview(b"")

    def __len__(self) -> int:
        return self._pieces.size(self._row)

    def __getitem__(self, part: slice) -> memoryview:
        start, stop, _ = part.indices(len(self))
        begin, near = self._last
        if begin <= start and stop <= begin + len(near):
            return near[start - begin : stop - begin]
        if stop - start > PIECE_BYTES:
            return self._pieces.read(self._row, start, stop).data
        begin = start // PIECE_BYTES * PIECE_BYTES
        end = -(-stop // PIECE_BYTES) * PIECE_BYTES
        near = self._pieces.read(self._row, begin, end).data
        self._last = begin, near
        return near[start - begin : stop - begin]
