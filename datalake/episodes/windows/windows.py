"""Windows of an episode set: history and action chunks around any frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.windows.cameras import Cameras
from datalake.episodes.windows.columns import as_array, as_pictures
from datalake.episodes.windows.offsets import Offsets, Picked, offsets_in_frames
from datalake.errors import InputError
from datalake.recording import Feature

__all__ = ["Windows"]

_KEYS = ["episode_id", "frame_index", "timestamp", "task_index"]


class Windows:
    """The frames around each frame of an episode set, by offsets in seconds or frames.

    One window a frame, in the order of the frames table. A window holds, for each feature with
    offsets, the values at those offsets from its frame; where an offset leads out of the episode,
    the nearest frame of the episode stands in and `<feature>_is_pad` is true. A feature without
    offsets is the frame's own value. The request and the result are those of LeRobot's
    `delta_timestamps`, but that pictures stay uint8 and (height, width, channels), and that a
    camera with a single offset keeps its axis of length 1.

    Picklable (for spawned workers), and safe to use in several threads. Holds some 100 bytes an
    episode, a camera and a video, and up to `cache_bytes` of encoded video.

    Args:
        episodes: the set, at a version.
        delta_timestamps: for a feature its offsets in seconds, multiples of 1/fps. Episodes of
            different frame rates take the frames that each rate has there.
        delta_indices: for a feature its offsets in frames, in place of seconds.
        columns: the features to read; None for all. Those with offsets are read in any case.
        tolerance_s: how far an offset may be from a multiple of 1/fps, and a frame of a video from
            its timestamp.
        size: (width, height) to which pictures are resized as they are decoded.
        cache_bytes: encoded videos that stay in memory, opened, from one batch to the next.
        num_threads: videos decoded side by side.

    Raises:
        NotFoundError: there is no such feature (names the nearest).
        InputError: offsets are none, given twice, or no multiples of 1/fps.
    """

    def __init__(
        self,
        episodes: EpisodeSet,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        *,
        delta_indices: Mapping[str, Sequence[int]] | None = None,
        columns: Sequence[str] | None = None,
        tolerance_s: float = 1e-4,
        size: tuple[int, int] | None = None,
        cache_bytes: int = 1 << 30,
        num_threads: int = 4,
    ) -> None:
        self.episodes = episodes
        if columns is None:
            columns = [feature.name for feature in episodes.features]
        names = [*columns, *(delta_timestamps or {}), *(delta_indices or {})]
        self.features: tuple[Feature, ...] = tuple(map(episodes.feature, dict.fromkeys(names)))
        """What a window holds."""
        self._size = size
        rows = episodes.episodes.scan(["episode_index", "fps", "tasks"]).read_all()
        self._episode_index = rows["episode_index"].to_numpy()
        self._tasks = rows["tasks"].combine_chunks()
        fps, self._rates = np.unique(rows["fps"].to_numpy(), return_inverse=True)
        self._offsets = offsets_in_frames(fps, delta_timestamps, delta_indices, tolerance_s)
        self._cameras = Cameras(
            episodes,
            [feature for feature in self.features if feature.dtype == "video"],
            tolerance_s=tolerance_s,
            size=size,
            cache_bytes=cache_bytes,
            num_threads=num_threads,
        )

    def __len__(self) -> int:
        """Windows: one a frame."""
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
        """All windows in order, one by one; `batch` is faster."""
        return (self[row] for row in range(len(self)))

    def batch(self, rows: Sequence[int] | npt.NDArray[np.integer]) -> dict[str, npt.NDArray[Any]]:
        """Windows at rows of the frames table, in the order asked, repeats allowed.

        Columns of numbers and text are read in one take; frames of one video are decoded in one
        go, each group of pictures once.

        Args:
            rows: (n,).

        Returns:
            For each feature with T offsets an array (n, T, *shape) and `<feature>_is_pad`, bool
            (n, T); for each other one (n, *shape). Pictures are uint8 (height, width, channels),
            text is objects. And (n,) each: `index` (the row), `episode_id`, `episode_index` (in
            its source), `frame_index`, `timestamp` (float64, seconds from the episode's
            beginning), `task_index` (-1: none), `task`.

        Raises:
            InputError: a row is out of range, an episode lacks a feature, or a video has no frame
                at a timestamp.
            BadVideo: a picture cannot be decoded.
        """
        wanted = self._checked(rows)
        index = self.episodes.index
        owners = index.episode_at(wanted)
        picked = {
            feature.name: self._pick(self._offsets.get(feature.name), wanted, owners)
            for feature in self.features
        }
        flat = _Rows.of([wanted, *(pick.rows for pick in picked.values())])
        columns = [f.column for f in self.features if f.dtype not in ("video", "image")]
        table = self.episodes.frames.take(flat.rows, [*_KEYS, *columns])
        here = flat.places(wanted)

        timestamps = table["timestamp"].to_numpy()
        pictures = self._cameras.pictures(
            {
                feature.name: (
                    index.episode_at(picked[feature.name].rows.ravel()),
                    timestamps[flat.places(picked[feature.name].rows.ravel())],
                )
                for feature in self.features
                if feature.dtype == "video"
            }
        )
        batch: dict[str, npt.NDArray[Any]] = {}
        for feature in self.features:
            pick = picked[feature.name]
            if feature.dtype == "video":
                decoded = pictures[feature.name]
                batch[feature.name] = decoded.reshape(*pick.rows.shape, *decoded.shape[1:])
            elif feature.dtype == "image":
                batch[feature.name] = self._images(feature, pick.rows)
            else:
                values = as_array(feature, table[feature.column])
                batch[feature.name] = values[flat.places(pick.rows)]
            if pick.is_pad is not None:
                batch[f"{feature.name}_is_pad"] = pick.is_pad
        task_index = table["task_index"].fill_null(-1).to_numpy()[here]
        return {
            **batch,
            "index": wanted,
            "episode_id": np.array(index.episode_ids.take(pa.array(owners)).to_pylist(), object),
            "episode_index": self._episode_index[owners],
            "frame_index": table["frame_index"].to_numpy()[here],
            "timestamp": timestamps[here],
            "task_index": task_index,
            "task": self._task_texts(owners, task_index),
        }

    def _checked(self, rows: Sequence[int] | npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
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
        return wanted.astype(np.int64)

    def _pick(
        self,
        offsets: Offsets | None,
        rows: npt.NDArray[np.int64],
        owners: npt.NDArray[np.int64],
    ) -> Picked:
        if offsets is None:
            return Picked(rows, None)
        starts = self.episodes.index.starts
        return offsets.pick(rows, self._rates[owners], starts[owners], starts[owners + 1])

    def _images(self, feature: Feature, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Pictures that lie in the frames table, each read and decoded once."""
        flat = _Rows.of([rows])
        column = self.episodes.frames.take(flat.rows, [feature.column])[feature.column]
        return as_pictures(feature, column, self._size)[flat.places(rows)]

    def _task_texts(
        self, owners: npt.NDArray[np.int64], task_index: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.object_]:
        episodes, inverse = np.unique(owners, return_inverse=True)
        texts = [
            {task["task_index"]: task["task"] for task in tasks or ()}
            for tasks in self._tasks.take(pa.array(episodes)).to_pylist()
        ]
        found = [texts[i].get(task) for i, task in zip(inverse, task_index.tolist(), strict=True)]
        return np.array(found, dtype=object)


class _Rows:
    """Rows wanted several times over, each once."""

    def __init__(self, rows: npt.NDArray[np.int64]) -> None:
        self.rows = rows
        """Ascending."""

    @classmethod
    def of(cls, wanted: Sequence[npt.NDArray[np.int64]]) -> _Rows:
        return cls(np.unique(np.concatenate([rows.ravel() for rows in wanted])))

    def places(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where rows stand in `self.rows`; of the same shape."""
        return np.searchsorted(self.rows, rows)
