"""Length buckets: examples of like cost in one batch, below a limit."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from datalake.loader.batching.batching import Tail
from datalake.loader.batching.checks import (
    check_choice,
    check_flag,
    check_number,
    check_unit,
    check_whole,
)
from datalake.loader.batching.costs import Costs, Unknown
from datalake.loader.batching.cutter import Groups

__all__ = ["Buckets", "LongAlone"]

LongAlone: TypeAlias = Literal["alone", "raise"]

_MOST: Final = 2**31 - 1


@dataclass(frozen=True)
class Buckets:
    """A `Cutter` into batches; see `ByCost` for the fields."""

    kind: ClassVar[str] = "cost"
    batch_groups: ClassVar[int] = 1
    capacity: ClassVar[int] = 0

    limit: float
    unit: str
    max_examples: int | None
    padded: bool
    overlong: LongAlone
    tail: Tail
    unknown: Unknown = "raise"

    def __post_init__(self) -> None:
        check_number("limit of a batch", self.limit)
        check_unit(self.unit)
        if self.max_examples is not None:
            check_whole("largest number of examples a batch", self.max_examples, 1, _MOST)
        check_flag("padded", self.padded)
        check_choice("policy for overlong examples", self.overlong, get_args(LongAlone))
        check_choice("tail policy", self.tail, get_args(Tail))
        check_choice("policy for unknown costs", self.unknown, get_args(Unknown))

    @property
    def most(self) -> float | None:
        """An example that costs more is refused."""
        return self.limit if self.overlong == "raise" else None

    @property
    def unknown_cost(self) -> float | None:
        """An example of unknown cost fills a batch."""
        return self.limit if self.unknown == "alone" else None

    def groups(self, costs: Costs) -> Groups:
        """The longest first; as many as the limit lets into each batch."""
        order = np.argsort(-costs, kind="stable")
        falling = costs[order].tolist()
        ends = self._padded_ends(falling) if self.padded else self._summed_ends(falling)
        return Groups(order, np.array(ends, np.int64))

    def lengths(self, costs: Costs) -> npt.NDArray[np.int32] | None:  # noqa: ARG002
        """None: batches are no sequences."""
        return None

    def record(self) -> dict[str, Any]:
        """The fields as plain data."""
        record = {"by": self.kind, **asdict(self)}
        if self.unknown == "raise":
            # As it was before there was a choice.
            del record["unknown"]
        return record

    def _padded_ends(self, falling: list[float]) -> list[int]:
        limit, most = self.limit, self.max_examples or _MOST
        ends, begin = [0], 0
        while begin < len(falling):
            # The first is the longest, and what the others are padded to.
            longest, count = falling[begin], min(len(falling) - begin, most)
            if longest * count > limit:
                count = int(limit / longest)
                # The quotient may be rounded to either side.
                if longest * (count + 1) <= limit:
                    count += 1
                elif longest * count > limit:
                    count -= 1
            begin += max(count, 1)
            ends.append(begin)
        return ends

    def _summed_ends(self, falling: list[float]) -> list[int]:
        limit, most = self.limit, self.max_examples or _MOST
        ends, begin, total = [0], 0, 0.0
        # One after the other, as sums of arrays are rounded differently by different processors.
        for index, cost in enumerate(falling):
            total += cost
            if index > begin and (total > limit or index - begin >= most):
                ends.append(index)
                begin, total = index, cost
        return [*ends, len(falling)] if falling else ends
