"""One source: all its rows, or some of them, each once an epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from datalake.errors import InputError
from datalake.lake import Selection
from datalake.loader.order.blocks import MAX_LANES
from datalake.loader.order.choice import OrderName, order_of
from datalake.loader.order.order import Indices, Order
from datalake.loader.sampling.origin import check_alone, check_origin, place_of
from datalake.loader.sampling.sampler import Picks, Plain, Sampler
from datalake.loader.sampling.spec import DEFAULT_WORKING_SET, WorkingSet
from datalake.loader.sources.chosen import ChosenFrames
from datalake.loader.sources.source import Source

__all__ = ["RowSampler", "Selected", "Whole"]


@dataclass(frozen=True)
class Whole:
    """All rows of a source: what a bare source stands for."""

    source: Source
    name: str = "data"

    def sampler(
        self,
        *,
        order: OrderName = "exact",
        seed: int = 0,
        working_set: WorkingSet = DEFAULT_WORKING_SET,
    ) -> RowSampler:
        """All rows in an order; see `Spec`."""
        return RowSampler(self.source, self.name, order, seed, working_set)


@dataclass(frozen=True, eq=False)
class Selected:
    """Some rows of a source.

    Args:
        source: at the version that was selected from.
        rows: a selection (or the frames that a source chose), or row indices as they come from a
            split or a mask, (n,).
        name: of the source, for a person.

    In the order `sequential` rows come as they are given. In `blocks` a block is a run of
    neighbours among the rows in the table's order.

    Raises:
        InputError: there are no rows, one is not in the table, or the selection was made from
            another version or table.
    """

    source: Source
    rows: Selection | ChosenFrames | npt.ArrayLike
    name: str = "data"

    def __post_init__(self) -> None:
        if isinstance(self.rows, Selection | ChosenFrames):
            check_origin(self.source, self.rows)
        else:
            check_alone(self.source, None)

    def sampler(
        self,
        *,
        order: OrderName = "exact",
        seed: int = 0,
        working_set: WorkingSet = DEFAULT_WORKING_SET,
    ) -> RowSampler:
        """These rows in an order; see `Spec`."""
        weights = None
        if isinstance(self.rows, Selection | ChosenFrames):
            table = self.rows.rows
            rows = table["row_index"].to_numpy().astype(np.int64)
            weights = table["weight"].to_numpy().astype(np.float32)
            digest = self.rows.digest
        else:
            rows = _checked(np.asarray(self.rows), self.source)
            digest = hashlib.sha256(rows.astype("<i8").tobytes()).hexdigest()
        return RowSampler(self.source, self.name, order, seed, working_set, digest, rows, weights)


class RowSampler:
    """Rows of one source in an order. 12 bytes a selected row; none for a whole table."""

    def __init__(
        self,
        source: Source,
        name: str,
        order: OrderName,
        seed: int,
        working_set: WorkingSet = DEFAULT_WORKING_SET,
        digest: str | None = None,
        rows: Indices | None = None,
        weights: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self._source = source
        self._name = name
        self._order: OrderName = order
        self._seed = seed
        self._digest = digest
        self._num_examples = source.num_rows if rows is None else len(rows)
        if self._num_examples == 0:
            raise InputError(
                "There is nothing to stream",
                where=place_of(source),
                expected="one row or more",
                found="an empty table" if rows is None else "an empty selection",
            )
        if rows is not None and order == "blocks":
            by_row = np.argsort(rows, kind="stable")
            rows, weights = rows[by_row], None if weights is None else weights[by_row]
        self._rows = rows
        self._weights = weights
        self._blocks_at_once = _blocks_at_once(working_set, self._num_examples, source.block_rows)
        self._kept = _Kept()
        self.order(0)

    def reach(self) -> Sequence[tuple[Source, Indices | None]]:
        """The source and its rows; see `Sampler`."""
        return [(self._source, self._rows)]

    def view(self) -> RowSampler:
        """The same with a view of the source; the rows are shared."""
        made = copy(self)
        made._source, made._kept = self._source.view(), _Kept()
        return made

    @property
    def sources(self) -> Sequence[Source]:
        """The one source."""
        return (self._source,)

    @property
    def names(self) -> Sequence[str]:
        """Its name."""
        return (self._name,)

    @property
    def num_examples(self) -> int:
        """Positions an epoch: every row stands at one."""
        return self._num_examples

    @property
    def rows(self) -> Indices | None:
        """The selected rows by the number of their example; None for all."""
        return self._rows

    @property
    def is_ascending(self) -> bool:
        """Whether examples are numbered in the table's order."""
        return self._rows is None or bool((self._rows[1:] >= self._rows[:-1]).all())

    def order(self, epoch: int) -> Order:
        """The order of an epoch; of `blocks` it also says when a block is needed."""
        # Replaced as a whole, so that threads need no lock.
        for number, order in self._kept.orders:
            if number == epoch:
                return order
        order = order_of(
            self._order,
            self._num_examples,
            block_size=self._source.block_rows,
            blocks_at_once=self._blocks_at_once,
            seed=self._seed,
            epoch=epoch,
        )
        self._kept.orders = ((epoch, order), *self._kept.orders[:2])
        return order

    def identity(self) -> Plain:
        """The table, its version, the selection's digest, the order and the seed."""
        return {
            "source": dict(self._source.identity()),
            "selection": self._digest,
            "num_examples": self._num_examples,
            "order": self.order(0).name,
            "seed": self._seed,
        }

    def picks(self, epoch: int, positions: Indices) -> Picks:
        """What stands at positions of an epoch."""
        examples = self.order(epoch).examples(positions)
        return Picks(
            sources=np.zeros(len(examples), np.int64),
            rows=examples if self._rows is None else self._rows[examples],
            visits=np.full(len(examples), epoch, np.int64),
            weights=np.ones(len(examples), np.float32)
            if self._weights is None
            else self._weights[examples],
        )

    def progress(self, epoch: int, position: int) -> Plain:  # noqa: ARG002
        """Nothing: there are no weights that could change."""
        return {}

    def resumed(self, epoch: int, position: int, progress: Plain) -> Sampler:  # noqa: ARG002
        """This very sampler."""
        return self

    def shares(self) -> dict[str, float]:
        """All of it comes from the one source."""
        return {self._name: 1.0}

    def label_of(self, picks: Picks) -> Indices:
        """Which of `shares` each pick counts to."""
        return picks.sources


