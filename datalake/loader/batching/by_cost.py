"""`ByCost`: batches of examples of like length, below a limit of seconds, frames or tokens."""

from __future__ import annotations

from dataclasses import dataclass

from datalake.loader.batching.batching import Tail
from datalake.loader.batching.buckets import Buckets, LongAlone
from datalake.loader.batching.checks import LARGEST_WINDOW, check_whole
from datalake.loader.batching.costs import Unknown
from datalake.loader.batching.windows import Windowed

__all__ = ["ByCost"]


@dataclass(frozen=True)
class ByCost(Windowed):
    """A `Batching` by length buckets.

    The examples of a window of consecutive positions are sorted by cost and cut into batches, which
    come in an order drawn by a hash. What a batch holds follows from the sampler, the epoch, where
    the window begins, the fields and the number of ranks. All ranks make equally many steps, each
    with at least one example, and batches come longest example first.

    Every rank plans for all: some 3 microseconds a position of all ranks together.

    Raises:
        InputError: a field is out of range.
    """

    limit: float
    """What a batch may cost at most."""
    unit: str = "seconds"
    """Of the costs: one that the source knows."""
    max_examples: int | None = None
    """Examples that a batch has at most."""
    window: int = 4096
    """About how many positions are sorted together: the more, the more alike are the examples of a
    batch. Grows by itself where all ranks' batches of a single step take more."""
    tail: Tail = "pad"
    """At the epoch's end, with fewer examples than ranks: see `datalake.loader.batching.plan`."""
    padded: bool = True
    """A batch costs its longest example times its number of examples, as one does that is padded to
    the longest; if not, it costs the sum."""
    overlong: LongAlone = "alone"
    """An example above the limit: a batch of its own, or an error that names it."""
    unknown: Unknown = "raise"
    """An example whose cost nobody knows: an error that names it, or a batch of its own. A loader
    that lets others stand in for bad examples takes `alone`."""

    def __post_init__(self) -> None:
        check_whole("window", self.window, 1, LARGEST_WINDOW)
        self._cutter()

    def _cutter(self) -> Buckets:
        return Buckets(
            self.limit,
            self.unit,
            self.max_examples,
            self.padded,
            self.overlong,
            self.tail,
            self.unknown,
        )
