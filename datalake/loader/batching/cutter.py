"""The contract of what cuts a window of positions into groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from datalake.loader.batching.batching import Tail
from datalake.loader.batching.costs import Costs
from datalake.loader.order.order import Indices

__all__ = ["Cutter", "Groups"]


@dataclass(frozen=True)
class Groups:
    """Examples that stay together, group after group."""

    order: Indices
    """A permutation of the examples, (examples,)."""
    offsets: Indices
    """Group g is `order[offsets[g]:offsets[g + 1]]`, never empty; (groups + 1,), from 0."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


class Cutter(Protocol):
    """Cuts examples into groups by what they cost: a pure function of the costs."""

    @property
    def unit(self) -> str:
        """Of the costs."""
        ...

    @property
    def most(self) -> float | None:
        """An example that costs more is refused."""
        ...

    @property
    def unknown_cost(self) -> float | None:
        """What an example counts for whose cost is not known; None: it is refused."""
        ...

    @property
    def capacity(self) -> int:
        """Of a group that is a sequence, in whole units; 0 where groups are no sequences."""
        ...

    @property
    def tail(self) -> Tail:
        """What to do at the epoch's end with fewer examples than ranks."""
        ...

    @property
    def batch_groups(self) -> int:
        """Groups that make a batch."""
        ...

    def groups(self, costs: Costs) -> Groups:
        """Cut examples of these costs, (examples,), into groups; deterministic to the last bit."""
        ...

    def lengths(self, costs: Costs) -> npt.NDArray[np.int32] | None:
        """Where groups are sequences: how long each example is in one, (examples,)."""
        ...

    def record(self) -> dict[str, Any]:
        """All that the groups follow from beside the costs, as plain data for a state."""
        ...
