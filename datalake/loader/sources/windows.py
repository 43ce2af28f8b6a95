"""Windows of an episode set as a source: one example a frame."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from datalake.audio import BadAudio
from datalake.blocks.cache import BlockCache
from datalake.blocks.origin import NOT_OF_ROWS
from datalake.episodes import EpisodeSet
from datalake.episodes.masks import MASK_SUFFIX, Mask, open_mask
from datalake.episodes.windows import Windows
from datalake.episodes.windows.streams import Stream
from datalake.episodes.windows.windows import Keep
from datalake.errors import InputError, LakeError, StoreError
from datalake.lake import Lake, Selection
from datalake.loader.order.hashing import Words
from datalake.loader.order.order import Indices
from datalake.loader.sources.chosen import chosen_frames
from datalake.loader.sources.naming import MISSING_BLOCK, chosen_set
from datalake.loader.sources.source import (
    Allocate,
    BadRow,
    BadRowsError,
    Columns,
    Prefetch,
)
from datalake.quarantine import Reason
from datalake.tables.protocol import Table
from datalake.telemetry import Meter
from datalake.video import BadVideo

__all__ = ["EpisodeWindows"]


class EpisodeWindows:
    """Every frame of an episode set, with its window. See `Source` for the contract.

    Examples are those of `Windows.batch` and `row_index` (the frame's row). Texts and encoded
    pictures are lists, all else arrays. Nothing in them is random. Holds what `Windows` does, and
    4 bytes an episode.

    Args:
        windows: what to read around each frame; an episode set for all features of the frame alone.
            Frames that its mask holds are never taken.
        selection: of the set's episodes (of the table `<set>.episodes`): a loader takes all of
            their frames, in that order, each with its episode's weight.
        episode_ids: the episodes whose frames a loader takes, in their order, in place of a
            selection.
        where: a condition on the episodes table, such as `split = 'train'`, in its place.
        skip_idle: leave out the frames at the head and the tail of an episode in which the robot
            stands still, as far as they are known.

    Raises:
        InputError: episodes are chosen in two ways, one is named twice, or the selection was made
            from another version or table.
        NotFoundError: there is no episode of an id (names the nearest).
        PredicateError: `where` does not parse.
        SchemaError: it names an unknown column.
    """

    def __init__(
        self,
        windows: Windows | EpisodeSet,
        *,
        selection: Selection | None = None,
        episode_ids: Iterable[str] | None = None,
        where: str | None = None,
        skip_idle: bool = False,
    ) -> None:
        self._windows = windows if isinstance(windows, Windows) else Windows(windows)
        self._episodes = self._windows.episodes
        self.selection = chosen_frames(
            self._windows, selection, episode_ids, where, skip_idle=skip_idle
        )
        """Which frames a loader takes; None for all."""
        keys = "\n".join(f"{key} {shape}" for key, shape in sorted(self._windows.keys().items()))
        self._kind = f"windows/{hashlib.sha256(keys.encode()).hexdigest()[:16]}"
        column = self._episodes.episodes.scan(["domain"]).read_all()["domain"].combine_chunks()
        encoded = pc.dictionary_encode(column)
        self._domain_of = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        self._domains: list[str | None] = [*encoded.dictionary.to_pylist(), None]

    @classmethod
    def from_lake(
        cls,
        lake: Lake,
        name: str,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        *,
        version: int | None = None,
        selection: str | None = None,
        episode_ids: Iterable[str] | None = None,
        where: str | None = None,
        skip_idle: bool = False,
        masks: Mask | str | Sequence[str] | None = None,
        delta_indices: Mapping[str, Sequence[int]] | None = None,
        columns: Sequence[str] | None = None,
        tolerance_s: float = 1e-4,
        size: tuple[int, int] | None = None,
        decode: bool = True,
        streams: Mapping[str, Stream] | None = None,
        cache: BlockCache | str | Path | None = None,
        keep: Keep = "encoded",
        cache_bytes: int = 1 << 30,
        decoded_bytes: int = 0,
    ) -> EpisodeWindows:
        """The windows of an episode set of a lake, or of some episodes of it.

        The other arguments are those of `Windows`. With a saved selection the version is the one
        that it was made from.

        Args:
            lake: the lake.
            name: the episode set.
            delta_timestamps: as of `Windows`.
            version: of the set; None for the latest, or that of the selection.
            selection: the name of a selection of the set's episodes.
            episode_ids: as of `EpisodeWindows`.
            where: as of `EpisodeWindows`.
            skip_idle: as of `EpisodeWindows`.
            masks: frames that no window is to hold: the name of a mask of the set; a list of
                reasons, of the mask `<name>.masks`; or a mask. Its latest version is taken, and
                must fit the set's.

        Raises:
            NotFoundError: there is no such set, version, selection, mask, reason, episode or
                feature (names the nearest).
            InputError: as `Windows` and `EpisodeWindows`; or the selection was made from another
                table, or version than the one given.
        """
        episodes, found = chosen_set(lake, name, version, selection)
        return cls(
            Windows(
                episodes,
                delta_timestamps,
                delta_indices=delta_indices,
                columns=columns,
                masks=_mask(lake, name, masks),
                tolerance_s=tolerance_s,
                size=size,
                decode=decode,
                streams=streams,
                cache=cache,
                keep=keep,
                cache_bytes=cache_bytes,
                decoded_bytes=decoded_bytes,
                # The loader's threads make a batch each.
                num_threads=1,
            ),
            selection=found,
            episode_ids=episode_ids,
            where=where,
            skip_idle=skip_idle,
        )

    @property
    def windows(self) -> Windows:
        """What is read around each frame."""
        return self._windows

    @property
    def tables(self) -> tuple[Table, ...]:
        """What it reads."""
        episodes = self._windows.episodes
        return (episodes.episodes, episodes.frames, episodes.videos)

    @property
    def num_rows(self) -> int:
        """Frames of the version."""
        return len(self._windows)

    @property
    def kind(self) -> str:
        """Follows from the keys, types and shapes of an example."""
        return self._kind

    @property
    def block_rows(self) -> int:
        """Consecutive frames that come from the store together."""
        return self._windows.block_rows

    def identity(self) -> Mapping[str, str | int]:
        """The set's name; uri and version of its tables, and of those of its streams; the digest of
        its mask, if it has one."""
        tables = {part: getattr(self._episodes, part) for part in ("episodes", "frames", "videos")}
        found: dict[str, str | int] = {"set": self._episodes.name}
        for part, table in tables.items():
            found |= {f"{part}_uri": table.uri, f"{part}_version": table.version}
        if self._windows.masked is not None:
            found["mask"] = self._windows.masked.digest
        for name, stream in self._windows.streams.items():
            found |= {f"{name}_{key}": value for key, value in stream.identity().items()}
        return found

    def view(self) -> EpisodeWindows:
        """The same windows for another stream; see `Source.view`."""
        made = copy(self)
        made._windows = self._windows.view()
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._windows.attach(meter)

    def scatter(self, is_scattered: bool) -> None:
        """Whether rows come one here and one there; see `Windows.scatter`."""
        self._windows.scatter(is_scattered)

    def read(self, rows: Indices, words: Words, allocate: Allocate) -> Columns:
        """Examples of rows, in the order asked; `words` change nothing.

        Raises:
            BadRowsError: some rows cannot be read or decoded; names all of them.
            InputError: pictures differ in size between rows that are each well.
            StoreError: the store gave none of several rows, so that it is the store and not they;
                or it refuses.
        """
        del words
        try:
            batch = self._windows.batch(rows, allocate=allocate)
        except NOT_OF_ROWS:
            raise
        except (InputError, StoreError) as error:
            bad = sorted(self._bad(rows), key=lambda bad: bad.index)
            if not bad or _is_store(bad, rows):
                raise
            raise BadRowsError(bad) from error
        return {
            **{
                key: values.tolist() if _is_objects(values) else values
                for key, values in batch.items()
            },
            "row_index": batch["index"],
        }

    def prefetch(self, rows: Indices) -> Prefetch:
        """Begin to bring near the columns, pictures, video and streams of these windows."""
        return _All(self._windows.prefetch(rows))

    @property
    def reads_to_prefetch(self) -> bool:
        """Whether `prefetch` may wait for tables; see `Windows.reads_to_prefetch`."""
        return self._windows.reads_to_prefetch

    def expect(self, rows: Indices, in_s: float) -> None:
        """What these windows need is wanted again in about so many seconds."""
        self._windows.expect(rows, in_s)

    def costs(self, rows: Indices, unit: str) -> npt.NDArray[np.float64]:
        """`examples`: 1; `frames`: the longest offsets of a window; `seconds`: their duration.

        Raises:
            InputError: the unit is another one.
        """
        frames = np.full(len(rows), float(self._windows.num_steps))
        if unit == "examples":
            return np.ones(len(rows))
        if unit == "frames":
            return frames
        if unit == "seconds":
            return frames / self._windows.fps(self._episodes.index.episode_at(rows))
        raise InputError(
            "Windows are not counted in this unit",
            found=unit,
            expected="examples, frames or seconds",
        )

    def domains(self, rows: Indices) -> list[str | None]:
        """The domain of each row's episode: `<source>/<embodiment>/<task>`."""
        codes = self._domain_of[self._episodes.index.episode_at(rows)]
        return [self._domains[code] for code in codes.tolist()]

    def ids(self, rows: Indices) -> list[str]:
        """Each row as `<episode_id>@<frame_index>`."""
        index = self._episodes.index
        owners = index.episode_at(rows)
        frames = (rows - index.starts[owners]).tolist()
        names = index.episode_ids.take(owners).to_pylist()
        return [f"{name}@{frame}" for name, frame in zip(names, frames, strict=True)]

    def prepare_fork(self) -> None:
        """Read what a forked process could not.

        Raises:
            InputError: a forked process cannot read these tables (says what to do).
        """
        self._windows.prepare_fork()

    def _bad(self, rows: Indices) -> Iterator[BadRow]:
        """Those rows that make no example: halves of the batch are read, and halves of these."""
        frames = self._episodes.frames
        waiting = np.array_split(np.unique(rows), 2)
        while waiting:
            some = waiting.pop()
            try:
                self._windows.batch(some)
            except NOT_OF_ROWS:
                raise
            except (InputError, StoreError) as error:
                if len(some) > 1:
                    waiting += np.array_split(some, 2)
                    continue
                row = int(some[0])
                where = f"{frames.uri}, version {frames.version}, row {row}, {self.ids(some)[0]}"
                for index in np.flatnonzero(rows == row).tolist():
                    yield BadRow(index, row, where, _reason(error), str(error))


class _All:
    """Several prefetches as one."""

    def __init__(self, parts: Sequence[Prefetch]) -> None:
        self._parts = parts
        self.num_bytes = sum(part.num_bytes for part in parts)

    def wait(self) -> None:
        """Return when all is there."""
        for part in self._parts:
            part.wait()


def _mask(lake: Lake, name: str, masks: Mask | str | Sequence[str] | None) -> Mask | None:
    if masks is None or isinstance(masks, Mask):
        return masks
    if isinstance(masks, str):
        return open_mask(lake, masks)
    return open_mask(lake, name + MASK_SUFFIX).only(masks)


def _is_store(bad: Sequence[BadRow], rows: Indices) -> bool:
    """Whether all rows of several could not be read."""
    lost = {one.row for one in bad if one.reason == MISSING_BLOCK}
    return len(lost) > 1 and len(lost) == len(np.unique(rows))


def _is_objects(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "O"


def _reason(error: LakeError) -> str:
    if isinstance(error, BadVideo | BadAudio):
        return error.refusal.reason
    return MISSING_BLOCK if isinstance(error, StoreError) else Reason.BAD_ROW
