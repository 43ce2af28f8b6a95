"""Pictures kept decoded on this machine, by row of the frames table, so that none is decoded twice.

They lie in slots of the block cache, in runs of consecutive frames, a file each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from datalake.blocks.cache import BlockCache, Key
from datalake.blocks.gather import gatherer
from datalake.blocks.slots import Slots, open_slots
from datalake.tables import Table
from datalake.telemetry import Meter

__all__ = ["DecodedPictures", "told_apart"]

Ints: TypeAlias = npt.NDArray[np.int64]
Pixels: TypeAlias = npt.NDArray[Any]

# A run is evicted as one, and takes its place in the cache before it is full.
_RUN_BYTES: Final = 256 << 20
# Of the cache's budget, for all features together: the rest is for blocks of tables.
_SHARE: Final = 0.75


class DecodedPictures:
    """The decoded pictures of one feature, all of one shape. Thread-safe; picklable.

    A set whose pictures take more than three quarters of the cache has those of its first frames
    kept, as many as fit: were others to take their place, in a shuffled epoch none would stay until
    it is wanted again. Holds some 20 bytes for each picture that may be kept.

    Args:
        cache: where.
        table: the frames table, at its version.
        feature: the name.
        recipe: all else that a picture follows from: what it was decoded from, by what, how.
        shape: of every picture.
        dtype: of its numbers.
        num_features: how many features share the cache.
        budget_bytes: the cache's.
        meter: counts `pictures_kept` (taken as they were kept) and what the cache counts.
    """

    def __init__(
        self,
        cache: BlockCache,
        table: Table,
        feature: str,
        recipe: str,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        *,
        num_features: int,
        budget_bytes: int,
        meter: Meter,
    ) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.meter = meter
        self._cache = cache
        self._num_bytes = max(1, math.prod(shape) * self.dtype.itemsize)
        self._num_rows = table.count_rows()
        self._place = table.uri, table.version, feature
        self._recipe = f"{recipe}, {shape} {self.dtype}, {told_apart(table)}"
        # Of every run, a power of two of rows, so that the same files serve whatever the budget.
        self._shift = max(0, (_RUN_BYTES // self._num_bytes).bit_length() - 1)
        run_bytes = self._num_bytes << self._shift
        share_bytes = int(_SHARE * budget_bytes / num_features)
        # The last run is shorter than the others.
        self._num_runs = (
            -(-self._num_rows // (1 << self._shift))
            if self._num_rows * self._num_bytes <= share_bytes
            else share_bytes // run_bytes
        )
        self._begin()

    def _begin(self) -> None:
        self._runs: dict[int, tuple[Slots, Pixels | None]] = {}
        # Pictures that are there, as was once found: what is open stays.
        self._found = np.zeros(self._num_rows, bool)

    def __getstate__(self) -> dict[str, Any]:
        return {name: v for name, v in self.__dict__.items() if name not in ("_runs", "_found")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin()

    def view(self, meter: Meter) -> DecodedPictures:
        """The same pictures, counted for another stream."""
        made = copy(self)
        made.meter = meter
        return made

    def take(self, rows: Ints, out: Pixels, places: Ints) -> npt.NDArray[np.bool_]:
        """Copy those pictures that are there, each to its place.

        Args:
            rows: of the frames table, (m,).
            out: (n, *shape).
            places: where in it each goes, (m,).

        Returns:
            Which were there, (m,).
        """
        new = rows[~self._found[rows]]
        for run, index in self._by_run(new):
            slots, pictures = self._open(run)
            if pictures is not None:
                self._found[new[index[slots.have(new[index] - (run << self._shift))]]] = True
        found: npt.NDArray[np.bool_] = self._found[rows]
        mask = (1 << self._shift) - 1
        values = []
        for row in rows[found].tolist():
            pictures = self._runs[row >> self._shift][1]
            assert pictures is not None
            values.append(pictures[row & mask])
        gatherer().copy([out[place] for place in places[found].tolist()], values)
        self.meter.count("pictures_kept", len(values))
        return found

    def missing(self, rows: Ints) -> Ints:
        """Those of the rows whose pictures nobody kept: what has to be read for them."""
        rows = rows[~self._found[rows]]
        is_missing = np.ones(len(rows), bool)
        for run, index in self._by_run(rows):
            slots, _ = self._open(run)
            is_missing[index] = ~slots.written(rows[index] - (run << self._shift))
        return rows[is_missing]

    def put(self, row: int, picture: Pixels) -> None:
        """Keep a picture, if there is room."""
        run = row >> self._shift
        if run < self._num_runs:
            slots, _ = self._open(run)
            flat = np.ascontiguousarray(picture).reshape(-1).view(np.uint8)
            slots.put(row - (run << self._shift), flat)

    def _by_run(self, rows: Ints) -> Iterator[tuple[int, Ints]]:
        """The runs that are kept, and which of the rows are in each."""
        if not len(rows):
            return
        runs = rows >> self._shift
        order = np.argsort(runs, kind="stable")
        starts = np.flatnonzero(np.diff(runs[order], prepend=-1))
        for run, index in zip(
            runs[order[starts]].tolist(), np.split(order, starts[1:]), strict=True
        ):
            if run < self._num_runs:
                yield run, index

    def _open(self, run: int) -> tuple[Slots, Pixels | None]:
        known = self._runs.get(run)
        if known is None:
            first = run << self._shift
            stop = min(first + (1 << self._shift), self._num_rows)
            uri, version, feature = self._place
            key = Key(uri, version, feature, first, stop, self._recipe)
            # Two threads may open the same run, and get the same pictures.
            slots = open_slots(self._cache, key, self._num_bytes, meter=self.meter)
            pictures = slots.rows
            if pictures is not None:
                pictures = pictures.view(self.dtype).reshape(len(pictures), *self.shape)
            known = self._runs[run] = slots, pictures
        return known


def told_apart(table: Table) -> str:
    """What tells a version from that of another table which lay in the same place before."""
    return f"{table.uri} at {table.version} of {table.fingerprint()}"