@dataclass
class _Kept:
    """The orders of the last epochs; a copy starts empty."""

    orders: tuple[tuple[int, Order], ...] = field(default=())

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, ()


def _blocks_at_once(working_set: WorkingSet, num_examples: int, block_rows: int) -> int:
    num_blocks = -(-num_examples // block_rows)
    if isinstance(working_set, float) and 0 < working_set <= 1:
        return max(1, int(num_blocks * working_set * MAX_LANES / (MAX_LANES + 1)))
    if isinstance(working_set, int) and working_set >= 1:
        return working_set
    raise InputError(
        "The working set of a shuffle is out of range",
        expected="a whole number of blocks from 1, or a fraction of the data, as 0.25",
        found=repr(working_set),
    )


def _checked(rows: npt.NDArray[Any], source: Source) -> Indices:
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise InputError(
            "These are no row indices",
            where=place_of(source),
            expected="whole numbers, (n,)",
            found=f"{rows.dtype}, {rows.shape}",
            fix="Give np.flatnonzero(mask) for a mask",
        )
    if rows.size and (int(rows.min()) < 0 or int(rows.max()) >= source.num_rows):
        raise InputError(
            "A row lies outside of the table",
            where=place_of(source),
            expected=f"rows from 0 to {source.num_rows - 1}",
            found=f"{rows.min()} to {rows.max()}",
        )
    return rows.astype(np.int64)
