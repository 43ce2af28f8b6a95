"""Pairs of rows whose cosine reaches a threshold, searched within clusters.

A row is compared with the rows whose nearest centroid is one of its own 2 or 3 nearest: so pairs
astride a border are found from either side. What lies further apart is missed; `recall_of` measures
how much that is. A unit of work is a cluster, on any executor; units read memory-mapped files, so
Ray's workers need a folder that all of them reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from curation.duplicates.cover import Pairs
from curation.neighbors import fit_kmeans
from datalake.errors import InputError
from datalake.pipelines.executors import Executor, LocalExecutor

__all__ = ["near_pairs", "recall_of"]

_TILE: Final = 2048
_SLACK: Final = 1e-4
"""Products are float32; what comes near the threshold is computed again in float64."""


def near_pairs(
    vectors: npt.NDArray[Any],
    threshold: float,
    folder: Path,
    *,
    num_clusters: int,
    num_probes: int = 3,
    num_fitted: int = 65_536,
    executor: Executor | None = None,
) -> Pairs:
    """Find pairs. Memory: some 32 bytes a row and probe, 24 a pair, and tiles of 50 MB.

    Args:
        vectors: (rows, dims) float32 of length 1, in the order of a hash: the first rows are the
            sample that the clusters are fitted on. Written to `folder` as it is.
        threshold: least cosine of a pair.
        folder: for files of this search.
        num_clusters: about the square root of the number of rows.
        num_probes: nearest centroids of a row whose rows it is compared with.
        num_fitted: rows that clusters are fitted on.
        executor: where clusters are searched; None for this process.

    Raises:
        InputError: the number of clusters or probes cannot be.
    """
    if not 1 <= num_probes <= num_clusters:
        raise InputError(
            "So many clusters cannot be probed",
            expected=f"1 to {num_clusters}, the number of clusters",
            found=str(num_probes),
        )
    centroids = fit_kmeans(vectors[: max(num_fitted, num_clusters)], num_clusters).centroids
    cells = np.empty((len(vectors), num_probes), np.int32)
    for start in range(0, len(vectors), _TILE):
        scores = np.asarray(vectors[start : start + _TILE], np.float32) @ centroids.T
        cells[start : start + len(scores)] = np.argsort(-scores, axis=1, kind="stable")[
            :, :num_probes
        ]
    order = np.argsort(cells.ravel(), kind="stable")
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "entries.npy", order)
    ends = np.searchsorted(cells.ravel()[order], np.arange(num_clusters + 1))
    job = _Search(folder, threshold, num_probes, tuple(ends.tolist()))
    with executor or LocalExecutor() as running:
        found = sorted(running.run(job, num_clusters), key=lambda unit: unit.index)
    return Pairs(
        np.concatenate([unit.left for unit in found]),
        np.concatenate([unit.right for unit in found]),
        np.concatenate([unit.similarity for unit in found]),
    )


@dataclass
class _Found:
    index: int
    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    similarity: npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Search:
    folder: Path
    threshold: float
    num_probes: int
    ends: tuple[int, ...]

    def stage(self, index: int) -> _Found:
        vectors = np.load(self.folder / "vectors.npy", mmap_mode="r")
        entries = np.load(self.folder / "entries.npy", mmap_mode="r")
        here = np.sort(np.asarray(entries[self.ends[index] : self.ends[index + 1]]))
        rows, probes = here // self.num_probes, here % self.num_probes
        homes = rows[probes == 0]
        lefts, rights, values = [], [], []
        for a in range(0, len(rows), _TILE):
            some = rows[a : a + _TILE]
            for b in range(0, len(homes), _TILE):
                others = homes[b : b + _TILE]
                near = vectors[some] @ vectors[others].T >= self.threshold - _SLACK
                one, other = np.nonzero(near)
                left, right = some[one], others[other]
                apart = left != right
                left, right = left[apart], right[apart]
                cosine = _cosines(vectors, left, right)
                is_pair = cosine >= self.threshold
                lefts.append(left[is_pair])
                rights.append(right[is_pair])
                values.append(cosine[is_pair])
        none = np.empty(0, np.int64)
        left = np.concatenate([none, *lefts])
        right = np.concatenate([none, *rights])
        value = np.concatenate([np.empty(0), *values])
        # Each pair once, the earlier row first, however it was met.
        ends, first = np.unique(np.sort(np.c_[left, right], axis=1), axis=0, return_index=True)
        return _Found(index, ends[:, 0], ends[:, 1], value[first])


def _cosines(
    vectors: npt.NDArray[Any], left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """In float64, a pair's value the same whatever else is asked for and whichever comes first."""
    found = np.empty(len(left))
    for start in range(0, len(left), _TILE):
        some = slice(start, start + _TILE)
        one, other = vectors[left[some]].astype(np.float64), vectors[right[some]]
        found[some] = (one * other).sum(axis=1)
    return found


def recall_of(pairs: Pairs, vectors: npt.NDArray[Any], threshold: float, num_rows: int) -> float:
    """The share of the true pairs of the first rows that was found; 1 if there are none.

    Every one of the first `num_rows` rows is compared with all rows: in the order of a hash they
    are a random sample.
    """
    sampled = pairs.left < num_rows
    found = set(zip(pairs.left[sampled].tolist(), pairs.right[sampled].tolist(), strict=True))
    num_true = num_found = 0
    first = np.asarray(vectors[:num_rows], np.float32)
    for start in range(0, len(vectors), _TILE):
        near = first @ np.asarray(vectors[start : start + _TILE], np.float32).T
        one, other = np.nonzero(near >= threshold - _SLACK)
        one, other = one[one < other + start], other[one < other + start] + start
        is_pair = _cosines(vectors, one, other) >= threshold
        true = list(zip(one[is_pair].tolist(), other[is_pair].tolist(), strict=True))
        num_true += len(true)
        num_found += sum(pair in found for pair in true)
    return num_found / num_true if num_true else 1.0
