"""What an order is: which rows of a domain come first, so that a cap keeps those.

The rows that a cap or a budget cuts together are a pool: a domain, or the whole table for random
sampling. An order never sees where a row is stored. Rows that it holds equal come in the order of
`curation.order`, the hash of their ids, so results hang neither on row order nor on blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from datalake.errors import InputError

__all__ = [
    "ORDERS",
    "AnyOrder",
    "DomainOrder",
    "Order",
    "OrderOptions",
    "PoolRows",
    "Ranked",
    "RowOrder",
]

ORDERS: Final = "datalake.orders"
"""The entry point group."""


@dataclass(frozen=True)
class OrderOptions:
    """Options of all orders; each reads those that it names in `uses`.

    Raises:
        InputError: a value is out of its range.
    """

    quality: str | None = None
    """A column of numbers, or an expression over such columns in the language of `where`."""
    lowest_first: bool = False
    """Rows of the lowest quality come first, and not those of the highest."""
    embedding: str | None = None
    """A column of vectors."""
    speaker: str = "speaker_id"
    """The column that says who speaks."""
    num_neighbors: int = 128
    """The most similar rows that count for a row, in facility location."""
    num_clusters: int | None = None
    """Clusters of density-based pruning; None: the root of the number of rows, at most 500."""
    temperature: float = 0.5
    """Of density-based pruning: towards 0 the most complex clusters take all."""

    def __post_init__(self) -> None:
        for name, value in (("neighbours", self.num_neighbors), ("clusters", self.num_clusters)):
            if value is not None and value < 1:
                raise InputError(
                    f"The number of {name} is out of range", expected="1 or more", found=str(value)
                )
        if not self.temperature > 0:
            raise InputError(
                "The temperature is out of range",
                expected="a number above 0",
                found=str(self.temperature),
            )


@dataclass(frozen=True)
class PoolRows:
    """The rows of a pool in the order of the hash."""

    num_rows: int
    columns: Mapping[str, npt.NDArray[Any]]
    """What the order reads, a file that is mapped each: vectors of length 1, (rows, dims) float32;
    numbers, (rows,) float64; of strings the number of each value, (rows,) int64, where only which
    are equal has a meaning. No row lacks a value."""


@dataclass(frozen=True)
class Ranked:
    """The first rows of a pool."""

    rows: npt.NDArray[np.int64]
    """Their positions in the hash order, the first first, (keep,); none twice."""
    value: float | None = None
    """What the choice reached, where the order has such a number."""


@runtime_checkable
class Order(Protocol):
    """Says which rows of a pool come first. Stateless, deterministic, picklable.

    Plug-ins (group `datalake.orders`) are a `RowOrder` or a `DomainOrder`.
    """

    uses: frozenset[str]
    """The fields of `OrderOptions` that it reads. Setting another one is an error of the user."""

    def reads(self, schema: pa.Schema, options: OrderOptions) -> tuple[str, ...]:
        """The columns that it needs beside the keys.

        Raises:
            InputError: an option is missing.
            SchemaError: a column is missing or of the wrong type; the error says what makes it.
        """
        ...


@runtime_checkable
class RowOrder(Order, Protocol):
    """An order by a number that each row has of its own. Streams; always nested in the cap."""

    def keys(self, rows: pa.RecordBatch, options: OrderOptions) -> pa.Array:
        """The numbers, float64: the smallest come first, null and NaN last, equal ones by the hash.

        Args:
            rows: the columns of `reads`, of any rows.
        """
        ...


@runtime_checkable
class DomainOrder(Order, Protocol):
    """An order that sees all rows of a pool. It is asked only where a pool is cut."""

    def first(self, rows: PoolRows, keep: int, options: OrderOptions) -> Ranked:
        """The first `keep` of the rows, 1 to `rows.num_rows`.

        An order is nested if the first of a smaller `keep` are those of a larger one.
        """
        ...


AnyOrder: TypeAlias = RowOrder | DomainOrder
