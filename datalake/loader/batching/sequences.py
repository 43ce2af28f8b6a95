"""Packed sequences: examples that together fill a capacity."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datalake.loader.batching.batching import Tail
from datalake.loader.batching.checks import check_choice, check_unit, check_whole
from datalake.loader.batching.costs import Costs, Unknown
from datalake.loader.batching.cutter import Groups
from datalake.packing import pack_lengths

__all__ = ["LongCut", "Sequences"]

LongCut: TypeAlias = Literal["raise", "truncate"]

_MOST: Final = 2**31 - 1


@dataclass(frozen=True)
class Sequences:
    """A `Cutter` into sequences; see `Packed` for the fields."""

    kind: ClassVar[str] = "packed"

    capacity: int
    unit: str
    num_sequences: int
    overlong: LongCut
    tail: Tail
    unknown: Unknown = "raise"

    def __post_init__(self) -> None:
        check_whole("capacity of a sequence", self.capacity, 1, _MOST)
        check_unit(self.unit)
        check_whole("number of sequences a batch", self.num_sequences, 1, 2**16)
        check_choice("policy for overlong examples", self.overlong, get_args(LongCut))
        check_choice("tail policy", self.tail, get_args(Tail))
        check_choice("policy for unknown costs", self.unknown, get_args(Unknown))

    @property
    def most(self) -> float | None:
        """An example that costs more is refused."""
        return float(self.capacity) if self.overlong == "raise" else None

    @property
    def unknown_cost(self) -> float | None:
        """An example of unknown cost fills a sequence."""
        return float(self.capacity) if self.unknown == "alone" else None

    @property
    def batch_groups(self) -> int:
        """Sequences that make a batch."""
        return self.num_sequences

    def groups(self, costs: Costs) -> Groups:
        """Best fit decreasing over all of them; sequences by their first example."""
        # An example of no length has to lie somewhere too.
        lengths = np.maximum(self.lengths(costs), 1)
        bins = pack_lengths(lengths, self.capacity, window=None, carry=0)
        # The packer shuffles bins by NumPy's generators, whose numbers may change with a version.
        # What is in a bin hangs on no random number, and so this order does not either.
        by_first = np.argsort(bins.items[bins.offsets[:-1]], kind="stable")
        rank = np.empty(len(bins), np.int64)
        rank[by_first] = np.arange(len(bins))
        sizes = np.diff(bins.offsets)
        order = bins.items[np.argsort(np.repeat(rank, sizes), kind="stable")]
        return Groups(order, np.concatenate([[0], np.cumsum(sizes[by_first])]))

    def lengths(self, costs: Costs) -> npt.NDArray[np.int32]:
        """Costs rounded up to whole units, and cut to the capacity where that is the policy."""
        return np.minimum(np.ceil(costs), self.capacity).astype(np.int32)

    def record(self) -> dict[str, Any]:
        """The fields as plain data."""
        record = {"by": self.kind, **asdict(self)}
        if self.unknown == "raise":
            # As it was before there was a choice.
            del record["unknown"]
        return record
