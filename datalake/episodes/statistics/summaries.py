"""The statistics of an episode, of a stream of batches, and of an episode set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.episodes.episode_set import EpisodeSet
from datalake.episodes.statistics.columns import numbers_of
from datalake.episodes.statistics.feature_stats import QUANTILES, FeatureStats
from datalake.episodes.statistics.moments import Accumulator
from datalake.episodes.statistics.quantiles import QuantileSearch
from datalake.recording import Feature

__all__ = ["summarise", "summarise_set", "summarise_stream"]

_MEMORY_BYTES: Final = 64 * 2**20
_LEVELS: Final = tuple(QUANTILES.values())

Batches = Iterable[pa.RecordBatch]


def summarise(frames: pa.Table, features: Sequence[Feature]) -> tuple[FeatureStats, ...]:
    """The statistics of one episode, exact.

    Args:
        frames: its frames; columns under the features' names, or as they are stored.
        features: those asked for. Such as are no numbers or have no column are passed over.
            `timestamp`, `frame_index` and their like are asked for as features of those names.

    Raises:
        InputError: the column of a numeric feature holds something else.
    """
    found = []
    for feature in features:
        column = _column(frames, feature)
        if column is None:
            continue
        values = numbers_of(frames[column])
        if len(values) == 0:
            values = values.reshape(0, feature.num_elements)
        moments = Accumulator(values.shape[1])
        moments.add(values)
        found.append(
            FeatureStats.of_moments(feature.name, len(values), moments, _quantiles(values))
        )
    return tuple(found)


def summarise_stream(
    scan: Callable[[Sequence[str]], Batches],
    features: Sequence[Feature],
    *,
    memory_bytes: int = _MEMORY_BYTES,
) -> tuple[FeatureStats, ...]:
    """The statistics of numeric features over batches, equal to NumPy's of all rows at once.

    Args:
        scan: gives the batches, with the stored columns that it is asked for, from the first; it is
            called anew for every pass.
        features: those asked for. Such as are no numbers are passed over.
        memory_bytes: about as much is held beside a batch.

    One pass where the values fit into the memory. Else one that counts, and then at most one for
    every 12 bits of the widest number and a last one (float32: five in all, float64: eight).

    Raises:
        InputError: a column holds something else than its feature says.
    """
    wanted = {feature.column: feature for feature in features if feature.is_numeric}
    if not wanted:
        return ()
    share = memory_bytes // len(wanted)
    searches = {
        column: QuantileSearch(feature.num_elements, _LEVELS, share)
        for column, feature in wanted.items()
    }
    moments = {column: Accumulator(feature.num_elements) for column, feature in wanted.items()}
    counts = dict.fromkeys(wanted, 0)
    for column, values in _numbers(scan, list(wanted)):
        moments[column].add(values)
        counts[column] += len(values)
        searches[column].add(values)
    while unsettled := [column for column, search in searches.items() if not search.advance()]:
        for column, values in _numbers(scan, unsettled):
            searches[column].add(values)
    return tuple(
        FeatureStats.of_moments(
            feature.name, counts[column], moments[column], searches[column].quantiles()
        )
        for column, feature in wanted.items()
    )


def summarise_set(
    episodes: EpisodeSet,
    features: Sequence[Feature] | None = None,
    *,
    memory_bytes: int = _MEMORY_BYTES,
) -> tuple[FeatureStats, ...]:
    """The statistics of all frames of a set; see `summarise_stream`.

    Args:
        episodes: the set, at any version.
        features: those asked for; None for all of the set that are numbers.
        memory_bytes: about as much is held beside a batch.
    """

    wanted = episodes.features if features is None else features
    return summarise_stream(episodes.frames.scan, wanted, memory_bytes=memory_bytes)


def _numbers(
    scan: Callable[[Sequence[str]], Batches], columns: Sequence[str]
) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    for batch in scan(columns):
        for column in columns:
            values = numbers_of(batch.column(column))
            if len(values):
                yield column, values


def _column(frames: pa.Table, feature: Feature) -> str | None:
    if not feature.is_numeric:
        return None
    names = frames.column_names
    return next((name for name in (feature.name, feature.column) if name in names), None)


def _quantiles(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Shape (levels, elements)."""
    wide = values.astype(np.float64, copy=False)
    found = np.full((len(_LEVELS), wide.shape[1]), np.nan)
    if not len(wide):
        return found
    odd = np.isnan(wide).any(axis=0)
    with np.errstate(all="ignore"):
        found[:, ~odd] = np.quantile(wide[:, ~odd], _LEVELS, axis=0)
        for element in np.flatnonzero(odd):
            there = wide[~np.isnan(wide[:, element]), element]
            if len(there):
                found[:, element] = np.quantile(there, _LEVELS)
    return found
