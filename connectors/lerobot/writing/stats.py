"""Statistics as LeRobot stores them: per episode, and of the whole dataset.

What the lake has of an episode is written as it is; what it lacks is computed. The figures of the
whole dataset are those of all its numbers, quantiles included, where `lerobot` itself averages the
episodes' quantiles. Those of pictures are merged from the episodes': their quantiles are averages,
weighted by the pictures that were looked at.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors.lerobot.writing.chosen import Chosen
from connectors.lerobot.writing.features import BOOKKEEPING_FEATURES, shape_of
from datalake.episodes.statistics import (
    QUANTILES,
    FeatureStats,
    merge_stats,
    sampled_frames,
    summarise,
    summarise_pictures,
    summarise_stream,
)
from datalake.episodes.walk import walk
from datalake.errors import MissingPackageError
from datalake.recording import Feature

__all__ = ["FIGURES", "SetStats", "episode_stats", "nested", "stats_type", "unknown_pictures"]

FIGURES: Final = ("min", "max", "mean", "std", "count", *QUANTILES)

_MEMORY_BYTES: Final = 256 << 20
# Short episodes are summarised some at a time.
_ROWS_AT_ONCE: Final = 8192
_BOOKKEEPING: Final = {feature.name: feature for feature in BOOKKEEPING_FEATURES}


def episode_stats(
    features: Iterable[Feature],
    frames: pa.Table,
    known: Iterable[Mapping[str, Any]],
    pictures: Mapping[str, FeatureStats],
) -> dict[str, FeatureStats]:
    """The statistics of one episode, by feature.

    Args:
        features: those of the dataset.
        frames: the episode's rows as they are written.
        known: the column `stats` of the lake.
        pictures: what was computed of its videos.
    """
    stored = {row["feature"]: FeatureStats.from_row(row) for row in known}
    found = {}
    for feature in features:
        own = stored.get(feature.name)
        if own is not None and _is_whole(own, feature):
            found[feature.name] = own
        elif feature.dtype == "video":
            if feature.name in pictures:
                found[feature.name] = pictures[feature.name]
        elif feature.dtype == "image":
            made = summarise_pictures(feature.name, _decoded(frames[feature.name]))
            if made is not None:
                found[feature.name] = made
        else:
            found.update((made.feature, made) for made in summarise(frames, [feature]))
    return found | _numbering_stats(frames)


def _numbering_stats(frames: pa.Table) -> dict[str, FeatureStats]:
    """The statistics of the columns that number and time the frames, all at one go."""
    names = list(_BOOKKEEPING)
    values = np.column_stack([frames[name].to_numpy() for name in names]).astype(np.float64)
    together = Feature("together", "float64", (len(names),))
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(names))
    (made,) = summarise(pa.table({together.name: column}), [together])
    return {
        name: FeatureStats(
            name,
            made.count,
            **{figure: value[place : place + 1] for figure, value in made.as_dict().items()},
        )
        for place, name in enumerate(names)
    }


def unknown_pictures(chosen: Chosen, camera: str) -> npt.NDArray[np.bool_]:
    """Of which episodes the lake has no statistics of a camera, (episodes,)."""
    unknown = np.ones(len(chosen.rows), bool)
    for start, table in chosen.tables_of_episodes(["stats"]):
        column = table["stats"].combine_chunks()
        stats, episodes = column.flatten(), pc.list_parent_indices(column)
        is_known = pc.and_(
            pc.and_(
                pc.equal(stats.field("feature"), camera),
                pc.greater(stats.field("count").fill_null(0), 0),
            ),
            stats.field("mean").is_valid(),
        )
        unknown[start + episodes.filter(is_known).to_numpy()] = False
    return unknown


def nested(figure: npt.NDArray[np.float64], feature: Feature) -> Any:
    """A figure in the shape in which LeRobot writes it; None where it is not known.

    Pictures have (channels, 1, 1), so that it fits a picture whose channels come first.
    """
    if np.isnan(figure).all():
        return None
    if feature.dtype in ("image", "video"):
        return figure.reshape(-1, 1, 1).tolist()
    return figure.reshape(shape_of(feature)).tolist()


def stats_type(feature: Feature, figure: str) -> pa.DataType:
    """The type of a figure's column in the episodes' metadata."""
    if figure == "count":
        return pa.list_(pa.int64())
    axes = 3 if feature.dtype in ("image", "video") else len(shape_of(feature))
    found = pa.float64()
    for _ in range(axes):
        found = pa.list_(found)
    return found


class SetStats:
    """The statistics of the whole dataset."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen
        self._pictures: dict[str, FeatureStats] = {}

    def add(self, stats: Mapping[str, FeatureStats]) -> None:
        """Take in an episode's pictures."""
        for feature in self._chosen.features:
            if feature.dtype in ("image", "video") and feature.name in stats:
                own = self._pictures.get(feature.name)
                new = stats[feature.name]
                self._pictures[feature.name] = new if own is None else merge_stats([own, new])

    def finish(self) -> dict[str, FeatureStats]:
        """The statistics by feature. Reads the numbers again, a few times if they are many."""
        numeric = [feature for feature in self._chosen.features if feature.is_numeric]
        found = dict(self._pictures)
        for stats in summarise_stream(
            self._numbers, [*numeric, *BOOKKEEPING_FEATURES], memory_bytes=_MEMORY_BYTES
        ):
            found[stats.feature] = stats
        return found

    def _numbers(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of all frames, those that number them as they are written."""
        chosen = self._chosen
        stored = [name for name in columns if name not in _BOOKKEEPING]
        own = [name for name in ("timestamp", "task_index") if name in columns]
        held: list[pa.Table] = []
        num_held = 0
        for number, frames in enumerate(walk(chosen.source, chosen.rows, [*stored, *own])):
            arrays = {name: frames[name].combine_chunks() for name in stored}
            length = int(chosen.lengths[number])
            first = int(chosen.starts[number])
            for name in columns:
                if name == "timestamp":
                    arrays[name] = frames[name].combine_chunks().cast(pa.float32(), safe=False)
                elif name == "task_index":
                    numbers = frames[name].combine_chunks()
                    arrays[name] = pa.array(chosen.tasks.renumbered(number, numbers))
                elif name == "frame_index":
                    arrays[name] = pa.array(np.arange(length))
                elif name == "episode_index":
                    arrays[name] = pa.array(np.full(length, number))
                elif name == "index":
                    arrays[name] = pa.array(np.arange(first, first + length))
            held.append(pa.table({name: arrays[name] for name in columns}))
            num_held += length
            if num_held >= _ROWS_AT_ONCE or number + 1 == len(chosen.rows):
                yield from pa.concat_tables(held).combine_chunks().to_batches()
                held, num_held = [], 0


def _is_whole(stats: FeatureStats, feature: Feature) -> bool:
    """Whether the lake knows enough of a feature.

    Older datasets have no quantiles: numbers are looked at again, which is quick; pictures not.
    """
    if feature.dtype in ("image", "video"):
        return stats.count > 0 and not np.isnan(stats.mean).all()
    return stats.count > 0 and all(
        len(figure) == feature.num_elements and not np.isnan(figure).all()
        for figure in stats.as_dict().values()
    )


def _decoded(column: pa.ChunkedArray) -> Iterator[npt.NDArray[np.uint8]]:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingPackageError.of("pillow", "robot", "Statistics of pictures") from error
    for number in sampled_frames(len(column)):
        with Image.open(io.BytesIO(column[int(number)]["bytes"].as_py())) as picture:
            yield np.asarray(picture.convert("RGB"))
