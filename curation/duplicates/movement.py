"""Episodes in which a robot makes the same movement, found in less than quadratic time.

Movements are compared as `curation.embed.trajectory` has them: normalised, resampled, and under an
orthonormal DCT, so that distances of coefficients are those of the movements. The distance of a few
coefficients is then never more than that of all, nor is the distance along any three orthonormal
directions of them: rows lie in a grid of such directions, a row looks into the cells around its
own, and only what is near by the few coefficients is compared by all of them. Nothing is missed.
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from curation.duplicates.drops import Duplicates, outcome
from curation.duplicates.measured import measured
from curation.duplicates.visits import visits_of
from datalake.errors import InputError
from datalake.lake import Lake
from datalake.pipelines.annotation.stage import reason_of
from datalake.pipelines.executors import Executor, LocalExecutor
from datalake.pipelines.run import ProgressSink

__all__ = ["near_episodes"]

_NUM_POINTS: Final = 64
_NUM_FEW: Final = 8
_NUM_DIRECTIONS: Final = 3
_NUM_FITTED: Final = 4096
_ROUNDING: Final = 1e-5
"""What float32 coefficients may add to a distance."""

FloatArray = npt.NDArray[np.float64]


def near_episodes(
    lake: Lake,
    table: str,
    threshold: float = 0.95,
    *,
    features: Sequence[str] = (),
    best_by: str | None = None,
    seed: int = 0,
    where: str | None = None,
    executor: Executor | None = None,
    scratch: Path | None = None,
    progress: ProgressSink | None = None,
) -> Duplicates:
    """The episodes to drop so that each movement stands once.

    The distance of two episodes is the root mean square difference of their movements, over 64
    points in time and all dimensions that move, in standard deviations of the set; their similarity
    is 1 less that. Time is measured in shares of the episode: the same movement at another speed is
    a duplicate. An episode goes if a kept one before it is near, so every dropped one has a kept
    one, and no two kept ones are duplicates. Memory: 40 bytes an episode and dimension; disk: 256.

    Args:
        lake: where the set is.
        table: its table of episodes, `<set>.episodes`; the latest version.
        threshold: least similarity; .95 is a difference of a twentieth of a standard deviation.
        features: as of `Trajectory`.
        best_by: a numeric column: of duplicates the episode of its largest value is kept; else the
            first by the hash of seed and id.
        seed: of the hash.
        where: consider only episodes for which this holds.
        executor: where frames are read; None: this process.
        scratch: a folder for files, which go when it is done; all workers must reach it.
        progress: is told how far it is.

    Returns:
        Drops with the similarity and the reason `near_movement`. `num_compared` in `parameters` is
        the number of pairs whose coefficients were compared.

    Raises:
        InputError: the threshold cannot be, or the set has no movement.
        NotFoundError: there is no such feature.
        PredicateError: `where` cannot be evaluated.
    """
    from curation.embed.trajectory import Trajectory

    if not 0 <= threshold < 1:
        raise InputError(
            "The threshold cannot be",
            expected="a similarity of 0 or more, under 1",
            found=str(threshold),
        )
    source = lake[table]
    annotator = Trajectory(
        lake, table, tuple(features), num_points=_NUM_POINTS, num_coefficients=_NUM_POINTS
    )
    visits = visits_of(source, seed=seed, best_by=best_by, where=where)
    rows = np.sort(visits.row_index)
    num_moving = int((np.array(annotator.stds) > 0).sum())
    left_out: Counter[str] = Counter()
    with (
        tempfile.TemporaryDirectory(prefix="curate-episodes-", dir=scratch) as name,
        executor or LocalExecutor() as running,
    ):
        folder = Path(name)
        size = len(annotator.stds)
        shape = (max(len(rows), 1), size, _NUM_POINTS)
        full = np.memmap(folder / "movements.f32", np.float32, "w+", shape=shape)
        few = np.zeros((len(rows), size, _NUM_FEW), np.float32)
        good = np.zeros(len(rows), np.bool_)
        start = 0
        for part in measured(source, annotator, rows, folder, running, progress=progress):
            left_out.update(map(reason_of, part["error"].drop_null().to_pylist()))
            vectors = part["trajectory"].combine_chunks()
            places = start + np.flatnonzero(vectors.is_valid().to_numpy(zero_copy_only=False))
            moved = vectors.flatten().to_numpy().reshape(-1, size, _NUM_POINTS)
            full[places] = moved
            few[places], good[places] = moved[:, :, :_NUM_FEW], True
            start += part.num_rows
        order = np.searchsorted(rows, visits.row_index[np.argsort(visits.ranks)])
        radius = (1 - threshold) * math.sqrt(max(num_moving, 1))
        search = _Search(full, few.reshape(len(rows), -1), order[good[order]], radius)
        for place in search.order.tolist():
            search.visit(place)
        del full, search._full  # before the folder goes
    facts = {
        "by": "movement",
        "features": list(annotator.features),
        "threshold": threshold,
        "best_by": best_by,
        "seed": seed,
        "where": where,
        "num_compared": search.num_compared,
    }
    return outcome(
        source,
        rows[np.array(search.dropped, np.int64)],
        rows[np.array(search.kept_by, np.int64)],
        1 - np.array(search.distances, np.float64) / math.sqrt(max(num_moving, 1)),
        reason="near_movement", parameters=facts, where=where, left_out=left_out,
    )  # fmt: skip


class _Search:
    """Episodes visited so far, by their place among those considered."""

    def __init__(
        self,
        full: npt.NDArray[np.float32],
        few: npt.NDArray[np.float32],
        order: npt.NDArray[np.int64],
        radius: float,
    ) -> None:
        self._full = full
        self._few = few
        self.order = order
        self._radius = radius
        self._cells = _cells(few, order, radius + 2 * _ROUNDING)
        self._around = list(itertools.product((-1, 0, 1), repeat=self._cells.shape[1]))
        self._kept: dict[tuple[int, ...], list[int]] = {}
        self._visits: dict[int, int] = {}
        self.dropped: list[int] = []
        self.kept_by: list[int] = []
        self.distances: list[float] = []
        self.num_compared = 0

    def visit(self, place: int) -> None:
        """Drop an episode if a kept one is its duplicate; keep it else."""
        cell = tuple(self._cells[place].tolist())
        near = [
            other
            for step in self._around
            for other in self._kept.get(tuple(map(sum, zip(cell, step, strict=True))), ())
        ]
        if near:
            self.num_compared += len(near)
            apart = np.linalg.norm(self._few[near] - self._few[place], axis=1)
            close = np.flatnonzero(apart <= self._radius + _ROUNDING)
            candidates = sorted((near[each] for each in close), key=self._visits.__getitem__)
            for other in candidates:
                distance = self._distance(place, other)
                if distance <= self._radius:
                    self.dropped.append(place)
                    self.kept_by.append(other)
                    self.distances.append(distance)
                    return
        self._visits[place] = len(self._visits)
        self._kept.setdefault(cell, []).append(place)

    def _distance(self, left: int, right: int) -> float:
        apart = self._full[left].astype(np.float64) - self._full[right]
        return float(np.sqrt(np.square(apart).sum()))


def _cells(
    few: npt.NDArray[np.float32], order: npt.NDArray[np.int64], edge: float
) -> npt.NDArray[np.int64]:
    """Each episode's cell in a grid along the directions in which they differ most."""
    sample = few[order[:_NUM_FITTED]].astype(np.float64)
    if not len(sample):
        return np.zeros((len(few), 1), np.int64)
    centred = sample - sample.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    found: FloatArray = few.astype(np.float64) @ directions[:_NUM_DIRECTIONS].T
    return np.asarray(np.floor(found / edge), np.int64)
