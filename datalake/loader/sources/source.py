"""What a loader can stream: a table whose rows become examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from datalake.loader.order.hashing import Words
from datalake.loader.order.order import Indices
from datalake.tables.protocol import Table
from datalake.telemetry import Meter

__all__ = [
    "Allocate",
    "BadRow",
    "BadRowsError",
    "Columns",
    "Flat",
    "Prefetch",
    "Repeated",
    "Source",
]

Columns: TypeAlias = dict[str, Any]
"""A batch before it becomes tensors: numpy arrays and lists, one entry an example in each but those
that lie `Flat`."""


class Allocate(Protocol):
    """Where a batch's arrays come from: recycled, pinned or shared memory, uninitialised."""

    def __call__(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of this shape and type."""
        ...


class Prefetch(Protocol):
    """Bytes under way from a store or a disk."""

    num_bytes: int
    """How many bytes of cache, page cache or memory it takes; 0 where all was there."""

    def wait(self) -> None:
        """Return when all is there; failures are left to the read that follows."""
        ...


@dataclass(frozen=True)
class BadRow:
    """A row that makes no example."""

    index: int
    """Which of the rows asked for."""
    row: int
    where: str
    """For a person: table, version, row, id."""
    reason: str
    """A code of `datalake.quarantine.Reason`, or `missing_block`."""
    detail: str


class BadRowsError(Exception):
    """Some of the rows asked for make no example. Never leaves the loader: see `trouble`."""

    def __init__(self, bad: Sequence[BadRow]) -> None:
        super().__init__(list(bad))
        self.bad = tuple(bad)


class Source(Protocol):
    """Rows of a table (or frames of an episode set) at one version, as examples.

    Thread-safe and picklable. What `read` gives for a row follows from the row and its word alone:
    neither from the rows read beside it, nor from the worker, nor from what was read before.
    """

    @property
    def tables(self) -> Sequence[Table]:
        """What it reads, at its versions."""
        ...

    @property
    def num_rows(self) -> int:
        """Rows of the version; examples are numbered as rows are."""
        ...

    @property
    def kind(self) -> str:
        """Sources of one kind give the same keys and can share a batch."""
        ...

    @property
    def block_rows(self) -> int:
        """Consecutive rows that come from the store together: a power of two, fixed for a
        version."""
        ...

    def identity(self) -> Mapping[str, str | int]:
        """What gives a row its meaning: uri and version of the table or tables. Plain data."""
        ...

    def view(self) -> Source:
        """The same examples for another stream: cheap, and whatever is large is shared.

        `attach`, and how it is read (`scatter`, `prefetch`, `expect`), are a view's own. Every
        loader takes one, so that loaders of one source do not meddle with each other.
        """
        ...

    def attach(self, meter: Meter) -> None:
        """Count and time into this meter from now on."""
        ...

    def read(self, rows: Indices, words: Words, allocate: Allocate) -> Columns:
        """Examples of rows, in the order asked, repeats allowed.

        Args:
            rows: (n,).
            words: (n,): a random word an example, from which crops and augmentation follow.
            allocate: for large arrays.

        Raises:
            BadRowsError: some rows cannot be read or decoded; names all of them.
        """
        ...

    def prefetch(self, rows: Indices) -> Prefetch:
        """Begin to bring near what `read` will need for these rows; returns at once."""
        ...

    def expect(self, rows: Indices, in_s: float) -> None:
        """The blocks of these rows are done with, and wanted again in about so many seconds."""
        ...

    def costs(self, rows: Indices, unit: str) -> npt.NDArray[np.float64]:
        """How much each row counts for in a batch, (n,): `seconds`, `samples`, `frames`…

        NaN where the table does not tell.

        Raises:
            InputError: the source does not know the unit; names those it knows.
        """
        ...

    def domains(self, rows: Indices) -> list[str | None]:
        """The domain of each row."""
        ...

    def ids(self, rows: Indices) -> list[str]:
        """What a person calls each row: its utt_id, or episode and frame."""
        ...

    def prepare_fork(self) -> None:
        """Read what a forked process could not.

        Raises:
            InputError: a forked process cannot read this source (says what to do).
        """
        ...


@runtime_checkable
class Flat(Protocol):
    """A source with columns that lie flat: the values of all examples one after the other, without
    padding, as packed sequences want them."""

    @property
    def flat(self) -> Mapping[str, str]:
        """Which columns, and for each the column that says how much of it an example has, (n,).
        Empty where the source is asked for another layout."""
        ...

    @property
    def flat_unit(self) -> str:
        """The unit of `costs` in which these lengths count."""
        ...


@runtime_checkable
class Repeated(Protocol):
    """A source with columns of rows that are as long as the longest of a batch, the shorter ones
    filled by themselves again. Where parts of a mixture are put together, what lies behind is
    filled in the same way; in columns of other sources it becomes 0."""

    @property
    def repeated(self) -> Mapping[str, str]:
        """Which columns, and for each the column that says how much of it is an example's own,
        (n,). Empty where the source is asked for another filling, or for one length."""
        ...
