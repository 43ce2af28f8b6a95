"""The figures of one feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from datalake.episodes.statistics.moments import Accumulator
from datalake.errors import InputError

__all__ = ["QUANTILES", "FeatureStats", "merge_stats"]

Vector = npt.NDArray[np.float64]

QUANTILES: Final[Mapping[str, float]] = {
    "q01": 0.01,
    "q10": 0.10,
    "q50": 0.50,
    "q90": 0.90,
    "q99": 0.99,
}
"""The quantiles that are kept, by the name of their column."""

_FIGURES: Final = ("min", "max", "mean", "std", *QUANTILES)


@dataclass(frozen=True, eq=False)
class FeatureStats:
    """The figures of one feature, one value an element (a channel for pictures), in C order."""

    feature: str
    count: int
    """Frames that have a value; NaN elements of theirs are left out all the same."""
    min: Vector
    max: Vector
    mean: Vector
    std: Vector
    """Of the population (ddof 0)."""
    q01: Vector
    q10: Vector
    q50: Vector
    q90: Vector
    q99: Vector

    def as_dict(self) -> dict[str, Vector]:
        """The figures by name, `count` apart."""
        return {name: getattr(self, name) for name in _FIGURES}

    def as_row(self) -> dict[str, Any]:
        """The figures as an element of the column `stats` of the episodes table."""
        figures = {name: figure.tolist() for name, figure in self.as_dict().items()}
        return {"feature": self.feature, **figures, "count": self.count}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> FeatureStats:
        """The figures that `as_row` made `row` of; one that is absent or null is NaN."""
        known = {name: row[name] for name in _FIGURES if row.get(name) is not None}
        size = max(map(len, known.values()), default=0)
        return cls(
            row["feature"],
            int(row["count"] or 0),
            **{
                name: np.array(known.get(name, [np.nan] * size), dtype=np.float64)
                for name in _FIGURES
            },
        )

    @classmethod
    def of_moments(
        cls, feature: str, count: int, moments: Accumulator, quantiles: npt.NDArray[np.float64]
    ) -> FeatureStats:
        """The figures of finished moments and quantiles of shape (`QUANTILES`, elements)."""
        return cls(
            feature,
            count,
            moments.min,
            moments.max,
            moments.mean,
            moments.std,
            **dict(zip(QUANTILES, quantiles, strict=True)),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureStats) and (
            (self.feature, self.count) == (other.feature, other.count)
            and all(
                np.array_equal(mine, theirs, equal_nan=True)
                for mine, theirs in zip(
                    self.as_dict().values(), other.as_dict().values(), strict=True
                )
            )
        )

    __hash__ = None  # type: ignore[assignment]


def merge_stats(parts: Sequence[FeatureStats]) -> FeatureStats:
    """The figures of all parts together, of nothing but the parts' figures.

    Min, max, mean and std are those of the data where the parts have no NaN. Quantiles cannot be
    known from quantiles: they are the parts' averaged by count, as `lerobot` 0.4 does. For numbers
    use `summarise_set` or `summarise_stream`; this is for pictures.

    Raises:
        InputError: there is no part, or they are of unlike length.
    """
    if len({len(part.mean) for part in parts}) != 1:
        raise InputError(
            "Statistics cannot be merged",
            where=parts[0].feature if parts else "",
            expected="some of as many elements",
            found=", ".join(sorted({str(len(part.mean)) for part in parts})) or "none",
        )
    moments = Accumulator(len(parts[0].mean))
    for part in parts:
        moments.merge(Accumulator.of_figures(part.count, part.min, part.max, part.mean, part.std))
    counts = np.array([part.count for part in parts], dtype=np.float64)
    weights = counts / counts.sum() if counts.sum() else counts
    quantiles = [
        np.einsum("p,pn->n", weights, [getattr(part, name) for part in parts]) for name in QUANTILES
    ]
    count = sum(part.count for part in parts)
    return FeatureStats.of_moments(parts[0].feature, count, moments, np.array(quantiles))
