"""Windows of an episode set: history and action chunks around any frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.blocks.ahead import Ahead
from datalake.blocks.cache import BlockCache
from datalake.blocks.reader import TableReader
from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.masked_frames import MaskedFrames
from datalake.episodes.masks import Mask
from datalake.episodes.windows.cameras import Allocate, Cameras
from datalake.episodes.windows.columns import read_feature, value_shape
from datalake.episodes.windows.decoded import DecodedPictures
from datalake.episodes.windows.images import (
    decoded_images,
    encoded_images,
    first_image,
    image_recipe,
)
from datalake.episodes.windows.offsets import Picked, offsets_in_frames
from datalake.episodes.windows.sensors import SensorReader
from datalake.episodes.windows.sounds import SoundReader
from datalake.episodes.windows.streams import FrameStream, Stream, StreamReader
from datalake.episodes.windows.tasks import Tasks
from datalake.episodes.windows.videos import Videos, picture_shape, video_recipe
from datalake.errors import InputError
from datalake.recording import Feature
from datalake.telemetry import Meter

__all__ = ["Keep", "Windows"]

Keep: TypeAlias = Literal["encoded", "decoded"]

Ints: TypeAlias = npt.NDArray[np.int64]

_KEYS: Final = ("frame_index", "timestamp", "task_index")
_OWN: Final = ("index", "episode_id", "episode_index", *_KEYS, "task")


class Windows:
    """The frames around each frame of an episode set, by offsets in seconds or frames.

    One window a frame, in the order of the frames table. A window holds, for each feature with
    offsets, the values at those offsets from its frame; where an offset leads out of the episode,
    the nearest frame of the episode stands in and `<feature>_is_pad` is true. A feature without
    offsets is the frame's own value. The request and the result are those of LeRobot's
    `delta_timestamps`, but that pictures stay uint8 and (height, width, channels), and that a
    camera with a single offset keeps its axis of length 1.

    With a mask an episode is cut at its masked frames into runs, and a run is to a window what an
    episode is without: no window is anchored at a masked frame or leaves its run, so that no masked
    frame ever stands in one, and `<feature>_is_pad` is true beyond the run's ends. What streams
    give is not masked.

    Picklable (for spawned workers), and safe to use in several threads. Holds some 200 bytes an
    episode and 50 a camera and episode, nothing a frame, and up to `cache_bytes` of what is known
    of videos, or of encoded video where it cannot be read in parts.

    Args:
        episodes: the set, at a version.
        delta_timestamps: for a feature its offsets in seconds, multiples of 1/fps. Episodes of
            different frame rates take the frames that each rate has there.
        delta_indices: for a feature its offsets in frames, in place of seconds.
        columns: the features to read; None for all. Those with offsets are read in any case.
        masks: frames that no window is to hold; 32 bytes a span.
        tolerance_s: how far an offset may be from a multiple of 1/fps, and a frame of a video from
            its timestamp.
        size: (width, height) to which pictures are resized as they are decoded.
        decode: False leaves the pictures of image features as they are stored, as lists of bytes;
            a trainer that decodes on its device wants them so. Video is decoded in any case.
        streams: what else stands around a frame, by name: sensors and sound of other rates.
        cache: where rows of tables that cannot be read in place are kept on this machine, parts of
            videos on a store, and decoded pictures; a directory, or None for the usual one.
        keep: "decoded" keeps each picture as it was decoded and resized, so that no later epoch
            decodes it again; it takes height x width x channels bytes of the cache a picture.
        cache_bytes: what stays in memory of videos from one batch to the next: see `Films`.
        decoded_bytes: decoded frames that stay in memory until the windows that were announced by
            `prefetch` take them; see `Cameras`.
        num_threads: groups of pictures of videos decoded side by side.

    Raises:
        NotFoundError: there is no such feature (names the nearest).
        InputError: offsets are none, given twice, or no multiples of 1/fps; a stream has the name
            of a key; pictures shall be kept decoded, and are not decoded; or the mask does not fit
            the episodes.
    """

    def __init__(
        self,
        episodes: EpisodeSet,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        *,
        delta_indices: Mapping[str, Sequence[int]] | None = None,
        columns: Sequence[str] | None = None,
        masks: Mask | None = None,
        tolerance_s: float = 1e-4,
        size: tuple[int, int] | None = None,
        decode: bool = True,
        streams: Mapping[str, Stream] | None = None,
        cache: BlockCache | str | Path | None = None,
        keep: Keep = "encoded",
        cache_bytes: int = 1 << 30,
        decoded_bytes: int = 0,
        num_threads: int = 4,
    ) -> None:
        _check_keep(keep, decode=decode)
        self.episodes = episodes
        if columns is None:
            columns = [feature.name for feature in episodes.features]
        names = [*columns, *(delta_timestamps or {}), *(delta_indices or {})]
        self.features: tuple[Feature, ...] = tuple(map(episodes.feature, dict.fromkeys(names)))
        """What a window holds."""
        self.masked: MaskedFrames | None = None if masks is None else masks.on(episodes)
        """The frames that no window holds."""
        self._size, self._decode = size, decode
        rows = episodes.episodes.scan(["episode_index", "fps", "tasks"]).read_all()
        self._episode_index = rows["episode_index"].to_numpy()
        self._tasks = Tasks(rows["tasks"].combine_chunks())
        self._fps, self._rates = np.unique(rows["fps"].to_numpy(), return_inverse=True)
        self._offsets = offsets_in_frames(self._fps, delta_timestamps, delta_indices, tolerance_s)
        self._meter = Meter()
        kept_in = BlockCache.shared(cache) if isinstance(cache, str | Path) else cache
        self._reader = TableReader(episodes.frames, cache=kept_in, meter=self._meter)
        self._kept = self._places(kept_in) if keep == "decoded" else {}
        cameras = [feature for feature in self.features if feature.dtype == "video"]
        self._cameras = Cameras(
            episodes,
            cameras,
            tolerance_s=tolerance_s,
            size=size,
            cache_bytes=cache_bytes,
            decoded_bytes=decoded_bytes,
            num_threads=num_threads,
            cache=kept_in,
        )
        self._videos = Videos(episodes, self._reader, self._cameras, self._kept)
        self._announces = decoded_bytes > 0 and keep == "encoded" and bool(cameras)
        self._streams = {
            name: self._bound(name, stream, kept_in) for name, stream in (streams or {}).items()
        }

    def __len__(self) -> int:
        """Windows: one a frame. Those of masked frames are counted, and cannot be read."""
        return int(self.episodes.index.starts[-1])

    def __getitem__(self, row: int) -> dict[str, Any]:
        """One window: as `batch`, without the first axis. A negative row counts from the end.

        Raises:
            InputError: the row is out of range; else as `batch`.
        """
        return self.__getitems__([row + len(self) if row < 0 else row])[0]

    def __getitems__(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Several windows, read as one batch; torch's DataLoader asks so."""
        batch = self.batch(rows)
        return [{key: values[i] for key, values in batch.items()} for i in range(len(rows))]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """All windows in order but those of masked frames, one by one; `batch` is faster."""
        return (self[row] for row in self.episode_rows().tolist())

    def batch(
        self, rows: Sequence[int] | npt.NDArray[np.integer], *, allocate: Allocate = np.empty
    ) -> dict[str, Any]:
        """Windows at rows of the frames table, in the order asked, repeats allowed.

        Each column is read in one gather; each picture is decoded once, straight to its place;
        frames of one video are decoded in one go, each group of pictures once.

        Args:
            rows: (n,).
            allocate: where the arrays of pictures and sound come from.

        Returns:
            For each feature with T offsets an array (n, T, *shape) and `<feature>_is_pad`, bool
            (n, T); for each other one (n, *shape). Pictures are uint8 (height, width, channels),
            or lists of bytes without `decode`; text is objects. What streams give stands under
            their names. And (n,) each: `index` (the row), `episode_id`, `episode_index` (in its
            source), `frame_index`, `timestamp` (float64, seconds from the episode's beginning),
            `task_index` (-1: none), `task`.

        Raises:
            InputError: a row is out of range or masked, an episode lacks a feature or has nothing
                in a stream, or a video has no frame at a timestamp.
            BadVideo: a picture cannot be decoded.
            BadAudio: a recording cannot be decoded.
        """
        wanted = self._checked(rows)
        index = self.episodes.index
        owners = index.episode_at(wanted)
        picked = self._picked(wanted, owners)
        timestamps = self._reader.numbers("timestamp", wanted)
        videos = self._videos.read(self._of_videos(picked), allocate)
        batch: dict[str, Any] = {}
        for feature in self.features:
            pick = picked[feature.name]
            if feature.dtype == "video":
                batch[feature.name] = videos[feature.name]
            elif feature.dtype == "image":
                batch[feature.name] = self._images(feature, pick.rows, allocate)
            else:
                batch[feature.name] = read_feature(self._reader, feature, pick.rows)
            if pick.is_pad is not None:
                batch[f"{feature.name}_is_pad"] = pick.is_pad
        for stream in self._streams.values():
            batch |= stream.read(owners, timestamps, allocate)
        task_index = self._reader.numbers("task_index", wanted, fill=-1)
        return {
            **batch,
            "index": wanted,
            "episode_id": self._episode_ids[owners],
            "episode_index": self._episode_index[owners],
            "frame_index": self._reader.numbers("frame_index", wanted),
            "timestamp": timestamps,
            "task_index": task_index,
            "task": self._tasks.texts(owners, task_index),
        }

    @cached_property
    def _episode_ids(self) -> npt.NDArray[np.object_]:
        # As objects, which a batch refers to: making them anew costs two microseconds a window.
        return np.array(self.episodes.index.episode_ids.to_pylist(), dtype=object)

    def episode_rows(
        self,
        episode_ids: Iterable[str] | None = None,
        *,
        where: str | None = None,
        skip_idle: bool = False,
    ) -> Ints:
        """The rows of all frames of some episodes that are not masked: a split by episode, as a
        loader's selection.

        Args:
            episode_ids: the episodes, in the order wanted.
            where: a condition on the episodes table in their place, such as `split = 'train'`.
            skip_idle: leave out the frames at the head and the tail in which the robot stands
                still, by `idle_head` and `idle_tail` of the episode, as far as they are known.

        Raises:
            NotFoundError: there is no episode of an id (names the nearest).
            PredicateError: `where` does not parse.
            InputError: both are given, or an id twice.
        """
        chosen = self.episodes.rows(episode_ids=episode_ids, where=where)
        _, starts, ends = self.runs(chosen, skip_idle=skip_idle)
        lengths = ends - starts
        rows: Ints = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return rows + np.arange(len(rows))

    def runs(self, episodes: Ints, *, skip_idle: bool = False) -> tuple[Ints, Ints, Ints]:
        """The runs of consecutive frames of episodes at which windows are anchored.

        Args:
            episodes: rows of the episodes table, (k,).
            skip_idle: as of `episode_rows`.

        Returns:
            Of each run its episode, by its place in `episodes`; its first row of the frames table;
            and the row after its last. One an episode, in their order, or with a mask any number.
        """
        starts, ends = (self.episodes.index.starts[episodes + shift] for shift in (0, 1))
        if skip_idle:
            idle = self.episodes.episodes.scan(["idle_head", "idle_tail"]).read_all()
            ends = ends - idle["idle_tail"].fill_null(0).to_numpy()[episodes]
            starts = starts + idle["idle_head"].fill_null(0).to_numpy()[episodes]
            ends = np.maximum(ends, starts)
        if self.masked is not None:
            return self.masked.runs(starts, ends)
        return np.arange(len(episodes)), starts, ends

    def view(self) -> Windows:
        """The same windows for another stream, with counts of its own; what is known of the tables
        and open of the videos is shared."""
        made = copy(self)
        made._meter = meter = Meter()
        made._reader, made._cameras = self._reader.view(), self._cameras.view()
        made._kept = {name: kept.view(meter) for name, kept in self._kept.items()}
        made._videos = self._videos.view(made._reader, made._cameras, made._kept)
        made._streams = {name: stream.view() for name, stream in self._streams.items()}
        made.attach(meter)
        return made

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        self._meter = meter
        self._reader.attach(meter)
        self._cameras.attach(meter)
        for kept in self._kept.values():
            kept.meter = meter
        for stream in self._streams.values():
            stream.attach(meter)

    def scatter(self, is_scattered: bool) -> None:
        """Whether rows come one here and one there; see `TableReader.scatter`. Concerns pictures
        in the frames table, video on a store, and recordings."""
        self._reader.scatter(is_scattered, self._wide)
        self._cameras.scatter(is_scattered)
        for stream in self._streams.values():
            stream.scatter(is_scattered)

    def prefetch(self, rows: Ints) -> list[Ahead]:
        """Begin to bring near what `batch` will read for these rows; returns at once, but see
        `reads_to_prefetch`."""
        found = [self._reader.prefetch(columns, near) for columns, near in self._near(rows)]
        if self._announces or self.reads_to_prefetch:
            owners = self.episodes.index.episode_at(rows)
            of_videos = self._of_videos(self._picked(rows, owners))
            if self._announces:
                self._videos.announce(of_videos)
            found += self._videos.prefetch(of_videos)
        owners, times_s = self._about(rows)
        for stream in self._streams.values():
            found += stream.prefetch(owners, times_s)
        return found

    @property
    def reads_to_prefetch(self) -> bool:
        """Whether `prefetch` may wait for tables: it asks where in videos on a store to look."""
        return self._cameras.is_in_pieces

    def expect(self, rows: Ints, in_s: float) -> None:
        """These rows are done with, and wanted again in about so many seconds.

        So are the blocks of which all rows are given; those that windows reach into beyond their
        own frames are left to the rows that lie there.
        """
        self._reader.expect([*self._narrow, *self._wide], rows, in_s)
        owners, times_s = self._about(rows)
        for stream in self._streams.values():
            stream.expect(owners, times_s, in_s)

    def prepare_fork(self) -> None:
        """Read what a forked process could not.

        Raises:
            InputError: a forked process cannot read these tables (says what to do).
        """
        self._reader.prepare_fork([*self._narrow, *self._wide])
        self._cameras.prepare_fork()
        for stream in self._streams.values():
            stream.prepare_fork()

    @property
    def block_rows(self) -> int:
        """Consecutive frames that come from the store together: a power of two."""
        if self._wide:
            return min(self._reader.block_rows(column) for column in self._wide)
        if any(feature.dtype == "video" for feature in self.features):
            # The frames of a file: by the mean, since each has its own.
            per_file = len(self) // max(1, self.episodes.videos.count_rows())
            return 1 << max(0, per_file.bit_length() - 1)
        return self._reader.block_rows("timestamp")

    def keys(self) -> Mapping[str, str]:
        """The keys of a batch, and the type and shape of one window's value as text."""
        found: dict[str, str] = {}
        for feature in self.features:
            offsets = self._offsets.get(feature.name)
            steps = () if offsets is None else (offsets.num_steps,)
            shape = (*steps, *self._shape(feature))
            found[feature.name] = f"{feature.dtype} {shape}"
            if steps:
                found[f"{feature.name}_is_pad"] = f"bool {steps}"
        for stream in self._streams.values():
            found |= stream.keys()
        return found | dict.fromkeys(_OWN, "()")

    @property
    def num_steps(self) -> int:
        """The most frames that a window takes for one feature."""
        return max((offsets.num_steps for offsets in self._offsets.values()), default=1)

    @property
    def streams(self) -> Mapping[str, StreamReader]:
        """What stands beside the frames, by name."""
        return self._streams

    def fps(self, owners: Ints) -> npt.NDArray[np.float64]:
        """The frame rate of episodes, given by their rows, (n,)."""
        return self._fps[self._rates[owners]]

    def _bound(self, name: str, stream: Stream, cache: BlockCache | None) -> StreamReader:
        taken = {*_OWN, *(feature.name for feature in self.features)}
        if name in taken or f"{name}_is_pad" in {f"{feature}_is_pad" for feature in taken}:
            raise InputError(
                f"The name {name!r} of a stream is taken",
                found="a feature or a key of that name",
                fix="Call the stream something else",
            )
        kind = SensorReader if isinstance(stream, FrameStream) else SoundReader
        ids = self.episodes.index.episode_ids
        return kind(name, stream, ids, cache=cache, meter=self._meter)  # type: ignore[arg-type]

    def _checked(self, rows: Sequence[int] | npt.NDArray[np.integer]) -> Ints:
        wanted = np.asarray(rows)
        if wanted.size == 0:
            return np.empty(0, np.int64)
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
            raise InputError(
                "Windows are asked for by row",
                expected="a sequence of integers",
                found=f"{wanted.dtype} of shape {wanted.shape}",
            )
        if wanted.min() < 0 or wanted.max() >= len(self):
            raise InputError(
                "A row is out of range",
                where=self.episodes.name,
                expected=f"0 to {len(self) - 1}",
                found=f"{wanted.min() if wanted.min() < 0 else wanted.max()}",
            )
        wanted = wanted.astype(np.int64)
        if self.masked is not None and (hidden := self.masked.holds(wanted)).any():
            index = self.episodes.index
            row = int(wanted[hidden][0])
            owner = int(index.episode_at(wanted[hidden])[0])
            raise InputError(
                "A window is asked for at a masked frame",
                where=self.episodes.name,
                found=f"row {row}, frame {row - index.starts[owner]} of {index.episode_ids[owner]}",
                fix="Ask for rows of episode_rows(), which leaves masked frames out",
            )
        return wanted

    def _picked(self, rows: Ints, owners: Ints) -> dict[str, Picked]:
        """What each feature takes of the frames table, and of videos."""
        starts, rates = self.episodes.index.starts, self._rates[owners]
        firsts, ends = starts[owners], starts[owners + 1]
        if self.masked is not None:
            firsts, ends = self.masked.run_of(rows, firsts, ends)
        own = Picked(rows, None)
        return {
            feature.name: own
            if (offsets := self._offsets.get(feature.name)) is None
            else offsets.pick(rows, rates, firsts, ends)
            for feature in self.features
        }

    def _of_videos(self, picked: Mapping[str, Picked]) -> dict[str, Ints]:
        return {f.name: picked[f.name].rows for f in self.features if f.dtype == "video"}

    def _images(self, feature: Feature, rows: Ints, allocate: Allocate) -> Any:
        """Pictures that lie in the frames table."""
        if not self._decode:
            return encoded_images(self._reader, feature, rows)
        return decoded_images(
            self._reader,
            feature,
            rows,
            size=self._size,
            kept=self._kept.get(feature.name),
            allocate=allocate,
            meter=self._meter,
        )

    def _places(self, cache: BlockCache | None) -> dict[str, DecodedPictures]:
        """Where the decoded pictures of each feature are kept."""
        cache = BlockCache.shared() if cache is None else cache
        budget_bytes = cache.budget_bytes
        features = [f for f in self.features if f.dtype in ("image", "video")]
        found: dict[str, DecodedPictures] = {}
        for feature in features:
            if feature.dtype == "image":
                recipe = image_recipe(self._size)
                known = first_image(self._reader, self.episodes.index, feature, self._size)
                if known is None:  # There is nothing to keep.
                    continue
                shape, dtype = known
            else:
                recipe = video_recipe(self.episodes.videos, self._size)
                shape, dtype = picture_shape(self.episodes, feature, self._size), np.dtype(np.uint8)
            found[feature.name] = DecodedPictures(
                cache,
                self.episodes.frames,
                feature.name,
                recipe,
                shape,
                dtype,
                num_features=len(features),
                budget_bytes=budget_bytes,
                meter=self._meter,
            )
        return found

    def _shape(self, feature: Feature) -> tuple[int, ...]:
        if feature.dtype not in ("image", "video"):
            return value_shape(feature)
        if feature.dtype == "image" and not self._decode:
            return ()
        return feature.shape if self._size is None else (*self._size[::-1], *feature.shape[2:])

    @cached_property
    def _narrow_rows(self) -> int:
        """Rows in the shortest blocks of these columns."""
        return min(self._reader.block_rows(column) for column in self._narrow)

    @property
    def _narrow(self) -> list[str]:
        """Columns of numbers and texts."""
        return [*_KEYS, *(f.column for f in self.features if f.dtype not in ("video", "image"))]

    @property
    def _wide(self) -> list[str]:
        """Columns of pictures."""
        return [feature.column for feature in self.features if feature.dtype == "image"]

    def _near(self, rows: Ints) -> Iterator[tuple[list[str], Ints]]:
        """What is read of the frames table: columns, and rows in whose blocks all of it lies."""
        owners = self.episodes.index.episode_at(rows)
        picked = self._picked(rows, owners)
        pictures: dict[int, tuple[list[str], Ints]] = {}
        ends = [rows]
        for feature in self.features:
            wanted = picked[feature.name].rows
            if feature.name in self._kept and feature.dtype == "image":
                yield [feature.column], self._kept[feature.name].missing(np.unique(wanted))
            elif feature.dtype == "image":
                # Those without offsets are one array for all.
                pictures.setdefault(id(wanted), ([], wanted))[0].append(feature.column)
            elif wanted.ndim > 1:
                # A window is far shorter than a block of numbers.
                ends += [wanted.min(1), wanted.max(1)]
        for columns, wanted in pictures.values():
            yield columns, wanted if wanted.ndim == 1 else np.unique(wanted)
        # One row a block says as much as all of them.
        blocks = np.unique(np.concatenate(ends) // self._narrow_rows)
        yield self._narrow, blocks * self._narrow_rows

    def _about(self, rows: Ints) -> tuple[Ints, npt.NDArray[np.float64]]:
        """The episodes of rows, and about when in them: reading no timestamp."""
        owners = self.episodes.index.episode_at(rows)
        return owners, (rows - self.episodes.index.starts[owners]) / self.fps(owners)


def _check_keep(keep: Keep, *, decode: bool) -> None:
    if keep not in ("encoded", "decoded"):
        raise InputError(
            "Pictures can be kept in two ways",
            found=f"keep={keep!r}",
            expected="encoded or decoded",
        )
    if keep == "decoded" and not decode:
        raise InputError(
            "Pictures that are not decoded cannot be kept decoded",
            found="keep='decoded' and decode=False",
            fix="Leave one of them out",
        )
