"""How a robot moves in an episode: state and action, normalised, resampled, by their low DCT terms.

Size: the numbers of all features taken together, times `num_coefficients`. Each dimension is less
the set's mean, over the set's standard deviation (a dimension that never moves in the set is 0);
resampled to `num_points` at equal steps from the first to the last frame, linearly, so that two
episodes of the same movement at other speeds lie close; then transformed by an orthonormal DCT-II
over the square root of `num_points`, of which the first terms stay. The first term is the mean.
Coefficients of one dimension stand together, dimensions in the order of the features. Ours.

The squared Euclidean distance of two embeddings is the mean squared difference over time of the
resampled, smoothed movements, summed over dimensions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from curation.embed.episodes import SetAddress, SetReader
from curation.embed.vectors import Vectors, embedding_field
from curation.embed.waveforms import Unembeddable
from datalake.episodes import EpisodeSet
from datalake.episodes.statistics.columns import numbers_of
from datalake.episodes.statistics.moments import Accumulator
from datalake.errors import InputError
from datalake.lake import Lake
from datalake.pipelines.annotation.annotator import Annotate
from datalake.recording import Feature

__all__ = ["Trajectory", "coefficients"]

_DEFAULT: Final = ("observation.state", "action")
_SCANNED_ROWS: Final = 8192
_VERSION: Final = 1

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trajectory:
    """Embeds episodes by their movement; an `Annotator` of `<set>.episodes`.

    The set's means and deviations are of the version that is the latest when this is made: one pass
    over the columns, some thousand frames in memory. They are settings, and stored with the column.

    Args:
        lake: where the set is.
        table: its table of episodes.
        features: numeric features; without any, `observation.state` and `action`.
        num_points: frames that an episode is resampled to.
        num_coefficients: terms that stay of each dimension.

    Raises:
        InputError: the table holds no episodes, a feature is not numeric, or none is left.
        NotFoundError: there is no such feature (names the nearest).
    """

    lake: Lake
    table: str
    features: tuple[str, ...] = ()
    num_points: int = 64
    num_coefficients: int = 8
    means: tuple[float, ...] = field(init=False, repr=False)
    stds: tuple[float, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.num_coefficients <= self.num_points:
            raise InputError(
                "So many coefficients cannot be had",
                expected=f"1 to {self.num_points}, as many as points at most",
                found=str(self.num_coefficients),
            )
        episodes = self._address.open()
        wanted = self.features or tuple(
            feature.name
            for feature in episodes.features
            if feature.name in _DEFAULT and feature.is_numeric
        )
        if not wanted:
            raise InputError(
                "The set has no movement to embed",
                where=episodes.name,
                expected="features observation.state or action, or others by name",
                found=", ".join(feature.name for feature in episodes.features),
            )
        for name in wanted:
            if not episodes.feature(name).is_numeric:
                raise InputError(f"The feature {name} is not numeric", where=episodes.name)
        object.__setattr__(self, "features", tuple(wanted))
        means, stds = _moments(episodes, [episodes.feature(name) for name in wanted])
        object.__setattr__(self, "means", tuple(means.tolist()))
        object.__setattr__(self, "stds", tuple(stds.tolist()))

    @property
    def _address(self) -> SetAddress:
        return SetAddress.of_table(self.lake, self.table)

    @property
    def reads(self) -> tuple[str, ...]:
        """The episode's id, and what changes with its frames, which are read from the set."""
        return ("episode_id", "length", "stamp")

    @property
    def adds(self) -> pa.Schema:
        """`trajectory`."""
        size = len(self.means) * self.num_coefficients
        return pa.schema([embedding_field("trajectory", size, self.settings)])

    @property
    def settings(self) -> Mapping[str, object]:
        """The features, the transform, and what they are normalised by."""
        return {
            "embedder": "trajectory",
            "version": _VERSION,
            "set": str(self._address),
            "features": list(self.features),
            "num_points": self.num_points,
            "num_coefficients": self.num_coefficients,
            # A dimension of which nothing is known has null.
            "means": json.loads(json.dumps(self.means).replace("NaN", "null")),
            "stds": json.loads(json.dumps(self.stds).replace("NaN", "null")),
        }

    def open(self) -> Annotate:
        """Open the set."""
        reader = SetReader(self._address)
        means, stds = np.array(self.means), np.array(self.stds)

        def annotate(rows: pa.Table) -> pa.Table:
            vectors = Vectors(self.adds.field(0))
            for episode_id in rows["episode_id"].to_pylist():
                try:
                    values = self._values(reader, episode_id)
                    moved = (values - means) / np.where(stds > 0, stds, np.inf)
                    found = coefficients(moved, self.num_points, self.num_coefficients)
                    vectors.add(found.ravel())
                except Unembeddable as reason:
                    vectors.fail(str(reason))
            return vectors.table()

        return annotate

    def _values(self, reader: SetReader, episode_id: str) -> Array:
        """The numbers of an episode: (num_frames, num_dimensions)."""
        row = reader.row_of(episode_id)
        if row is None:
            raise Unembeddable("the episode is not in the set any more")
        start, stop = reader.set.index.starts[row : row + 2].tolist()
        if start == stop:
            raise Unembeddable("the episode has no frames")
        columns = [reader.set.feature(name).column for name in self.features]
        frames = reader.set.frames.read(start, stop, columns)
        parts = []
        for name, column in zip(self.features, columns, strict=True):
            numbers = numbers_of(frames[column])
            if len(numbers) < stop - start:
                raise Unembeddable(f"frames without a value: of the feature {name}")
            parts.append(numbers.astype(np.float64))
        values = np.concatenate(parts, axis=1)
        if not np.isfinite(values).all():
            raise Unembeddable("not finite: NaN or infinity among the numbers")
        return values


def _moments(episodes: EpisodeSet, features: Sequence[Feature]) -> tuple[Array, Array]:
    """Mean and standard deviation of each dimension over all frames of the set.

    Frames are taken in groups of a fixed size, so that no figure hangs on how they lie in files.
    """
    seen = [Accumulator(feature.num_elements) for feature in features]
    total = episodes.frames.count_rows()
    for start in range(0, total, _SCANNED_ROWS):
        stop = min(start + _SCANNED_ROWS, total)
        frames = episodes.frames.read(start, stop, [feature.column for feature in features])
        for feature, moments in zip(features, seen, strict=True):
            numbers = numbers_of(frames[feature.column])
            if len(numbers):
                moments.add(numbers)
    means = np.concatenate([moments.mean for moments in seen])
    stds = np.concatenate([moments.std for moments in seen])
    return means, stds


def coefficients(values: Array, num_points: int, num_coefficients: int) -> Array:
    """The low DCT terms of a movement.

    Args:
        values: (num_frames, num_dimensions).
        num_points: what it is resampled to.
        num_coefficients: how many terms stay.

    Returns:
        (num_dimensions, num_coefficients); the first term is the mean of the resampled movement.
    """
    places = np.linspace(0, len(values) - 1, num_points)
    before = np.floor(places).astype(np.int64)
    after = np.minimum(before + 1, len(values) - 1)
    share = (places - before)[:, None]
    resampled = values[before] * (1 - share) + values[after] * share
    # Orthonormal DCT-II over sqrt(num_points): the first row is 1 / num_points throughout.
    angles = np.pi / num_points * np.outer(np.arange(num_coefficients), np.arange(num_points) + 0.5)
    basis = np.cos(angles) * np.sqrt(2) / num_points
    basis[0] = 1 / num_points
    found: Array = (basis @ resampled).T
    return found
